;; attack: calls an empty slot of a table
;; expect: stopped: trap
(type $f (func (result i32)))
(table 4 4 funcref)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call_indirect (type $f) (i32.const 3)))

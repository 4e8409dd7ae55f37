;; attack: calls behind the end of a table
;; expect: stopped: trap
(type $f (func (result i32)))
(table 1 1 funcref)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call_indirect (type $f) (i32.const -1)))

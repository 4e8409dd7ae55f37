;; attack: calls a function as if it had another type
;; expect: stopped: trap indirect call type mismatch
(type $f (func (param i64) (result i32)))
(table 1 1 funcref)
(elem (i32.const 0) $done)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call_indirect (type $f) (i64.const 0) (i32.const 0)))

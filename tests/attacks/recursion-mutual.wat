;; attack: two functions call each other without end, one of them through a table
;; expect: stopped: trap call stack exhausted
(type $f (func (param i32) (result i32)))
(table 1 1 funcref)
(elem (i32.const 0) $ping)
(func $ping (type $f) (i32.add (call $pong (local.get 0)) (i32.const 1)))
(func $pong (type $f) (i32.add (call_indirect (type $f) (local.get 0) (i32.const 0)) (i32.const 1)))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $ping (i32.const 0)))

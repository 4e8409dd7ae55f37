;; attack: calls itself without end
;; expect: stopped: trap call stack exhausted
(func $down (param i32) (result i32) (i32.add (call $down (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $down (i32.const 0)))

;; attack: recurses until almost nothing of the stack is left and asks there, so that the host's frames have to fit too
;; expect: stopped: trap call stack exhausted
;; budget: effects=100000 bytes=67108864 fuel=2000000000
(func $down (param i32) (result i32)
  (call $clock.now (i32.const 64))
  (i32.add (call $down (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $down (i32.const 0)))

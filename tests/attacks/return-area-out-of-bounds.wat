;; attack: wants the answer written behind the end of its memory
;; expect: stopped: bad-value out of bounds
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $clock.now (i32.const 65528))
  (call $done))

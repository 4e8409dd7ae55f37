;; attack: wants the answer written to an odd address
;; expect: stopped: bad-value not aligned
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $clock.now (i32.const 65))
  (call $done))

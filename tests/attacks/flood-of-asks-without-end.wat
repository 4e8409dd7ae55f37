;; attack: asks as often as an operator could ever allow: fuel ends it all the same
;; expect: stopped: fuel
;; budget: effects=100000 bytes=67108864 wall-ms=60000
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $again
    (call $clock.now (i32.const 64))
    (br $again))
  unreachable)

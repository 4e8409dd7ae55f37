;; attack: asks although it may not ask at all
;; expect: stopped: refused effects-spent
;; budget: effects=0
;; effects: 1
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $clock.now (i32.const 64))
  (call $done))

;; attack: asks once more than its turn may
;; expect: stopped: refused effects-spent
;; budget: effects=3
;; effects: 4
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $clock.now (i32.const 64))
  (call $clock.now (i32.const 64))
  (call $clock.now (i32.const 64))
  (call $clock.now (i32.const 64))
  (call $done))

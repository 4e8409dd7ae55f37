;; attack: writes with the largest address and the largest offset there are
;; expect: stopped: trap out of bounds
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i64.store offset=4294967295 (i32.const -1) (i64.const -1))
  (call $done))

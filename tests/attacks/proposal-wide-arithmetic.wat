;; attack: 128-bit arithmetic
;; expect: admission refused: not a valid component
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i64.mul_wide_u (i64.const 1) (i64.const 2)) (drop) (drop) (call $done))

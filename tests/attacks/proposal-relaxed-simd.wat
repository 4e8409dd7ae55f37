;; attack: instructions that differ from machine to machine
;; expect: admission refused: not a valid component
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (f32x4.relaxed_madd (f32x4.splat (f32.const 1)) (f32x4.splat (f32.const 2)) (f32x4.splat (f32.const 3))))
  (call $done))

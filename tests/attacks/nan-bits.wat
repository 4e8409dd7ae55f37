;; attack: looks for a NaN whose bits tell one machine from another: all that come from arithmetic are the same
;; expect: replied done
(global $zero (mut f64) (f64.const 0))
(func $canonical (param i64) (if (i64.ne (local.get 0) (i64.const 0x7ff8000000000000)) (then unreachable)))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $canonical (i64.reinterpret_f64 (f64.div (global.get $zero) (global.get $zero))))
  (call $canonical (i64.reinterpret_f64 (f64.sqrt (f64.sub (global.get $zero) (f64.const 1)))))
  (call $canonical (i64.reinterpret_f64 (f64.add (f64.const nan:0x8000000000001) (global.get $zero))))
  (call $canonical (i64.reinterpret_f64 (f64.mul (f64.const -nan:0xdeadbeef) (f64.const -1))))
  (call $canonical (i64.reinterpret_f64 (f64.promote_f32 (f32.demote_f64 (f64.const -nan:0x1)))))
  (call $canonical (i64x2.extract_lane 1 (f64x2.max (f64x2.splat (f64.const -nan:0x7)) (f64x2.splat (global.get $zero)))))
  (call $done))

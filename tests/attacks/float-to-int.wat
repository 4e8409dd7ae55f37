;; attack: turns a NaN into a number
;; expect: stopped: trap
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.trunc_f64_s (f64.const nan)))

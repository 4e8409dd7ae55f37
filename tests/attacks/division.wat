;; attack: divides by zero
;; expect: stopped: trap divide by zero
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.div_u (i32.const 1) (local.get 0)))

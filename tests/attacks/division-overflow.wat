;; attack: divides the smallest number by minus one
;; expect: stopped: trap integer overflow
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.div_s (i32.const 0x80000000) (i32.sub (local.get 0) (i32.const 1))))

;; attack: its reply lies at an odd address
;; expect: stopped: bad-value not aligned
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 17))

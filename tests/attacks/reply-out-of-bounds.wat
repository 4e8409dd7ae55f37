;; attack: its reply lies behind the end of its memory
;; expect: stopped: bad-value out of bounds
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 65532))

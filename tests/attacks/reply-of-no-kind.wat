;; attack: its reply is neither a success nor a failure
;; expect: stopped: bad-value
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.store (i32.const 16) (i32.const 9))
  (i32.const 16))

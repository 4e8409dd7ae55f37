;; attack: the type of its reply is longer than any type
;; expect: stopped: bad-value a content type of 2000 bytes
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (call $done))
  (i32.store (i32.const 20) (i32.const 512))
  (i32.store (i32.const 24) (i32.const 2000))
  (i32.const 16))

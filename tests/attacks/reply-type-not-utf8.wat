;; attack: the type of its reply is no text
;; expect: stopped: bad-value utf-8
(data (i32.const 256) "\ff")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (call $done))
  (i32.store (i32.const 20) (i32.const 256))
  (i32.const 16))

;; attack: replies with its whole memory, type and body over each other and over the reply itself
;; expect: replied
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (call $reply (i32.const 0) (i32.const 65536)))
  (i32.store (i32.const 20) (i32.const 0))
  (i32.store (i32.const 24) (i32.const 1024))
  (i32.const 16))

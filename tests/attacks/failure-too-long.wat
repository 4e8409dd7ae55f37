;; attack: fails with a text longer than any text
;; expect: stopped: bad-value an error text of 65537 bytes
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 1)))
  (i32.store8 (i32.const 16) (i32.const 1))
  (i32.store8 (i32.const 20) (i32.const 1))
  (i32.store (i32.const 24) (i32.const 60))
  (i32.store (i32.const 28) (i32.const 65537))
  (i32.const 16))

;; attack: stores one byte more than its turn may move
;; expect: stopped: refused bytes-spent
;; budget: bytes=100
;; effects: 1
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.set (i32.const 256) (i32.const 1) (i32.const 256) (i32.const 100) (i32.const 64))
  (call $done))

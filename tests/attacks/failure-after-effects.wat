;; attack: stores something, then says that it failed: nothing of the turn may be kept
;; expect: failed k
;; effects: 1
(data (i32.const 256) "k")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.set (i32.const 256) (i32.const 1) (i32.const 256) (i32.const 1) (i32.const 64))
  (i32.store8 (i32.const 16) (i32.const 1))
  (i32.store8 (i32.const 20) (i32.const 1))
  (i32.store (i32.const 24) (i32.const 256))
  (i32.store (i32.const 28) (i32.const 1))
  (i32.const 16))

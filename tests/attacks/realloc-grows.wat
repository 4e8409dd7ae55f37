;; attack: grows its memory by a MiB at every wish, under the host's feet
;; expect: replied done
;; input: a message that needs room
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
  (i32.shl (memory.grow (i32.const 16)) (i32.const 16)))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $random.bytes (i32.const 100) (i32.const 64))
  (call $done))

;; attack: answers wishes for memory with the last address there is
;; expect: stopped: bad-value
;; input: a message that needs room
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
  (i32.const -1))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $random.bytes (i32.const 100) (i32.const 64))
  (call $done))

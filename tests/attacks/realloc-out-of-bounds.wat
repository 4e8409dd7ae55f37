;; attack: answers wishes for memory with an address behind its end
;; expect: stopped: bad-value beyond end of memory
;; input: a message that needs room
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
  (i32.const 0x7ffffff8))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $random.bytes (i32.const 100) (i32.const 64))
  (call $done))

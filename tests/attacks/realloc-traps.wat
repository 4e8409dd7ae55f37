;; attack: traps at a wish for memory
;; expect: stopped: trap unreachable
;; input: a message that needs room
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
  unreachable)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $random.bytes (i32.const 100) (i32.const 64))
  (call $done))

;; attack: recurses without end at a wish for memory
;; expect: stopped: trap call stack exhausted
;; input: a message that needs room
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
  (i32.add (call $cabi_realloc (local.get 0) (local.get 1) (local.get 2) (local.get 3)) (i32.const 8)))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $random.bytes (i32.const 100) (i32.const 64))
  (call $done))

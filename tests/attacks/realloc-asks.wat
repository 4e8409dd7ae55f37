;; attack: asks for something in the middle of the host's own call
;; expect: stopped: trap cannot leave component instance
;; input: a message that needs room
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
  (call $clock.now (i32.const 64)) (i32.const 32768))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $random.bytes (i32.const 100) (i32.const 64))
  (call $done))

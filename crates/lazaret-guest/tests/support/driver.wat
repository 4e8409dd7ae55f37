  ;; The empty module is the random one's place: without a name, or it would not be empty.
  (core module)
  (core instance $random (instantiate 3 (with "ask" (instance $main))))
  (core module $drive
    (import "memory" "memory" (memory 1))
    (import "random" "a" (func $a (param i32 i64) (result i64)))
    (import "random" "b" (func $b (param f64 f32) (result f64)))
    ;; Calls both with numbers from the message and replies with what they returned, bit for bit.
    (func (export "handle") (param i32 i32 i32 i32 i32) (param $body i32) (param $len i32) (result i32)
      (local $number i64)
      (local.set $number (i64.load (local.get $body)))
      (i64.store (i32.const 128) (call $a (i32.wrap_i64 (local.get $number)) (local.get $number)))
      (f64.store (i32.const 136)
        (call $b (f64.convert_i64_s (local.get $number)) (f32.convert_i64_u (local.get $number))))
      (i32.store (i32.const 160) (i32.const 0))
      (i32.store (i32.const 164) (i32.const 128))
      (i32.store (i32.const 168) (i32.const 0))
      (i32.store (i32.const 172) (i32.const 128))
      (i32.store (i32.const 176) (i32.const 16))
      (i32.const 160)))
  (core instance $driver (instantiate $drive
    (with "memory" (instance $main)) (with "random" (instance $random))))

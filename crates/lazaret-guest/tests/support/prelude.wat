    ;; What an attack finds in front of it. Memory is one page: 16 to 64 belong to the functions below, 64 to 128 is
    ;; where asks put what comes back, 256 to 32768 is the attack's, the heap begins at 32768. A part is left out if the
    ;; attack brings its own: the memory, `cabi_realloc`.
;;; memory
    (memory (export "memory") 1)
;;; cabi_realloc
    (global $heap (mut i32) (i32.const 32768))
    (func $cabi_realloc (export "cabi_realloc") (param $old i32) (param $old-len i32) (param $align i32) (param $len i32)
      (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
      (global.set $heap (i32.add (local.get $at) (local.get $len)))
      (block $fits (loop $grow
        (br_if $fits (i32.le_u (global.get $heap) (i32.shl (memory.size) (i32.const 16))))
        (br_if $grow (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))
        unreachable))
      (local.get $at))
;;; helpers
    ;; A reply of these bytes, of type "t".
    (func $reply (param $at i32) (param $len i32) (result i32)
      (i32.store8 (i32.const 44) (i32.const 116))
      (i32.store (i32.const 16) (i32.const 0))
      (i32.store (i32.const 20) (i32.const 44))
      (i32.store (i32.const 24) (i32.const 1))
      (i32.store (i32.const 28) (local.get $at))
      (i32.store (i32.const 32) (local.get $len))
      (i32.const 16))
    ;; A reply that says "done".
    (func $done (result i32)
      (i32.store (i32.const 40) (i32.const 0x656e6f64))
      (call $reply (i32.const 40) (i32.const 4)))
    ;; A reply that says what an ask came back with at 64: "done", the refusal's code or the failure's text. The payload
    ;; stands at 68, or at 72 if an answer of its kind holds 64-bit numbers.
    (func $answer (param $payload i32) (result i32)
      (if (i32.eqz (i32.load8_u (i32.const 64))) (then (return (call $done))))
      (call $reply (i32.load (i32.add (local.get $payload) (i32.const 4)))
        (i32.load (i32.add (local.get $payload) (i32.const 8)))))

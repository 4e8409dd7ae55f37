;; An agent with a large heap. The message is a little-endian number: so many pages of 4 KiB are changed, spread evenly.
;; The greatest number fills the whole heap with what doesn't compress well.
(component
  (import "lazaret:host/types@0.1.0" (instance $types
    (type $m (record (field "sender" (option string)) (field "content-type" string) (field "body" (list u8))))
    (export "message" (type (eq $m)))
    (type $p (record (field "content-type" string) (field "body" (list u8))))
    (export "reply" (type (eq $p)))
    (type $e (variant (case "bad-input" string) (case "failed" string)))
    (export "failure" (type (eq $e)))))
  (alias export $types "message" (type $message))
  (alias export $types "reply" (type $reply))
  (alias export $types "failure" (type $failure))
  (core module $heap
    (memory (export "memory") PAGES)
    (global $turn (mut i64) (i64.const 1))
    ;; The first page is for messages and replies.
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func $random (result i64)
      (global.set $turn (i64.add
        (i64.mul (global.get $turn) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
      (global.get $turn))
    (func $fill
      (local $at i32)
      (local.set $at (i32.const 4096))
      (loop $next
        (i64.store (local.get $at) (call $random))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (br_if $next (i32.lt_u (local.get $at) (i32.shl (memory.size) (i32.const 16))))))
    (func $change (param $left i32)
      (local $at i32) (local $stride i32)
      (if (i32.eqz (local.get $left)) (then (return)))
      (local.set $stride (i32.and
        (i32.div_u (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 4096)) (local.get $left))
        (i32.const -4096)))
      (local.set $at (i32.const 4096))
      (loop $next
        (i64.store (local.get $at) (call $random))
        (local.set $at (i32.add (local.get $at) (local.get $stride)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $next (local.get $left))))
    (func (export "handle") (param i32 i32 i32 i32 i32) (param $body i32) (param $len i32) (result i32)
      (local $pages i32)
      (local.set $pages (i32.load (local.get $body)))
      (if (i32.eq (local.get $pages) (i32.const -1))
        (then (call $fill))
        (else (call $change (local.get $pages))))
      ;; An empty reply of no type.
      (i32.store (i32.const 256) (i32.const 0))
      (i32.store (i32.const 260) (i32.const 0))
      (i32.store (i32.const 264) (i32.const 0))
      (i32.store (i32.const 268) (i32.const 0))
      (i32.store (i32.const 272) (i32.const 0))
      (i32.const 256)))
  (core instance $main (instantiate $heap))
  (alias core export $main "memory" (core memory $mem))
  (func (export "handle") (param "input" $message) (result (result $reply (error $failure)))
    (canon lift (core func $main "handle") (memory $mem) (realloc (core func $main "cabi_realloc")))))

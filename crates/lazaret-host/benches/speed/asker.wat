;; An agent whose message is a little-endian number: so often it asks for `storage.get` of the key "key". The greatest
;; number makes it set that key instead. A second number in the message makes the keys differ: they are called "key" and
;; eight letters for that number, which then is one more.
(component
  (import "lazaret:host/types@0.1.0" (instance $types
    (type $r (record (field "code" string) (field "layer" string) (field "reason" string) (field "remedy" string)))
    (export "refusal" (type $refusal (eq $r)))
    (type $f (variant (case "refused" $refusal) (case "failed" string)))
    (export "fault" (type (eq $f)))
    (type $m (record (field "sender" (option string)) (field "content-type" string) (field "body" (list u8))))
    (export "message" (type (eq $m)))
    (type $p (record (field "content-type" string) (field "body" (list u8))))
    (export "reply" (type (eq $p)))
    (type $e (variant (case "bad-input" string) (case "failed" string)))
    (export "failure" (type (eq $e)))))
  (alias export $types "fault" (type $fault))
  (alias export $types "message" (type $message))
  (alias export $types "reply" (type $reply))
  (alias export $types "failure" (type $failure))
  (import "lazaret:host/storage@0.1.0" (instance $storage
    (alias outer 1 $fault (type $f))
    (export "fault" (type $fault (eq $f)))
    (type $e (record (field "value" (list u8)) (field "version" u64)))
    (export "entry" (type $entry (eq $e)))
    (export "get" (func (param "key" string) (result (result (option $entry) (error $fault)))))
    (export "set" (func (param "key" string) (param "value" (list u8)) (result (result u64 (error $fault)))))))
  ;; Lowered imports need a memory that is there before the module which uses them.
  (core module $memory
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 1024))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
      ;; Nothing lives for long here: after half of the memory it begins anew.
      (if (i32.gt_u (global.get $next) (i32.const 32768)) (then (global.set $next (i32.const 1024))))
      (global.get $next)
      (global.set $next (i32.and (i32.add (i32.add (global.get $next) (local.get 3)) (i32.const 15)) (i32.const -8)))))
  (core instance $held (instantiate $memory))
  (alias core export $held "memory" (core memory $mem))
  (alias core export $held "cabi_realloc" (core func $realloc))
  (core func $get (canon lower (func $storage "get") (memory $mem) (realloc $realloc)))
  (core func $set (canon lower (func $storage "set") (memory $mem) (realloc $realloc)))
  (core module $asker
    (import "host" "memory" (memory 1))
    (import "host" "get" (func $get (param i32 i32 i32)))
    (import "host" "set" (func $set (param i32 i32 i32 i32 i32)))
    (data (i32.const 0) "key")
    (func $name (param $number i32)
      (local $at i32)
      (local.set $at (i32.const 3))
      (loop $letter
        (i32.store8 (local.get $at) (i32.add (i32.const 97) (i32.and (local.get $number) (i32.const 15))))
        (local.set $number (i32.shr_u (local.get $number) (i32.const 4)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $letter (i32.lt_u (local.get $at) (i32.const 11)))))
    (func (export "handle") (param i32 i32 i32 i32 i32) (param $body i32) (param $len i32) (result i32)
      (local $left i32) (local $number i32) (local $key i32)
      (local.set $left (i32.load (local.get $body)))
      (local.set $number (i32.load offset=4 (local.get $body)))
      (local.set $key (select (i32.const 11) (i32.const 3) (i32.gt_u (local.get $len) (i32.const 4))))
      (if (i32.eq (local.get $left) (i32.const -1))
        (then
          (call $set (i32.const 0) (i32.const 3) (i32.const 16) (i32.const 64) (i32.const 128))
          (if (i32.load8_u (i32.const 128)) (then unreachable)))
        (else
          (block $done (loop $again
            (br_if $done (i32.eqz (local.get $left)))
            (if (i32.eq (local.get $key) (i32.const 11)) (then
              (call $name (local.get $number))
              (local.set $number (i32.add (local.get $number) (i32.const 1)))))
            (call $get (i32.const 0) (local.get $key) (i32.const 128))
            (if (i32.load8_u (i32.const 128)) (then unreachable))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br $again)))))
      ;; A reply of the type "key" with an empty body.
      (i32.store (i32.const 256) (i32.const 0))
      (i32.store (i32.const 260) (i32.const 0))
      (i32.store (i32.const 264) (i32.const 3))
      (i32.store (i32.const 268) (i32.const 0))
      (i32.store (i32.const 272) (i32.const 0))
      (i32.const 256)))
  (core instance $main (instantiate $asker (with "host" (instance
    (export "memory" (memory $mem))
    (export "get" (func $get))
    (export "set" (func $set))))))
  (func (export "handle") (param "input" $message) (result (result $reply (error $failure)))
    (canon lift (core func $main "handle") (memory $mem) (realloc $realloc))))

;; An agent that is never done. The message's first byte says what it does for ever: `s` computes; `c` computes a little and
;; asks what time it is; `d` has a draft kept by the tool `mail.draft` and asks what time it is.
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
  (import "lazaret:host/clock@0.1.0" (instance $clock
    (alias outer 1 $fault (type $f))
    (export "fault" (type $fault (eq $f)))
    (export "now" (func (result (result u64 (error $fault)))))))
  (import "lazaret:host/tools@0.1.0" (instance $tools
    (alias outer 1 $fault (type $f))
    (export "fault" (type $fault (eq $f)))
    (export "call" (func (param "name" string) (param "arguments" string) (result (result string (error $fault)))))))
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
  (core func $now (canon lower (func $clock "now") (memory $mem) (realloc $realloc)))
  (core func $call (canon lower (func $tools "call") (memory $mem) (realloc $realloc)))
  (core module $busy
    (import "host" "memory" (memory 1))
    (import "host" "now" (func $now (param i32)))
    (import "host" "call" (func $call (param i32 i32 i32 i32 i32)))
    (data (i32.const 0) "mail.draft")
    (data (i32.const 16) "{\22to\22:\22a\22,\22subject\22:\22b\22,\22body\22:\22c\22}")
    (func (export "handle") (param i32 i32 i32 i32 i32) (param $body i32) (param i32) (result i32)
      (local $what i32) (local $left i32)
      (local.set $what (i32.load8_u (local.get $body)))
      (loop $again
        (if (i32.eq (local.get $what) (i32.const 99)) (then
          (local.set $left (i32.const 50000))
          (loop $think
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $think (local.get $left)))))
        (if (i32.eq (local.get $what) (i32.const 100)) (then
          (call $call (i32.const 0) (i32.const 10) (i32.const 16) (i32.const 35) (i32.const 128))))
        (if (i32.ne (local.get $what) (i32.const 115)) (then (call $now (i32.const 192))))
        (br $again))
      unreachable))
  (core instance $main (instantiate $busy (with "host" (instance
    (export "memory" (memory $mem))
    (export "now" (func $now))
    (export "call" (func $call))))))
  (func (export "handle") (param "input" $message) (result (result $reply (error $failure)))
    (canon lift (core func $main "handle") (memory $mem) (realloc $realloc))))

;; attack: a WASI command that prints without end
;; expect: stopped: bad-value
;; budget: fuel=2000000000
;; raw component
(component
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $out (sub resource)))
    (alias outer 1 $error (type $e))
    (export "error" (type $error (eq $e)))
    (type $s (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $s)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $out)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $out))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $out (type $o))
    (export "output-stream" (type $out (eq $o)))
    (export "get-stdout" (func (result (own $out))))))
  (core module $memory (memory (export "memory") 1))
  (core instance $memory (instantiate $memory))
  (core func $get (canon lower (func $stdout "get-stdout")))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
    (memory $memory "memory")))
  (core module $m
    (import "" "get" (func $get (result i32)))
    (import "" "write" (func $write (param i32 i32 i32 i32)))
    (func (export "run") (result i32)
      (local $out i32)
      (local.set $out (call $get))
      (loop $again (call $write (local.get $out) (i32.const 0) (i32.const 4096) (i32.const 8192)) (br $again))
      unreachable))
  (core instance $i (instantiate $m (with "" (instance (export "get" (func $get)) (export "write" (func $write))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance (export "wasi:cli/run@0.2.0") (export "run" (func $run))))

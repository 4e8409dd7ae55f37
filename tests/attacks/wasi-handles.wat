;; attack: a WASI command that takes handles without end and gives none back
;; expect: stopped: bad-value handles
;; raw component
(component
  (import "wasi:io/streams@0.2.0" (instance $streams (export "output-stream" (type (sub resource)))))
  (alias export $streams "output-stream" (type $out))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $out (type $o))
    (export "output-stream" (type $out (eq $o)))
    (export "get-stdout" (func (result (own $out))))))
  (core func $get (canon lower (func $stdout "get-stdout")))
  (core module $m
    (import "" "get" (func $get (result i32)))
    (func (export "run") (result i32)
      (loop $again (drop (call $get)) (br $again))
      unreachable))
  (core instance $i (instantiate $m (with "" (instance (export "get" (func $get))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance (export "wasi:cli/run@0.2.0") (export "run" (func $run))))

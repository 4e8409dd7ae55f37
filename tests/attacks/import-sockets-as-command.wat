;; attack: imports sockets as an ordinary WASI command
;; expect: admission refused: imports `wasi:sockets/tcp@0.2.0`
;; raw component
(component
  (import "wasi:sockets/tcp@0.2.0" (instance (export "connect" (func))))
  (core module $m (func (export "f") (result i32) (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $run (result (result)) (canon lift (core func $i "f")))
  (instance (export "wasi:cli/run@0.2.0") (export "run" (func $run))))

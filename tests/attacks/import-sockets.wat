;; attack: imports sockets
;; expect: admission refused: imports `wasi:sockets/tcp@0.2.0`
;; raw component
(component
  (import "wasi:sockets/tcp@0.2.0" (instance (export "connect" (func))))
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func (export "handle") (canon lift (core func $i "f"))))

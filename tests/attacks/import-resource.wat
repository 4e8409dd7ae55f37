;; attack: imports a resource, whose handles would not survive sleep
;; expect: admission refused: resource
;; raw component
(component
  (import "lazaret:host/clock@0.1.0" (instance (export "timer" (type (sub resource)))))
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func (export "handle") (canon lift (core func $i "f"))))

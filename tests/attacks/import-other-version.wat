;; attack: imports an interface of a version that there isn't
;; expect: admission refused: imports `lazaret:host/clock@9.0.0`
;; raw component
(component
  (import "lazaret:host/clock@9.0.0" (instance (export "now" (func (result u32)))))
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func (export "handle") (canon lift (core func $i "f"))))

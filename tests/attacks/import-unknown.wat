;; attack: imports a function of the host's that there isn't
;; expect: admission refused: doesn't fit what the host offers
;; raw component
(component
  (import "lazaret:host/vault@0.1.0" (instance (export "open" (func (result string)))))
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func (export "handle") (canon lift (core func $i "f"))))

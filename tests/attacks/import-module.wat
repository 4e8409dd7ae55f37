;; attack: imports code
;; expect: admission refused: core module is imported
;; raw component
(component
  (import "lazaret:host/code@0.1.0" (core module $m (export "f" (func))))
  (core instance $i (instantiate $m))
  (func (export "handle") (canon lift (core func $i "f"))))

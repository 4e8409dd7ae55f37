;; attack: imports a function of the host's with another type, to have its words misread
;; expect: admission refused: doesn't fit what the host offers
;; raw component
(component
  (import "lazaret:host/clock@0.1.0" (instance (export "now" (func (param "x" string) (result u32)))))
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func (export "handle") (canon lift (core func $i "f"))))

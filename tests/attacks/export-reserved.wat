;; attack: exports what the host adds to a component in order to read its memory
;; expect: admission refused: begins with `lazaret`, which is kept for the host
;; raw component
(component
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func (export "lazaret-birth-0") (canon lift (core func $i "f")))
  (func (export "handle") (canon lift (core func $i "f"))))

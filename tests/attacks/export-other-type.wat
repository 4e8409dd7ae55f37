;; attack: exports `handle` with another type
;; expect: admission refused: can't be born
;; raw component
(component
  (core module $m (func (export "f") (param i32) (result i32) (local.get 0)))
  (core instance $i (instantiate $m))
  (func (export "handle") (param "n" u32) (result u32) (canon lift (core func $i "f"))))

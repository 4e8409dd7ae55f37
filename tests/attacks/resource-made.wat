;; attack: makes handles of its own, which live in the host
;; expect: admission refused: `resource.new` is used here
;; raw component
(component
  (type $r (resource (rep i32)))
  (core func $new (canon resource.new $r))
  (core module $m (import "" "new" (func (param i32) (result i32))) (func (export "f") (drop (call 0 (i32.const 1)))))
  (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
  (func (export "handle") (canon lift (core func $i "f"))))

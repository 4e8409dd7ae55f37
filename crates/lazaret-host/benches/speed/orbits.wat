;; Floats: a body on its orbit round a heavier one, step by step.
(module
  (func (export "work") (param $rounds i32) (result i64)
    (local $x f64) (local $y f64) (local $vx f64) (local $vy f64) (local $r f64) (local $pull f64)
    (local.set $x (f64.const 1))
    (local.set $vy (f64.const 1))
    (loop $step
      (local.set $r (f64.add (f64.mul (local.get $x) (local.get $x)) (f64.mul (local.get $y) (local.get $y))))
      (local.set $pull (f64.div (f64.const -0.01) (f64.mul (local.get $r) (f64.sqrt (local.get $r)))))
      (local.set $vx (f64.add (local.get $vx) (f64.mul (local.get $pull) (local.get $x))))
      (local.set $vy (f64.add (local.get $vy) (f64.mul (local.get $pull) (local.get $y))))
      (local.set $x (f64.add (local.get $x) (f64.mul (f64.const 0.01) (local.get $vx))))
      (local.set $y (f64.add (local.get $y) (f64.mul (f64.const 0.01) (local.get $vy))))
      (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
      (br_if $step (local.get $rounds)))
    (i64.reinterpret_f64 (f64.add (local.get $x) (local.get $y)))))

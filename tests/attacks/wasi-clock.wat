;; attack: a WASI command that watches the clock until a century has passed
;; expect: stopped: refused effects-spent
;; raw component
(component
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock (export "now" (func (result u64)))))
  (core func $now (canon lower (func $clock "now")))
  (core module $m
    (import "" "now" (func $now (result i64)))
    (func (export "run") (result i32)
      (local $end i64)
      (local.set $end (i64.add (call $now) (i64.const 3155760000000000000)))
      (loop $wait (br_if $wait (i64.lt_u (call $now) (local.get $end))))
      (i32.const 0)))
  (core instance $i (instantiate $m (with "" (instance (export "now" (func $now))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance (export "wasi:cli/run@0.2.0") (export "run" (func $run))))

;; attack: a log level that there isn't
;; expect: stopped: bad-value
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $log.write (i32.const 77) (i32.const 256) (i32.const 1) (i32.const 64))
  (call $done))

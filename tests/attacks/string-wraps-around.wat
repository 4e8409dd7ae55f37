;; attack: a string that begins before the end of the address space and ends after its beginning
;; expect: stopped: bad-value out of bounds
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $log.write (i32.const 1) (i32.const -16) (i32.const 32) (i32.const 64))
  (call $done))

;; attack: a string that ends behind the memory's end
;; expect: stopped: bad-value out of bounds
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $log.write (i32.const 1) (i32.const 65535) (i32.const 2) (i32.const 64))
  (call $done))

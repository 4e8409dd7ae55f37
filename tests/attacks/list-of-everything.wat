;; attack: a list as long as 32 bits can say
;; expect: stopped: bad-value out of bounds
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.set (i32.const 256) (i32.const 1) (i32.const 0) (i32.const -1) (i32.const 64))
  (call $done))

;; attack: hands over 100 MB in one call
;; expect: stopped: bad-value
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 1600)))
  (call $storage.set (i32.const 256) (i32.const 1) (i32.const 0) (i32.const 100000000) (i32.const 64))
  (call $done))

;; attack: replies with 100 MB
;; expect: stopped: bad-value
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 1600)))
  (call $reply (i32.const 0) (i32.const 100000000)))

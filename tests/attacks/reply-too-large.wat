;; attack: replies with one byte more than a reply may have
;; expect: stopped: bad-value a reply of 4194305 bytes; the most is 4194304
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 80)))
  (call $reply (i32.const 0) (i32.const 4194305)))

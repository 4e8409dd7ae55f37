;; attack: replies with all that a reply may have, which is its right
;; expect: replied
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 80)))
  (call $reply (i32.const 0) (i32.const 4194304)))

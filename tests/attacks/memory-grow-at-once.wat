;; attack: wants 4 GiB in one step
;; expect: stopped: memory
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (if (i32.eq (memory.grow (i32.const 65535)) (i32.const -1)) (then unreachable))
  (call $done))

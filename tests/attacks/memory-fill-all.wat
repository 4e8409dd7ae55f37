;; attack: writes to every page of the budget, so that the host has to keep all of them
;; expect: replied done
;; budget: memory=67108864 fuel=2000000000
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 1023)))
  (memory.fill (i32.const 65536) (i32.const 90) (i32.const 67043328))
  (call $done))

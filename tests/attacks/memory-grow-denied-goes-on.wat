;; attack: is denied memory and lives with it, which is its right
;; expect: replied done
;; budget: memory=1048576
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 1000)))
  (call $done))

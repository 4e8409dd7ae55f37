;; attack: asks for the largest number of pages there is; asking has a price
;; expect: stopped: fuel
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const -1)))
  (call $done))

;; attack: grows by a number of pages that overflows 32 bits of bytes, and goes on as if nothing were
;; expect: replied done
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const -1)))
  (drop (memory.grow (i32.const 0x80000000)))
  (drop (memory.grow (i32.const 65536)))
  (call $done))

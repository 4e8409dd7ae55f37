;; attack: grows by numbers of pages that overflow 32 bits of bytes, and goes on as if nothing were
;; expect: replied done
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 65536)))
  (drop (memory.grow (i32.const 65537)))
  (drop (memory.grow (i32.const 131072)))
  (call $done))

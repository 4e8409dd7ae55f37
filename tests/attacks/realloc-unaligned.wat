;; attack: answers wishes for memory with an odd address
;; expect: stopped: bad-value not aligned
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
  (i32.const 1))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $tools.list (i32.const 64))
  (call $done))

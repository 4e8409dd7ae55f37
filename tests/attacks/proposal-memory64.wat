;; attack: a memory with 64-bit addresses
;; expect: admission refused: not a valid component
(memory (export "memory") i64 1)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $cabi_realloc (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)


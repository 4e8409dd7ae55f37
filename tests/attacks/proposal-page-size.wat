;; attack: a memory of single bytes
;; expect: admission refused: not a valid component
(memory (export "memory") 65536 (pagesize 1))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

;; attack: a memory that threads share
;; expect: admission refused: not a valid component
(memory (export "memory") 1 1 shared)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

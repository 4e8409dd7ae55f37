;; attack: two memories in one module
;; expect: admission refused: not a valid component
(memory $second 1)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (drop (memory.size $second)) (call $done))

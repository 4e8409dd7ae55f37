;; attack: declares 4 GiB from the start
;; expect: admission refused: bytes of memory before any turn
(memory (export "memory") 65536)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

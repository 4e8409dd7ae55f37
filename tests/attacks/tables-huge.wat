;; attack: a table of four thousand million elements
;; expect: admission refused: table
(table 4294967295 funcref)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

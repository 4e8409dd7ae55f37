;; attack: grows a table, which no image could hold
;; expect: admission refused: table.grow
(table 1 funcref)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (table.grow (ref.null func) (i32.const 1000000)))
  (call $done))

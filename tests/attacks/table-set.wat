;; attack: changes a table, to be somebody else after a sleep
;; expect: admission refused: table.set
(table 1 funcref)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (table.set (i32.const 0) (ref.null func))
  (call $done))

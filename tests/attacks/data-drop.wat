;; attack: drops a data segment, which no image could tell
;; expect: admission refused: data.drop
(data $d "passive")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (data.drop $d)
  (call $done))

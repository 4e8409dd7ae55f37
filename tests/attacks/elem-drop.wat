;; attack: drops an element segment, which no image could tell
;; expect: admission refused: elem.drop
(elem $e func $done)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (elem.drop $e)
  (call $done))

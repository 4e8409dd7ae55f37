;; attack: hides state in a global that has no bytes
;; expect: admission refused: holds a reference
(global $g (mut funcref) (ref.null func))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

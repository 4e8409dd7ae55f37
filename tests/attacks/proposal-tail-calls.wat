;; attack: calls that leave no frame behind
;; expect: admission refused: not a valid component
(func $forever (result i32) (return_call $forever))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $forever))

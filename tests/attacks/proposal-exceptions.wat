;; attack: exceptions
;; expect: admission refused: not a valid component
(tag $e)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (throw $e))

;; attack: stacks of its own making
;; expect: admission refused: not a valid component
(type $f (func)) (type $k (cont $f))
(elem declare func $nothing) (func $nothing)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (drop (cont.new $k (ref.func $nothing))) (call $done))

;; attack: atomic instructions, to build a clock out of two threads
;; expect: admission refused: not a valid component
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))

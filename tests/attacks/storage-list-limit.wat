;; attack: lists four thousand million keys
;; expect: replied bad-ask
;; effects: 1
;; refused: 1
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.list (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 64))
  (call $answer (i32.const 68)))

;; attack: asks for a model that its grant covers and nobody has
;; expect: replied there is no model `rehearsal/nobody`
;; grants: model:rehearsal/*
;; effects: 1
;; refused: 0
(data (i32.const 256) "rehearsal/nobody")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $model.generate (i32.const 256) (i32.const 16) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 64))
  (call $answer (i32.const 68)))

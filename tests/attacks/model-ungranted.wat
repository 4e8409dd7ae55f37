;; attack: has another model think than the one it was granted
;; expect: replied not-granted
;; grants: model:rehearsal/echo
;; effects: 1
;; refused: 1
(data (i32.const 256) "costly/oracle")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $model.generate (i32.const 256) (i32.const 13) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 64))
  (call $answer (i32.const 68)))

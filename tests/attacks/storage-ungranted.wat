;; attack: stores although nothing was granted
;; expect: replied not-granted
;; grants: log
;; effects: 1
;; refused: 1
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.set (i32.const 256) (i32.const 1) (i32.const 256) (i32.const 1) (i32.const 64))
  (call $answer (i32.const 72)))

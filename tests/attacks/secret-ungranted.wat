;; attack: asks for the handle of a secret that was not granted
;; expect: replied not-granted
;; grants: secret:git
;; effects: 1
;; refused: 1
;; refusal: the nearest grant is `secret:git`: the slot differs
(data (i32.const 256) "github")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $secrets.handle (i32.const 256) (i32.const 6) (i32.const 64))
  (call $answer (i32.const 68)))

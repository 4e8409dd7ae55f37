;; attack: asks for a slot whose name is a path
;; expect: replied bad-ask
;; grants: secret:git
;; effects: 1
;; refused: 1
;; refusal: is no name for a slot
(data (i32.const 256) "../../vault/git")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $secrets.handle (i32.const 256) (i32.const 15) (i32.const 64))
  (call $answer (i32.const 68)))

;; attack: calls a tool that it was not granted
;; expect: replied not-granted
;; grants: tool:mail.list
;; effects: 1
;; refused: 1
;; refusal: the nearest grant is `tool:mail.list`: the name differs
(data (i32.const 256) "mail.send")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $tools.call (i32.const 256) (i32.const 9) (i32.const 256) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

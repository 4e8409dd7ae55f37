;; attack: calls a tool by a name that is itself a pattern
;; expect: replied bad-ask
;; grants: tool:mail.list
;; effects: 1
;; refused: 1
(data (i32.const 256) "mail.list*")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $tools.call (i32.const 256) (i32.const 10) (i32.const 256) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

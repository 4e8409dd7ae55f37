;; attack: writes to an agent that it was not granted
;; expect: replied not-granted
;; grants: agent:alice
;; effects: 1
;; refused: 1
(data (i32.const 256) "bob")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $agents.send (i32.const 256) (i32.const 3) (i32.const 256) (i32.const 1) (i32.const 256) (i32.const 1) (i32.const 64))
  (call $answer (i32.const 68)))

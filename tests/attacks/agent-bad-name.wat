;; attack: writes to an agent whose name is a path
;; expect: replied bad-ask
;; effects: 1
;; refused: 1
;; refusal: can't name an agent
(data (i32.const 256) "../bob")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $agents.send (i32.const 256) (i32.const 6) (i32.const 256) (i32.const 1) (i32.const 256) (i32.const 1) (i32.const 64))
  (call $answer (i32.const 68)))

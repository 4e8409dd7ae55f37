;; attack: prompts of as many empty utterances as a call can carry
;; expect: stopped: refused bytes-spent
;; budget: fuel=2000000000
;; grants: model:rehearsal/echo
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 16)))
  (loop $again
    (call $model.generate (i32.const 256) (i32.const 14) (i32.const 65536) (i32.const 40000) (i32.const 1) (i32.const 64))
    (br $again))
  unreachable)
(data (i32.const 256) "rehearsal/echo")

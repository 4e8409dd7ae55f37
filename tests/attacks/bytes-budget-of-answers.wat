;; attack: asks for more random bytes than its turn may move: the answer is withheld
;; expect: replied done, but the answer is withheld: `random.bytes` would move more than the turn's 100 bytes
;; budget: bytes=100
;; effects: 1
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $random.bytes (i32.const 4096) (i32.const 64))
  (call $answer (i32.const 68)))

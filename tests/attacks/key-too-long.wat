;; attack: a key of a MiB
;; expect: replied bad-ask
;; effects: 1
;; refused: 1
;; refusal: the key is 1048576, the most is 1024
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 16)))
  (call $storage.get (i32.const 0) (i32.const 1048576) (i32.const 64))
  (call $answer (i32.const 72)))

;; attack: stores one byte more than a value may have
;; expect: replied bad-ask
;; effects: 1
;; refused: 1
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 17)))
  (call $storage.set (i32.const 256) (i32.const 1) (i32.const 0) (i32.const 1048577) (i32.const 64))
  (call $answer (i32.const 72)))

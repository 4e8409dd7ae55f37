;; attack: stores what is too large, again and again: every refused value stands on the tape, so refused bytes count too
;; expect: stopped: refused bytes-spent
;; budget: fuel=2000000000
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 17)))
  (loop $again
    (call $storage.set (i32.const 256) (i32.const 1) (i32.const 0) (i32.const 1048577) (i32.const 64))
    (br $again))
  unreachable)

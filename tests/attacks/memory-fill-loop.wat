;; attack: one cheap instruction that moves 60 MiB, again and again
;; expect: stopped: fuel
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 1023)))
  (loop $again
    (memory.copy (i32.const 1) (i32.const 2) (i32.const 62914560))
    (br $again))
  unreachable)

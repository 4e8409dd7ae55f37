;; attack: logs the longest text there is until the bytes of the turn are spent
;; expect: stopped: refused bytes-spent
;; effects: 256
;; refused: 1
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 1)))
  (memory.fill (i32.const 65536) (i32.const 65) (i32.const 65536))
  (loop $again
    (call $log.write (i32.const 1) (i32.const 65536) (i32.const 65536) (i32.const 64))
    (br $again))
  unreachable)

;; attack: asks and asks
;; expect: stopped: refused effects-spent
;; effects: 1001
;; refused: 1
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $again
    (call $storage.get (i32.const 256) (i32.const 1) (i32.const 64))
    (br $again))
  unreachable)

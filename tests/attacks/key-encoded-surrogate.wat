;; attack: half a surrogate pair, encoded as if it were a character
;; expect: stopped: bad-value utf-8
;; effects: 0
(data (i32.const 256) "\ed\a0\80")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.get (i32.const 256) (i32.const 3) (i32.const 64))
  (call $done))

;; attack: a key that is no text
;; expect: stopped: bad-value utf-8
;; effects: 0
(data (i32.const 256) "\ff\fe")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.get (i32.const 256) (i32.const 2) (i32.const 64))
  (call $done))

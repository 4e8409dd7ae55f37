;; attack: a slash in two bytes instead of one
;; expect: stopped: bad-value utf-8
;; effects: 0
(data (i32.const 256) "\c0\af")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.get (i32.const 256) (i32.const 2) (i32.const 64))
  (call $done))

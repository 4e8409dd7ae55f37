;; attack: half a surrogate pair from a guest that speaks UTF-16
;; expect: stopped: bad-value
;; encoding: utf16
;; effects: 0
(data (i32.const 256) "\00\d8")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.get (i32.const 256) (i32.const 1) (i32.const 64))
  (call $done))

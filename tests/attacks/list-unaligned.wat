;; attack: a list of headers at an odd address
;; expect: stopped: bad-value not aligned
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 256) (i32.const 3)
    (i32.const 513) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $done))

;; attack: as many headers as make the length in bytes come out small after 32 bits
;; expect: stopped: bad-value
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 256) (i32.const 3)
    (i32.const 512) (i32.const 0x10000001) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $done))

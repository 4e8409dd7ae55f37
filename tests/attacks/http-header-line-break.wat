;; attack: a header whose value has a line break and another header in it
;; expect: replied bad-ask
;; grants: http:example.com
;; effects: 1
;; refused: 1
;; refusal: the value of `x` has control characters
(data (i32.const 256) "GET")
(data (i32.const 512) "https://example.com/")
(data (i32.const 600) "x")
(data (i32.const 604) "1\0d\0aHost: evil.test")
(data (i32.const 640) "\58\02\00\00\01\00\00\00\5c\02\00\00\12\00\00\00")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 20)
    (i32.const 640) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

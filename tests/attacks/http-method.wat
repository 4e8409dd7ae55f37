;; attack: a method with a line break
;; expect: replied bad-ask
;; grants: http:example.com
;; effects: 1
;; refused: 1
;; refusal: is not upper-case letters
(data (i32.const 256) "GET\0d\0aX")
(data (i32.const 512) "https://example.com/")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 6) (i32.const 512) (i32.const 20)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

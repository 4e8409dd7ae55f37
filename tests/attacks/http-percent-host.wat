;; attack: the granted host with a percent-encoded dot
;; expect: replied bad-ask
;; grants: http:example.com
;; effects: 1
;; refused: 1
;; refusal: no percent-encoding
(data (i32.const 256) "GET")
(data (i32.const 512) "https://example%2ecom/")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 22)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

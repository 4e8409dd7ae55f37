;; attack: fetches from a host that it was not granted
;; expect: replied egress-denied
;; grants: http:example.com
;; effects: 1
;; refused: 1
;; refusal: the nearest grant is `http:example.com`: the host differs
(data (i32.const 256) "GET")
(data (i32.const 512) "https://example.org/")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 20)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

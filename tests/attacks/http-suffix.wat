;; attack: fetches from a host whose name ends like the granted one
;; expect: replied egress-denied
;; grants: http:example.com
;; effects: 1
;; refused: 1
;; refusal: the host differs
(data (i32.const 256) "GET")
(data (i32.const 512) "https://evil-example.com/")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 25)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

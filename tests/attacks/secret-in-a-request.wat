;; attack: writes the handle of a secret that was not granted into a query of a granted host; the request is not even asked for
;; expect: replied not-granted
;; grants: http:example.com
;; effects: 1
;; refused: 1
;; refusal: `secret.use` needs `secret:git`
(data (i32.const 256) "GET")
(data (i32.const 512) "https://example.com/?k=lazaret-secret%3Agit")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 43)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

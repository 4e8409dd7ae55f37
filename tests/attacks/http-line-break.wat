;; attack: a line break in the URL, to smuggle a second request
;; expect: replied bad-ask
;; grants: http:example.com
;; effects: 1
;; refused: 1
;; refusal: the URL has a space or tab
(data (i32.const 256) "GET")
(data (i32.const 512) "https://example.com/ HTTP/1.1\0d\0aHost: evil.test")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 46)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

;; attack: 10,000 headers
;; expect: replied bad-ask
;; grants: http:example.com
;; effects: 1
;; refused: 1
;; refusal: the number of headers is 10000, the most is 1024
(data (i32.const 256) "GET")
(data (i32.const 512) "https://example.com/")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 3)))
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 20)
    (i32.const 65536) (i32.const 10000) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

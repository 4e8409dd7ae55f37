;; attack: names nine secrets in one request, all granted
;; expect: replied bad-ask
;; grants: http:a.example secret:a secret:b secret:c secret:d secret:e secret:f secret:g secret:h secret:i
;; effects: 1
;; refused: 1
;; refusal: the number of secrets in it is 9, the most is 8
(data (i32.const 256) "GET")
(data (i32.const 512) "https://a.example/?1=lazaret-secret:a&2=lazaret-secret:b&3=lazaret-secret:c&4=lazaret-secret:d&5=lazaret-secret:e&6=lazaret-secret:f&7=lazaret-secret:g&8=lazaret-secret:h&9=lazaret-secret:i")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 189)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

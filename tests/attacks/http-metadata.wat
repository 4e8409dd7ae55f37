;; attack: the address at which clouds keep credentials
;; expect: replied egress-denied
;; grants: storage
;; effects: 1
;; refused: 1
;; refusal: nothing of `http` was granted
(data (i32.const 256) "GET")
(data (i32.const 512) "http://169.254.169.254/latest/meta-data/")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 512) (i32.const 40)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))
  (call $answer (i32.const 68)))

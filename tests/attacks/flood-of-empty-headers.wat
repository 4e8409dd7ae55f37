;; attack: requests with as many empty headers as a call can carry: no bytes, but much to keep
;; expect: stopped: refused bytes-spent
;; budget: fuel=2000000000
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (memory.grow (i32.const 16)))
  (loop $again
    (call $http.fetch (i32.const 256) (i32.const 3) (i32.const 260) (i32.const 13)
      (i32.const 65536) (i32.const 40000) (i32.const 0) (i32.const 0) (i32.const 64))
    (br $again))
  unreachable)
(data (i32.const 256) "GET https://a.test")

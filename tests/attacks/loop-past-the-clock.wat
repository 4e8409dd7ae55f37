;; attack: loops with all the fuel in the world, so that only the wall clock is left to stop it
;; expect: stopped: wall-clock 200 ms
;; budget: fuel=9007199254740991 wall-ms=200
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $again (br $again))
  unreachable)

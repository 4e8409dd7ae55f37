;; attack: never returns
;; expect: stopped: fuel
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $again (br $again))
  unreachable)

;; attack: runs although it may not run at all
;; expect: stopped: fuel
;; budget: fuel=0
;; effects: 0
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

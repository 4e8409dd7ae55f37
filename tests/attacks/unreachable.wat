;; attack: gives up
;; expect: stopped: trap unreachable
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable)

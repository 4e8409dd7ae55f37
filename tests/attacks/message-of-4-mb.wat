;; attack: is sent the largest message and has no room for it
;; expect: stopped: memory
;; input-bytes: 4194304
;; budget: memory=1048576
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

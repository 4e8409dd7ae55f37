;; attack: is born with more memory than its turns may have
;; expect: stopped: memory
;; budget: memory=1048576
(memory (export "memory") 32)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

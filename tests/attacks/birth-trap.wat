;; attack: its start function traps
;; expect: admission refused: can't be born
(func $start unreachable)
(start $start)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

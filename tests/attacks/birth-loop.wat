;; attack: its start function never returns
;; expect: admission refused: can't be born: it used 500000000 of fuel
(func $start (loop $again (br $again)))
(start $start)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

;; attack: asks for something before there is a turn to ask in
;; expect: admission refused: it asks for `storage.set` while its memory is laid out
(func $start (call $storage.set (i32.const 256) (i32.const 1) (i32.const 256) (i32.const 1) (i32.const 64)))
(start $start)
(data (i32.const 256) "k")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

;; attack: has the message written over the place of its reply, and replies with what is there
;; expect: replied done
;; input-bytes: 60000
(func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 8))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

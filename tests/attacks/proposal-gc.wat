;; attack: objects that the host would have to collect
;; expect: admission refused: not a valid component
(type $s (struct (field i32)))
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (drop (struct.new $s (i32.const 1))) (call $done))

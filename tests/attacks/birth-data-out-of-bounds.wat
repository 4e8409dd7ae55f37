;; attack: a data segment that ends behind the memory's end
;; expect: admission refused: can't be born
(data (i32.const 65533) "four")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

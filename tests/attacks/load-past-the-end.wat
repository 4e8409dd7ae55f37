;; attack: reads one byte too far, at the very end of its memory
;; expect: stopped: trap out of bounds
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.load (i32.const 65533)))

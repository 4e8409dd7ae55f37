;; attack: grows its memory page by page until it is refused, then traps
;; expect: stopped: memory
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
  unreachable)

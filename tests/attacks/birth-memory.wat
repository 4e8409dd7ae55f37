;; attack: grows to 1.5 GiB and writes to every page before any turn has a budget
;; expect: admission refused: bytes of memory before any turn
(func $start
  (if (i32.eq (memory.grow (i32.const 24576)) (i32.const -1)) (then unreachable))
  (memory.fill (i32.const 65536) (i32.const 1) (i32.const 0x60000000)))
(start $start)
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))

;; attack: stores under a key of NUL, escape sequences, path separators and SQL, which are bytes like any other
;; expect: replied done
;; effects: 2
(data (i32.const 256) "\00\1b[2J../../etc/passwd\00'; DROP TABLE journal; --\e2\80\ae")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.set (i32.const 256) (i32.const 55) (i32.const 256) (i32.const 1) (i32.const 64))
  (call $storage.list (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 10) (i32.const 64))
  (call $answer (i32.const 68)))

;; attack: stores, sends and traps: nothing of the turn may be kept
;; expect: stopped: trap unreachable
;; grants: storage agent:bob
;; effects: 2
;; refused: 0
(data (i32.const 256) "bob")
(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $storage.set (i32.const 256) (i32.const 1) (i32.const 256) (i32.const 1) (i32.const 64))
  (call $agents.send (i32.const 256) (i32.const 3) (i32.const 256) (i32.const 1) (i32.const 256) (i32.const 3) (i32.const 64))
  unreachable)

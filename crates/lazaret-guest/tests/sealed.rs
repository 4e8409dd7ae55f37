//! Compiled code from disk is native code: it is loaded only if this host sealed it.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what it expects")]

use lazaret_gate::Digest;
use lazaret_guest::Engine;

const COMPONENT: &str = r#"(component
    (core module $m (func (export "run") (result i32) i32.const 0))
    (core instance $i (instantiate $m))
    (func $run (result (result)) (canon lift (core func $i "run")))
    (instance $cli (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $cli)))"#;

#[test]
fn only_what_this_host_sealed_is_loaded() {
    let bytes = wat::parse_str(COMPONENT).expect("the component is well-formed");
    let engine = Engine::new().expect("the engine starts");
    let program = engine.admit(&bytes).expect("the component is admitted").program;
    let component = Digest::of(&bytes);
    let key = [7; 32];
    let sealed = program.seal(&key).expect("it can be sealed");
    assert!(engine.unseal(&sealed, &key, &component).is_some(), "what was sealed is loaded");

    assert!(engine.unseal(&sealed, &[8; 32], &component).is_none(), "another host's key");
    assert!(engine.unseal(&sealed, &key, &Digest::of(b"another")).is_none(), "another component");
    let mut refused = 0;
    for at in (0..sealed.len()).step_by(sealed.len() / 500 + 1) {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(engine.unseal(&changed, &key, &component).is_none(), "byte {at} was changed");
        assert!(engine.unseal(&sealed[..at], &key, &component).is_none(), "cut at {at}");
        refused += 2;
    }
    assert!(refused > 500);
}

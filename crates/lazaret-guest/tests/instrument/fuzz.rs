//! Hostile bytes: whatever they are, the answer is a component that loads or a refusal, never a panic.

use lazaret_guest::instrument::instrument;
use proptest::prelude::*;
use wasm_smith::{Config, Module};
use wasmparser::Validator;

/// Small core modules with the constructs that the rewrite touches.
fn config() -> Config {
    Config {
        min_funcs: 1,
        max_funcs: 5,
        max_instructions: 40,
        min_data_segments: 1,
        max_data_segments: 4,
        min_globals: 1,
        max_globals: 6,
        min_memories: 1,
        max_memories: 2,
        min_tables: 0,
        max_imports: 0,
        gc_enabled: false,
        threads_enabled: false,
        memory64_enabled: false,
        shared_everything_threads_enabled: false,
        custom_page_sizes_enabled: false,
        allow_start_export: true,
        ..Config::default()
    }
}

/// A component around a random core module that it instantiates twice, itself instantiated in another one.
fn around_module(seed: &[u8]) -> Option<Vec<u8>> {
    let module = Module::new(config(), &mut arbitrary::Unstructured::new(seed)).ok()?.to_bytes();
    let mut instances = wasm_encoder::InstanceSection::new();
    let no_args: [(&str, wasm_encoder::ModuleArg); 0] = [];
    instances.instantiate(0, no_args).instantiate(0, no_args);
    let mut inner = wasm_encoder::Component::new();
    inner.section(&wasm_encoder::RawSection { id: 1, data: &module }).section(&instances);
    let mut instances = wasm_encoder::ComponentInstanceSection::new();
    let no_args: [(&str, wasm_encoder::ComponentExportKind, u32); 0] = [];
    instances.instantiate(0, no_args);
    let mut outer = wasm_encoder::Component::new();
    outer.section(&wasm_encoder::RawSection { id: 4, data: &inner.finish() }).section(&instances);
    Some(outer.finish())
}

type Damage = Vec<(prop::sample::Index, u8, u8)>;

fn damage() -> impl Strategy<Value = Damage> {
    proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..6)
}

/// Bytes overwritten, flipped, put in and taken out.
fn damaged(mut bytes: Vec<u8>, damage: Damage) -> Vec<u8> {
    for (at, value, how) in damage {
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = value,
            1 => bytes[at] ^= 1 << (value & 7),
            2 => bytes.insert(at, value),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

/// The result must be valid if the input was; and it must not be possible to do it twice.
fn check(component: &[u8]) -> Result<bool, TestCaseError> {
    let valid = Validator::new().validate_all(component).is_ok();
    let Ok(result) = instrument(component) else {
        return Ok(false);
    };
    if valid {
        let outcome = Validator::new().validate_all(&result.bytes);
        prop_assert!(outcome.is_ok(), "{:?}", outcome.err());
        if !result.map.groups.is_empty() {
            prop_assert!(instrument(&result.bytes).is_err());
        }
    }
    Ok(valid)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_modules(seed in proptest::collection::vec(any::<u8>(), 200..2000), damage in damage()) {
        if let Some(component) = around_module(&seed) {
            check(&component)?;
            check(&damaged(component, damage))?;
        }
    }

    #[test]
    fn damaged_components(which in 0..SAMPLES.len(), damage in damage()) {
        let bytes = wat::parse_str(SAMPLES[which]).map_err(|error| TestCaseError::fail(error.to_string()))?;
        check(&damaged(bytes, damage))?;
    }
}

const SAMPLES: [&str; 2] = [
    r#"(component
        (import "log" (func $log (param "n" u32)))
        (core func $log (canon lower (func $log)))
        (core module $m
            (import "" "log" (func $log (param i32)))
            (memory (export "m") 1) (table 2 funcref) (elem (i32.const 0) $s)
            (global (mut i32) (i32.const 1)) (global (mut f64) (f64.const 2)) (global i32 (i32.const 8))
            (data (i32.const 4) "abc") (data "passive") (data (global.get 2) "later")
            (func $s (call $log (i32.const 3))) (start $s)
            (func (export "f") (result i32) (global.get 0)))
        (core instance $i (instantiate $m (with "" (instance (export "log" (func $log))))))
        (func (export "f") (result u32) (canon lift (core func $i "f"))))"#,
    r#"(component
        (component $inner
            (core module $m (global (mut i64) (i64.const 1)) (memory 1) (data (i32.const 0) "x"))
            (core instance (instantiate $m)) (core instance (instantiate $m)))
        (instance $a (instantiate $inner)) (instance $b (instantiate $inner))
        (core module $n (global (mut v128) (v128.const i64x2 1 2)))
        (core instance (instantiate $n)))"#,
];

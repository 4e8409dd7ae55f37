//! What is changed in the bytes, and what is not.

use lazaret_guest::instrument::{StateMap, instrument};
use wasmparser::{Parser, Payload};
use wasmtime::Result;

use crate::{Guest, instrumented};

/// The bodies of all functions in order.
fn bodies(component: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut bodies = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        if let Payload::CodeSectionEntry(body) = payload? {
            bodies.push(body.as_bytes().to_vec());
        }
    }
    Ok(bodies)
}

/// Sections of core modules in every state of being there or not, since birth adds to five of them.
#[test]
fn any_section_may_be_missing() -> Result<()> {
    let modules = [
        // Only a memory and data: no types, functions, exports or code.
        r#"(memory 1) (data (i32.const 0) "\01")"#,
        // An imported start function: types and imports only.
        r#"(import "host" "log" (func $f)) (start $f)"#,
        // Passive segments between active ones keep their indices.
        r#"(memory 1) (data "a") (data (i32.const 4) "b") (data "c") (data (i32.const 8) "")
           (func (export "f") (memory.init 2 (i32.const 0) (i32.const 0) (i32.const 1)))"#,
        // Two memories, and an offset that is computed.
        r#"(import "host" "g" (global $g i32)) (memory 1) (memory $m 1)
           (data (memory $m) (offset (i32.add (global.get $g) (i32.const 4))) "xyz")"#,
        // Custom sections in odd places, a table, an element segment, types in use.
        r#"(@custom "one" (before first) "x") (@custom "two" (after code) "y") (@custom "three" (after last) "z")
           (type (func (param i32) (result i32))) (table 1 funcref) (memory 1) (global (mut f64) (f64.const 1))
           (elem (i32.const 0) $f) (func $f (type 0) (local.get 0)) (func $s) (start $s) (data (i32.const 1) "q")"#,
    ];
    for module in modules {
        let text = format!(
            r#"(component
                (core module $host (func (export "log")) (global (export "g") i32 (i32.const 4)))
                (core instance $host (instantiate $host))
                (core module $m {module})
                (core instance (instantiate $m (with "host" (instance $host)))))"#
        );
        let result = instrumented(&text)?;
        assert_eq!(result.map.groups.len(), 1, "{module}");
        Guest::born(&result)?;
    }
    Ok(())
}

#[test]
fn the_original_bodies_are_all_there_unchanged() -> Result<()> {
    let original = wat::parse_str(
        r#"(component (core module $m
            (memory 1) (data (i32.const 0) "abc") (global $g (mut i32) (i32.const 0))
            (func (export "f") (param i32) (result i32) (global.set $g (local.get 0)) (i32.load (local.get 0)))
            (func $s (local i64) (drop (local.get 0))) (start $s))
          (core instance (instantiate $m)))"#,
    )?;
    let result = bodies(&instrument(&original)?.bytes)?;
    let original = bodies(&original)?;
    // Then the birth, and the accessor's five functions.
    assert_eq!(result.get(..original.len()), Some(&original[..]));
    assert_eq!(result.len(), original.len() + 1 + 5);
    Ok(())
}

#[test]
fn a_data_segment_that_does_not_fit_traps_at_birth() -> Result<()> {
    let result = instrumented(
        r#"(component (core module $m (memory 1) (data (i32.const 65535) "ab")) (core instance (instantiate $m)))"#,
    )?;
    let mut guest = Guest::start(&result.bytes)?;
    assert!(guest.birth(&result.map).is_err());
    Ok(())
}

/// What toolchains leave behind when they stub out WASI: everything about resources is defined and nothing used.
#[test]
fn resources_that_nothing_makes_do_no_harm() -> Result<()> {
    let result = instrumented(
        r#"(component
            (type $r (resource (rep i32)))
            (core func $drop (canon resource.drop $r))
            (core func $new (canon resource.new $r))
            (core func $rep (canon resource.rep $r))
            (core module $m
                (import "" "drop" (func $drop (param i32)))
                (import "" "new" (func $new (param i32) (result i32)))
                (func (call $drop (i32.const 0)))
                (global (mut i32) (i32.const 1)))
            (core instance (instantiate $m
                (with "" (instance (export "drop" (func $drop)) (export "new" (func $new)))))))"#,
    )?;
    Guest::born(&result)?;
    Ok(())
}

#[test]
fn the_map_survives_serialisation() -> Result<()> {
    let result = instrumented(
        "(component (core module $m (global (mut v128) (v128.const i64x2 0 0))) (core instance (instantiate $m)))",
    )?;
    let json = serde_json::to_string(&result.map)?;
    assert_eq!(json, r#"{"groups":[{"name":"0","globals":["v128-low","v128-high"]}]}"#);
    assert_eq!(serde_json::from_str::<StateMap>(&json)?, result.map);
    Ok(())
}

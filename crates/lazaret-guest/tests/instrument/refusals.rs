//! Every reason to refuse, with the place it names.

use lazaret_guest::instrument::{Reason, Uncapturable, instrument};
use wasmtime::Result;

fn refusal(text: &str) -> Result<Uncapturable> {
    match instrument(&wat::parse_str(text)?) {
        Ok(_) => Err(wasmtime::Error::msg(format!("was not refused: {text}"))),
        Err(refusal) => Ok(refusal),
    }
}

/// Refuses a core module with this content, as the second of two modules.
fn module_refusal(content: &str) -> Result<Uncapturable> {
    let refusal = refusal(&format!("(component (core module) (core module {content}))"))?;
    assert_eq!(refusal.place.module, Some(1), "{refusal}");
    Ok(refusal)
}

#[test]
fn instructions_that_change_tables_or_drop_segments() -> Result<()> {
    let cases = [
        ("table.set", "(table.set 0 (i32.const 0) (ref.null func))"),
        ("table.grow", "(drop (table.grow 0 (ref.null func) (i32.const 1)))"),
        ("table.fill", "(table.fill 0 (i32.const 0) (ref.null func) (i32.const 0))"),
        ("table.copy", "(table.copy 0 0 (i32.const 0) (i32.const 0) (i32.const 0))"),
        ("table.init", "(table.init 0 0 (i32.const 0) (i32.const 0) (i32.const 0))"),
        ("elem.drop", "(elem.drop 0)"),
        ("data.drop", "(data.drop 0)"),
    ];
    for (instruction, code) in cases {
        let refusal = module_refusal(&format!(
            r#"(import "" "" (func)) (table 1 funcref) (elem func) (data "") (func) (func (nop) {code})"#
        ))?;
        let expected = match instruction {
            "elem.drop" | "data.drop" => Reason::SegmentDrop { instruction },
            _ => Reason::TableMutation { instruction },
        };
        assert_eq!(refusal.reason, expected);
        assert_eq!(refusal.place.function, Some(2), "imports count");
        assert!(refusal.to_string().contains(&format!("`{instruction}`")), "{refusal}");
    }
    Ok(())
}

#[test]
fn the_place_is_where_the_instruction_stands() -> Result<()> {
    let bytes = wat::parse_str("(component (core module (table 1 funcref) (elem func) (func (nop) (elem.drop 0))))")?;
    let Err(refusal) = instrument(&bytes) else {
        return Err(wasmtime::Error::msg("was not refused"));
    };
    assert_eq!(bytes.get(refusal.place.offset..refusal.place.offset + 2), Some(&b"\xfc\x0d"[..]));
    assert!(refusal.to_string().starts_with("core module 0, function 0, byte 0x"), "{refusal}");
    Ok(())
}

#[test]
fn reading_an_active_segment() -> Result<()> {
    let code = r#"(memory 1) (data "p") (data (i32.const 0) "a")
        (func (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 0)))
        (func (memory.init 1 (i32.const 0) (i32.const 0) (i32.const 0)))"#;
    let refusal = module_refusal(code)?;
    assert_eq!(refusal.reason, Reason::ActiveSegmentRead { instruction: "memory.init", segment: 1 });
    assert_eq!(refusal.place.function, Some(1));
    Ok(())
}

#[test]
fn globals_and_memories_without_bytes_to_save() -> Result<()> {
    for kind in ["funcref", "externref"] {
        let null = kind.trim_end_matches("ref");
        let refusal = module_refusal(&format!(
            r#"(import "" "" (global i32)) (global {kind} (ref.null {null})) (global (mut {kind}) (ref.null {null}))"#
        ))?;
        assert_eq!(refusal.reason, Reason::ReferenceGlobal { global: 2, kind: kind.into() });
    }
    let memories = [
        ("(memory 1) (memory 1 2 shared)", Reason::SharedMemory { memory: 1 }),
        ("(memory i64 1)", Reason::WideMemory { memory: 0 }),
        (r#"(import "" "" (memory 1)) (import "" "" (memory i64 1))"#, Reason::WideMemory { memory: 1 }),
        ("(memory 1 (pagesize 1))", Reason::PageSize { memory: 0 }),
    ];
    for (memory, reason) in memories {
        assert_eq!(module_refusal(memory)?.reason, reason);
    }
    Ok(())
}

#[test]
fn code_from_elsewhere() -> Result<()> {
    let cases = [
        (r#"(component (import "m" (core module)))"#, "core module", "imported"),
        (r#"(component (import "c" (component)))"#, "component", "imported"),
        (
            r#"(component (core module $m) (component (core instance (instantiate $m))))"#,
            "core module",
            "taken from an outer component",
        ),
        (
            r#"(component (component $c) (component (instance (instantiate $c))))"#,
            "component",
            "taken from an outer component",
        ),
        (
            r#"(component (import "i" (instance $i (export "m" (core module)))) (alias export $i "m" (core module)))"#,
            "core module",
            "taken from an instance",
        ),
        (
            r#"(component (import "i" (instance $i (export "c" (component)))) (alias export $i "c" (component)))"#,
            "component",
            "taken from an instance",
        ),
        (
            r#"(component (core module $m) (component $c) (instance (instantiate $c (with "m" (core module $m)))))"#,
            "core module",
            "passed as an argument",
        ),
        (
            r#"(component (component $c) (instance (instantiate $c (with "c" (component $c)))))"#,
            "component",
            "passed as an argument",
        ),
        (r#"(component (core module $m) (export "m" (core module $m)))"#, "core module", "exported"),
        (r#"(component (component $c) (export "c" (component $c)))"#, "component", "exported"),
    ];
    for (text, what, how) in cases {
        assert_eq!(refusal(text)?.reason, Reason::Foreign { what, how }, "{text}");
    }
    Ok(())
}

#[test]
fn handles_and_tasks_in_the_host() -> Result<()> {
    for use_of in [
        r#"(func (result i32) (call $new (i32.const 0)))"#,
        r#"(func (param i32) (result i32) (return_call $new (local.get 0)))"#,
        r#"(elem declare func $new) (func (drop (ref.func $new)))"#,
        r#"(table 1 funcref) (elem (i32.const 0) func $new)"#,
        r#"(table 1 funcref) (elem (i32.const 0) funcref (ref.func $new))"#,
        r#"(table 1 (ref func) (ref.func $new))"#,
        r#"(global funcref (ref.func $new))"#,
        r#"(export "again" (func $new))"#,
    ] {
        let refusal = refusal(&format!(
            r#"(component (component
                (type $r (resource (rep i32)))
                (core func $new (canon resource.new $r))
                (core instance $list (export "new" (func $new)))
                (alias core export $list "new" (core func $again))
                (core module $m (import "a" "new" (func $new (param i32) (result i32))) {use_of})
                (core instance (instantiate $m (with "a" (instance (export "new" (func $again))))))))"#
        ))?;
        assert_eq!((refusal.reason, refusal.place.module), (Reason::ResourceMade, Some(0)), "{use_of}");
    }
    let lifted = r#"(component
        (type $r (resource (rep i32)))
        (core func $new (canon resource.new $r))
        (func (param "rep" u32) (result u32) (canon lift (core func $new))))"#;
    assert_eq!(refusal(lifted)?.reason, Reason::ResourceMade);
    let imports = [
        r#"(component (import "r" (type (sub resource))))"#,
        r#"(component (import "x" (instance)) (import "r" (instance (export "t" (type (sub resource))))))"#,
        r#"(component (import "r" (instance
            (export "deep" (instance (export "t" (type (sub resource))))))))"#,
    ];
    for text in imports {
        assert_eq!(refusal(text)?.reason, Reason::ResourceImported { name: "r".into() }, "{text}");
    }
    let tasks = [
        ("waitable-set-new", "(component (core func (canon waitable-set.new)))"),
        ("context-get", "(component (core func (canon context.get i32 0)))"),
        ("stream-new", "(component (type $s (stream u8)) (core func (canon stream.new $s)))"),
        ("async", r#"(component (import "f" (func $f)) (core func (canon lower (func $f) async)))"#),
    ];
    for (what, text) in tasks {
        let refusal = refusal(text)?;
        // A stream is refused where its type stands, before anything could make one.
        match refusal.reason {
            Reason::Async { what: told } => assert_eq!(told, what),
            Reason::Unreadable(why) => assert!(what == "stream-new" && why.contains("async"), "{why}"),
            other => return Err(wasmtime::Error::msg(format!("{text}: {other}"))),
        }
    }
    Ok(())
}

#[test]
fn names_kept_for_the_host() -> Result<()> {
    let core = module_refusal(r#"(func (export "lazaret:birth"))"#)?;
    assert_eq!(core.reason, Reason::Reserved { name: "lazaret:birth".into() });
    for name in ["lazaret-get-0", "LAZARET-x", "lazaret-anything"] {
        let text = format!(r#"(component (import "f" (func $f)) (export "{name}" (func $f)))"#);
        assert_eq!(refusal(&text)?.reason, Reason::Reserved { name: name.into() });
    }
    // The host's own package is no clash, and neither are imports.
    let fine = r#"(component (import "lazaret:host/storage@0.1.0" (instance)) (import "lazaret-x" (func)))"#;
    instrument(&wat::parse_str(fine)?)?;
    Ok(())
}

#[test]
fn start_functions_of_components() -> Result<()> {
    // The text format is only accepted by parsers that know values, so the section is written by hand: id 9, function
    // 0, no arguments, no results.
    let mut bytes = wat::parse_str(r#"(component (import "f" (func)))"#)?;
    bytes.extend([9, 3, 0, 0, 0]);
    let refusal = instrument(&bytes).map(|_| ());
    assert_eq!(refusal.map_err(|refusal| refusal.reason), Err(Reason::ComponentStart));
    Ok(())
}

#[test]
fn bombs() -> Result<()> {
    // 2^20 instances in about a kilobyte.
    let mut doubling = "(core module $m (global (mut i32) (i32.const 0))) (core instance (instantiate $m))".to_owned();
    for _ in 0..20 {
        doubling = format!("(component $c {doubling}) (instance (instantiate $c)) (instance (instantiate $c))");
    }
    let reason = refusal(&format!("(component {doubling})"))?.reason;
    assert!(matches!(reason, Reason::TooMany { limit: 4096, .. }), "{reason}");

    let globals = "(global (mut i32) (i32.const 0))".repeat(1000);
    let instances = "(core instance (instantiate $m))".repeat(100);
    let reason = refusal(&format!("(component (core module $m {globals}) {instances})"))?.reason;
    assert!(matches!(reason, Reason::TooMany { limit: 65_536, .. }), "{reason}");

    let deep = format!("{}{}", "(component ".repeat(40), ")".repeat(40));
    let reason = refusal(&deep)?.reason;
    assert!(matches!(reason, Reason::TooMany { limit: 32, .. }), "{reason}");
    Ok(())
}

#[test]
fn bytes_that_are_no_component() -> Result<()> {
    assert_eq!(refusal("(module)")?.reason, Reason::NotAComponent);
    let whole = wat::parse_str("(component (core module $m (memory 1)) (core instance (instantiate $m)))")?;
    for end in 0..whole.len() {
        // A cut between two sections leaves a shorter component, which is fine; anything else must be refused.
        let cut = whole.get(..end).unwrap_or_default();
        let valid = wasmparser::Validator::new().validate_all(cut).is_ok();
        assert_eq!(instrument(cut).is_ok(), valid, "cut at {end}");
    }
    for bytes in [&b""[..], b"not wasm", b"\0asm", b"\0asm\x0d\0\x01\0\xff\x01\0"] {
        let reason = instrument(bytes).map_err(|refusal| refusal.reason);
        assert!(matches!(reason, Err(Reason::Unreadable(_))), "{bytes:?}");
    }
    Ok(())
}

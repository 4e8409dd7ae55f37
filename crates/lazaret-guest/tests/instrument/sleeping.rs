//! Birth, sleep and wake.

use lazaret_guest::instrument::{GlobalKind, instrument};
use wasmtime::Result;

use crate::{Guest, instrumented};

/// Counts in a global and in memory, both of which start from something that instantiation used to do.
const COUNTER: &str = r#"(component
    (core module $m
        (memory 1)
        (global $count (mut i32) (i32.const 5))
        (data (i32.const 16) "\2a")
        (func $start (i32.store (i32.const 0) (i32.const 100)) (global.set $count (i32.const 7)))
        (start $start)
        (func (export "next") (result i32)
            (global.set $count (i32.add (global.get $count) (i32.const 1)))
            (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.load8_u (i32.const 16))))
            (i32.add (i32.mul (global.get $count) (i32.const 10000)) (i32.load (i32.const 0))))
        (func (export "peek") (param i32) (result i32) (i32.load (local.get 0)))
        (func (export "poke") (param i32 i32) (i32.store (local.get 0) (local.get 1))))
    (core instance $i (instantiate $m))
    (func (export "next") (result u32) (canon lift (core func $i "next")))
    (func (export "peek") (param "at" u32) (result u32) (canon lift (core func $i "peek")))
    (func (export "poke") (param "at" u32) (param "value" u32) (canon lift (core func $i "poke"))))"#;

#[test]
fn a_woken_counter_continues_exactly() -> Result<()> {
    let counter = instrumented(COUNTER)?;
    let mut first = Guest::born(&counter)?;
    assert_eq!((first.ask("next")?, first.ask("next")?), (80_142, 90_184));

    let globals = first.globals(&counter.map)?;
    let memory = [0, 16].map(|at| first.call::<(u32,), (u32,)>("peek", (at,)));
    assert_eq!(globals, [[9]]);

    let mut woken = Guest::start(&counter.bytes)?;
    woken.set_globals(&counter.map, &globals)?;
    for (at, value) in [0u32, 16].into_iter().zip(memory) {
        woken.call::<(u32, u32), ()>("poke", (at, value?.0))?;
    }
    assert_eq!(woken.globals(&counter.map)?, globals);
    for _ in 0..10 {
        assert_eq!(woken.ask("next")?, first.ask("next")?);
    }
    Ok(())
}

#[test]
fn instantiation_alone_runs_nothing_and_birth_runs_all() -> Result<()> {
    let counter = instrumented(COUNTER)?;
    let mut guest = Guest::start(&counter.bytes)?;
    let peek = |guest: &mut Guest, at: u32| Ok::<_, wasmtime::Error>(guest.call::<(u32,), (u32,)>("peek", (at,))?.0);
    assert_eq!((peek(&mut guest, 0)?, peek(&mut guest, 16)?), (0, 0), "memory must be empty");
    assert_eq!(guest.globals(&counter.map)?, [[5]], "the start function must not have run");

    guest.birth(&counter.map)?;
    assert_eq!((peek(&mut guest, 0)?, peek(&mut guest, 16)?), (100, 42));
    assert_eq!(guest.globals(&counter.map)?, [[7]]);

    let mut original = Guest::start(&wat::parse_str(COUNTER)?)?;
    assert_eq!(guest.ask("next")?, original.ask("next")?);
    Ok(())
}

#[test]
fn fuel_is_the_same_as_in_the_original() -> Result<()> {
    let counter = instrumented(COUNTER)?;
    let mut original = Guest::start(&wat::parse_str(COUNTER)?)?;
    let mut guest = Guest::born(&counter)?;
    for _ in 0..5 {
        let used = [&mut original, &mut guest].map(|guest| {
            guest.store.set_fuel(crate::FUEL)?;
            guest.ask("next")?;
            Ok::<u64, wasmtime::Error>(crate::FUEL - guest.store.get_fuel()?)
        });
        let [original, instrumented] = used;
        let original = original?;
        assert!(original > 10, "the call must cost something");
        assert_eq!(original, instrumented?);
    }
    Ok(())
}

#[test]
fn every_kind_of_global_keeps_its_bits() -> Result<()> {
    let all = instrumented(
        r#"(component
            (core module $m
                (global (mut i32) (i32.const -1))
                (global i32 (i32.const 3))
                (global (mut i64) (i64.const -2))
                (global (mut f32) (f32.const nan:0x200001))
                (global (mut f64) (f64.const -nan:0x4000000000001))
                (global (mut v128) (v128.const i64x2 0x1111 0x2222)))
            (core instance (instantiate $m)))"#,
    )?;
    use GlobalKind::*;
    assert_eq!(all.map.groups.len(), 1);
    assert_eq!(all.map.groups[0].globals, [I32, I64, F32, F64, V128Low, V128High]);
    let mut guest = Guest::born(&all)?;
    let initial = vec![vec![0xffff_ffff, u64::MAX - 1, 0x7fa0_0001, 0xfff4_0000_0000_0001, 0x1111, 0x2222]];
    assert_eq!(guest.globals(&all.map)?, initial);

    // Signalling NaNs, signs and all lanes; the upper half of a narrow slot is not there to be kept.
    let other = vec![vec![0x8000_0001, 1 << 63, 0xff80_0001, 0x7ff0_0000_0000_0001, u64::MAX, 0x8000_0000_0000_0003]];
    guest.set_globals(&all.map, &other)?;
    assert_eq!(guest.globals(&all.map)?, other);
    guest.call::<(u32, u64), ()>("lazaret-set-0", (0, 0xdead_beef_0000_0004))?;
    assert_eq!(guest.call::<(u32,), (u64,)>("lazaret-get-0", (0,))?.0, 4);
    Ok(())
}

#[test]
fn hundreds_of_globals_are_told_apart_and_no_other_index_is_answered() -> Result<()> {
    for count in [1usize, 63, 64, 65, 128, 500] {
        let globals = "(global (mut i64) (i64.const 1))".repeat(count);
        let text = format!("(component (core module $m {globals}) (core instance (instantiate $m)))");
        let many = instrumented(&text)?;
        let values = vec![(0..count as u64).map(|i| i * 0x1_0000_0001).collect::<Vec<u64>>()];
        let mut guest = Guest::born(&many)?;
        guest.set_globals(&many.map, &values)?;
        assert_eq!(guest.globals(&many.map)?, values);
        for index in [count as u32, count as u32 + 64, 1 << 12, u32::MAX] {
            // A trap poisons the instance, so each question gets its own.
            let get = Guest::born(&many)?.call::<(u32,), (u64,)>("lazaret-get-0", (index,));
            assert!(get.is_err(), "slot {index} of {count} was read");
            let set = Guest::born(&many)?.call::<(u32, u64), ()>("lazaret-set-0", (index, 0));
            assert!(set.is_err(), "slot {index} of {count} was written");
        }
    }
    Ok(())
}

/// A family in which every start function reports to the host: two instances of one module, then two of a nested
/// component, then one more module whose data goes into the first one's memory.
const FAMILY: &str = r#"(component
    (import "log" (func $log (param "n" u32)))
    (core func $log (canon lower (func $log)))
    (core instance $host (export "log" (func $log)))
    (core module $base
        (import "host" "log" (func $log (param i32)))
        (memory (export "memory") 1)
        (table (export "table") 4 funcref)
        (global (export "at") i32 (i32.const 64))
        (global $mine (export "mine") (mut i32) (i32.const 0))
        (func $start
            (global.set $mine (i32.const 10))
            (call $log (i32.const 1)))
        (start $start)
        (func (export "bump") (result i32)
            (global.set $mine (i32.add (global.get $mine) (i32.const 1)))
            (global.get $mine)))
    (core instance $a (instantiate $base (with "host" (instance $host))))
    (core instance $b (instantiate $base (with "host" (instance $host))))
    (component $child
        (import "log" (func $log (param "n" u32)))
        (core func $log (canon lower (func $log)))
        (core instance $host (export "log" (func $log)))
        (core module $m
            (import "host" "log" (func $log (param i32)))
            (global $n (mut i64) (i64.const 20))
            (func $start (call $log (i32.const 2)))
            (start $start)
            (func (export "bump") (result i32)
                (global.set $n (i64.add (global.get $n) (i64.const 1)))
                (i32.wrap_i64 (global.get $n))))
        (core instance $i (instantiate $m (with "host" (instance $host))))
        (func (export "bump") (result u32) (canon lift (core func $i "bump"))))
    (instance $c (instantiate $child (with "log" (func $log))))
    (instance $d (instantiate $child (with "log" (func $log))))
    (core module $library
        (import "host" "log" (func $log (param i32)))
        (import "base" "memory" (memory 1))
        (import "base" "table" (table 4 funcref))
        (import "base" "at" (global $at i32))
        (import "base" "mine" (global $theirs (mut i32)))
        (type $t (func (result i32)))
        (data (global.get $at) "\03\00\00\00")
        (elem (i32.const 2) $load)
        (func $load (result i32) (i32.add (global.get $theirs) (i32.load (i32.const 64))))
        (func $start (call $log (call_indirect (type $t) (i32.const 2))))
        (start $start)
        (func (export "indirect") (result i32) (call_indirect (type $t) (i32.const 2))))
    (core instance $l (instantiate $library (with "host" (instance $host)) (with "base" (instance $a))))
    (func (export "a") (result u32) (canon lift (core func $a "bump")))
    (func (export "b") (result u32) (canon lift (core func $b "bump")))
    (func (export "c") (result u32) (canon lift (core func $l "indirect")))
    (alias export $c "bump" (func $first))
    (alias export $d "bump" (func $second))
    (export "d" (func $first))
    (export "e" (func $second)))"#;

#[test]
fn a_family_is_born_in_the_order_of_the_original() -> Result<()> {
    let original = Guest::start(&wat::parse_str(FAMILY)?)?;
    assert_eq!(original.store.data(), &[1, 1, 2, 2, 13]);

    let family = instrumented(FAMILY)?;
    let mut guest = Guest::start(&family.bytes)?;
    assert!(guest.store.data().is_empty(), "instantiation must not call the host");
    guest.birth(&family.map)?;
    assert_eq!(guest.store.data(), original.store.data());
    Ok(())
}

#[test]
fn each_instance_of_a_family_keeps_its_own_state() -> Result<()> {
    let family = instrumented(FAMILY)?;
    let sizes: Vec<usize> = family.map.groups.iter().map(|group| group.globals.len()).collect();
    assert_eq!(sizes, [2, 1, 1, 0], "two own instances, the nested ones, and the library, which has only a birth");

    let mut guest = Guest::born(&family)?;
    for (name, times) in [("a", 1), ("b", 2), ("d", 3), ("e", 4)] {
        for _ in 0..times {
            guest.ask(name)?;
        }
    }
    let globals = guest.globals(&family.map)?;
    assert_eq!(globals, [vec![11, 12], vec![23], vec![24], vec![]]);

    let mut woken = Guest::start(&family.bytes)?;
    woken.set_globals(&family.map, &globals)?;
    for name in ["a", "b", "d", "e"] {
        assert_eq!(woken.ask(name)?, guest.ask(name)?, "{name}");
    }
    // The table was filled by instantiation; the memory, which the test does not restore, is empty.
    assert_eq!((woken.ask("c")?, guest.ask("c")?), (12, 15));
    Ok(())
}

#[test]
fn groups_pass_through_every_level() -> Result<()> {
    let leaf = r#"(component $leaf
        (core module $m (global (mut i32) (i32.const 1)))
        (core instance (instantiate $m)) (core instance (instantiate $m)))"#;
    let text = format!(
        "(component
            (component $middle {leaf} (instance (instantiate $leaf)) (instance (instantiate $leaf))
                (core module $m (global (mut i64) (i64.const 2))) (core instance (instantiate $m)))
            (component $unused {leaf})
            (instance (instantiate $unused)) (instance (instantiate $middle)) (instance (instantiate $middle)))"
    );
    let deep = instrumented(&text)?;
    let sizes: Vec<usize> = deep.map.groups.iter().map(|group| group.globals.len()).collect();
    assert_eq!(sizes, [2, 2, 1, 2, 2, 1]);
    let mut guest = Guest::born(&deep)?;
    let values = vec![vec![10, 11], vec![12, 13], vec![14], vec![15, 16], vec![17, 18], vec![19]];
    guest.set_globals(&deep.map, &values)?;
    assert_eq!(guest.globals(&deep.map)?, values);
    Ok(())
}

#[test]
fn a_component_without_state_is_left_as_it_is() -> Result<()> {
    let original = wat::parse_str(
        r#"(component
            (core module $m (func (export "f") (result i32) (i32.const 4)) (global i32 (i32.const 1)))
            (core instance $i (instantiate $m))
            (func (export "f") (result u32) (canon lift (core func $i "f"))))"#,
    )?;
    let result = instrument(&original)?;
    assert_eq!(result.bytes, original);
    assert!(result.map.groups.is_empty());
    Ok(())
}

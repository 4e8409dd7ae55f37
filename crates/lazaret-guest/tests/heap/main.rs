//! Heaps that sleep and wake under a real engine.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

mod live;
mod process;

use lazaret_guest::native::heap::{
    Creator, Heap, HeapError, HeapFile, MAX_HEAP_BYTES, MAX_MEMORIES, PAGE, Scan, WASM_PAGE, with_heaps,
};
use live::{GUEST, Live, MIB, engine, full_file, kernel_engine, module, random, shared};
use std::sync::Arc;
use wasmtime::{Config, Instance, Store};

#[test]
fn a_woken_heap_is_the_one_that_slept() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let mut file = Arc::new(HeapFile::new(0).unwrap());
    let mut seed = 7;
    let mut expected = Vec::new();
    for turn in 0..6 {
        let sources = if turn == 0 { vec![] } else { vec![file.clone()] };
        let mut live = Live::wake(&module, sources);
        if turn > 0 {
            assert_eq!(live.pages(), expected, "turn {turn}");
        }
        live.call::<_, i32>("grow", 3);
        for _ in 0..20 {
            let at = random(&mut seed) % live.heap.size();
            live.poke(at, (random(&mut seed) % 256) as u8);
        }
        expected = live.pages();
        live.sleep(&mut file);
        let mut page = [0; PAGE];
        for (index, content) in expected.iter().enumerate() {
            file.read_page(index as u32, &mut page).unwrap();
            assert_eq!(&page, content);
        }
    }
}

/// A heap that didn't grow finds its mapping again. Three heaps of one size take turns on one thread, which keeps fewer
/// mappings than that; each must meet its own bytes as they are now, with no page that counts as changed.
#[test]
fn mappings_that_are_used_again_hold_their_own_heap_as_it_is() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let mut files: Vec<_> = (0..3).map(|_| full_file(MIB)).collect();
    let mut seed = 11;
    for turn in 0..40 {
        let file = &mut files[random(&mut seed) % 3];
        let mut expected = vec![[0; PAGE]; MIB / PAGE];
        for (index, page) in expected.iter_mut().enumerate() {
            file.read_page(index as u32, page).unwrap();
        }
        let mut live = Live::wake(&module, vec![file.clone()]);
        assert_eq!(live.pages(), expected, "turn {turn}");
        assert!(live.changed().is_empty(), "turn {turn}");
        live.poke(random(&mut seed) % MIB, turn);
        // A turn that isn't kept must leave nothing either.
        if turn % 3 > 0 {
            live.sleep(file);
        }
    }
}

#[test]
fn exactly_the_written_pages_are_changed() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let file = full_file(64 * MIB);
    let mut live = Live::wake(&module, vec![file]);
    assert_eq!(live.heap.size(), 64 * MIB);
    assert_eq!(live.call::<_, i32>("size", ()), 1024);
    assert!(live.changed().is_empty());
    // Reading, by the guest or by us, is no change: neither of the file nor of fresh memory behind it.
    live.call::<_, i32>("grow", 16);
    live.call::<_, i32>("read_all", ());
    live.pages();
    assert!(live.changed().is_empty());

    let mut seed = 42;
    let mut written: Vec<u32> = (0..163).map(|_| (random(&mut seed) % (65 * MIB / PAGE)) as u32).collect();
    written.extend([0, 16383, 16384, (65 * MIB / PAGE - 1) as u32]);
    for page in &written {
        live.poke(*page as usize * PAGE + random(&mut seed) % PAGE, 99);
    }
    written.sort_unstable();
    written.dedup();
    let changed = live.heap.changed_pages(&live.store);
    assert_eq!(changed.scan, Scan::Kernel);
    assert_eq!(changed.pages, written);
}

#[test]
fn pages_that_will_be_written_are_copied_before_and_hold_what_they_held() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let mut file = full_file(MIB);
    let before: Vec<_> = Live::wake(&module, vec![file.clone()]).pages();
    let past_the_end = (MIB / PAGE) as u32 + 7;
    Arc::get_mut(&mut file).unwrap().expect_writes([0, 1, 2, 77, past_the_end]);
    let mut live = Live::wake(&module, vec![file.clone()]);
    assert_eq!(live.changed(), [0, 1, 2, 77], "they are the memory's own, and no page is that isn't there");
    assert_eq!(live.pages(), before);
    live.poke(77 * PAGE, 99);
    live.poke(78 * PAGE, 99);
    assert_eq!(live.changed(), [0, 1, 2, 77, 78]);
    drop(live);
    assert_eq!(Live::wake(&module, vec![file]).pages(), before, "what was written there is gone with the instance");
}

#[test]
fn more_changes_than_one_kernel_answer_holds() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let mut live = Live::wake(&module, vec![full_file(16 * MIB)]);
    // Every other page, so that no two make one range: 2048 ranges.
    let written: Vec<u32> = (0..(16 * MIB / PAGE) as u32).step_by(2).collect();
    for page in &written {
        live.poke(*page as usize * PAGE, 255);
    }
    assert_eq!(live.changed(), written);
}

#[test]
fn memory_grows_across_sleep() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let mut file = Arc::new(HeapFile::new(0).unwrap());
    let mut live = Live::wake(&module, vec![]);
    assert_eq!(live.call::<_, i32>("grow", 1), 1);
    live.poke(2 * WASM_PAGE - 1, 5);
    live.sleep(&mut file);
    assert_eq!(file.len(), 2 * WASM_PAGE);

    let mut live = Live::wake(&module, vec![file.clone()]);
    assert_eq!(live.call::<_, i32>("size", ()), 2);
    assert_eq!(live.call::<_, i32>("grow", 2), 2);
    assert_eq!((live.peek(2 * WASM_PAGE - 1), live.peek(4 * WASM_PAGE - 1)), (5, 0));
    live.poke(4 * WASM_PAGE - 1, 6);
    live.sleep(&mut file);

    let mut live = Live::wake(&module, vec![file]);
    assert_eq!((live.peek(2 * WASM_PAGE - 1), live.peek(4 * WASM_PAGE - 1)), (5, 6));
    // The declared maximum holds also for a woken memory.
    assert_eq!(live.call::<_, i32>("grow", 2045), -1);
    assert_eq!(live.call::<_, i32>("grow", 2044), 4);
    assert_eq!(live.call::<_, i32>("grow", 1), -1);
}

#[test]
fn accesses_past_the_end_trap() {
    let _process = shared();
    let tunings: [fn(&mut Config); 3] = [
        |_| {},
        |config| {
            config.memory_reservation(0).memory_guard_size(0);
        },
        |config| {
            config.memory_reservation(MIB as u64).memory_guard_size(WASM_PAGE as u64);
        },
    ];
    for tune in tunings {
        let module = module(&engine(Creator::new(), tune), GUEST);
        for sources in [vec![], vec![full_file(3 * WASM_PAGE)]] {
            let mut live = Live::wake(&module, sources);
            for _ in 0..2 {
                let end = live.heap.size();
                live.peek(end - 1);
                for at in [end, end + 1, end + PAGE, end + MIB, 2 * MAX_HEAP_BYTES / 3, MAX_HEAP_BYTES - 1] {
                    assert!(live.traps_at::<i32>("peek", at), "{at:#x} of {end:#x}");
                }
                assert!(!live.traps_at::<i64>("peek_word", end - 8));
                assert!(live.traps_at::<i64>("peek_word", end - 7));
                assert!(live.traps_at::<i32>("peek_far", 0));
                assert!(live.traps_at::<i32>("peek_far", MAX_HEAP_BYTES - 1));
                live.call::<_, i32>("grow", 1);
            }
        }
    }
}

#[test]
fn instances_of_one_file_are_apart() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let file = full_file(MIB);
    let mut one = Live::wake(&module, vec![file.clone()]);
    let mut two = Live::wake(&module, vec![file.clone()]);
    one.poke(5000, 200);
    two.poke(9000, 201);
    assert_eq!((one.peek(5000), two.peek(5000)), (200, 2));
    assert_eq!((one.peek(9000), two.peek(9000)), (3, 201));
    assert_eq!((one.changed(), two.changed()), (vec![1], vec![2]));
    let mut page = [0; PAGE];
    file.read_page(1, &mut page).unwrap();
    assert_eq!(page, [2; PAGE]);
}

#[test]
fn without_the_kernel_every_page_is_a_candidate() {
    let _process = shared();
    let exact = module(&kernel_engine(), GUEST);
    let coarse = module(&engine(Creator::without_kernel_scan(), |_| {}), GUEST);
    let mut found = Vec::new();
    for module in [&exact, &coarse] {
        let mut live = Live::wake(module, vec![full_file(MIB)]);
        live.call::<_, i32>("grow", 1);
        live.poke(70_000, 1);
        live.poke(MIB + 1, 1);
        found.push(live.heap.changed_pages(&live.store));
    }
    assert_eq!((found[0].scan, found[1].scan), (Scan::Kernel, Scan::Everything));
    assert_eq!(found[0].pages, vec![17, 256]);
    assert_eq!(found[1].pages, (0..272).collect::<Vec<u32>>());
}

#[test]
fn instantiation_leaves_no_trace_on_a_woken_heap() {
    let _process = shared();
    let text = r#"(module
        (memory (export "memory") 2)
        (data (i32.const 0) "fresh")
        (func $start (i32.store8 (i32.const 4096) (i32.const 7)))
        (start $start)
        (func (export "poke") (param i32 i32) (i32.store8 (local.get 0) (local.get 1)))
        (func (export "peek") (param i32) (result i32) (i32.load8_u (local.get 0))))"#;
    let module = module(&kernel_engine(), text);
    let mut file = Arc::new(HeapFile::new(0).unwrap());
    let mut live = Live::wake(&module, vec![]);
    assert_eq!((live.peek(0), live.peek(4096)), (b'f', 7));
    assert_eq!(live.changed(), [0, 1]);
    live.poke(0, b'F');
    live.poke(4096, 8);
    live.sleep(&mut file);

    let mut live = Live::wake(&module, vec![file]);
    assert!(live.changed().is_empty());
    assert_eq!((live.peek(0), live.peek(1), live.peek(4096)), (b'F', b'r', 8));
}

#[test]
fn a_component_wakes_all_its_memories_in_order() {
    let _process = shared();
    let text = r#"(component
        (core module $M
          (memory 1)
          (func (export "poke") (param i32) (i32.store8 (i32.const 8192) (local.get 0)))
          (func (export "peek") (result i32) (i32.load8_u (i32.const 8192))))
        (core instance $a (instantiate $M))
        (core instance $b (instantiate $M))
        (func (export "poke-a") (param "value" u32) (canon lift (core func $a "poke")))
        (func (export "poke-b") (param "value" u32) (canon lift (core func $b "poke")))
        (func (export "peek-a") (result u32) (canon lift (core func $a "peek")))
        (func (export "peek-b") (result u32) (canon lift (core func $b "peek"))))"#;
    let engine = kernel_engine();
    let component = wasmtime::component::Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
    let linker = wasmtime::component::Linker::<()>::new(&engine);
    let wake = |sources| {
        let mut store = Store::new(&engine, ());
        let (instance, heaps) =
            with_heaps(&mut store, sources, MIB, |store| linker.instantiate(store, &component)).unwrap();
        (store, instance.unwrap(), heaps)
    };
    let (mut store, instance, heaps) = wake(vec![]);
    assert_eq!(heaps.len(), 2);
    for (name, value) in [("poke-a", 11), ("poke-b", 22)] {
        let poke = instance.get_typed_func::<(u32,), ()>(&mut store, name).unwrap();
        poke.call(&mut store, (value,)).unwrap();
    }
    let mut files = Vec::new();
    for heap in &heaps {
        let mut file = HeapFile::new(heap.size()).unwrap();
        assert_eq!(heap.changed_pages(&store).pages, [2]);
        file.write_page(2, heap.page(&store, 2).unwrap()).unwrap();
        files.push(Arc::new(file));
    }
    let (mut store, instance, _heaps) = wake(files);
    for (name, value) in [("peek-a", 11), ("peek-b", 22)] {
        let peek = instance.get_typed_func::<(), (u32,)>(&mut store, name).unwrap();
        assert_eq!(peek.call(&mut store, ()).unwrap(), (value,));
    }
}

#[test]
fn sizes_are_checked() {
    let _process = shared();
    for len in [1, PAGE, MAX_HEAP_BYTES + WASM_PAGE, usize::MAX] {
        assert!(matches!(HeapFile::new(len), Err(HeapError::Length { .. })));
    }
    let mut file = HeapFile::new(WASM_PAGE).unwrap();
    let mut page = [1; PAGE];
    assert!(matches!(file.write_page(16, &page), Err(HeapError::OutOfRange { index: 16, pages: 16 })));
    assert!(matches!(file.read_page(u32::MAX, &mut page), Err(HeapError::OutOfRange { .. })));

    let engine = kernel_engine();
    let refuse = |text: &str, sources: Vec<Arc<HeapFile>>, limit: usize| {
        let module = module(&engine, text);
        let mut store = Store::new(&engine, ());
        let (instance, _) = with_heaps(&mut store, sources, limit, |store| Instance::new(store, &module, &[])).unwrap();
        format!("{:?}", instance.map(|_| ()).unwrap_err())
    };
    let over = refuse("(module (memory 1 2))", vec![full_file(3 * WASM_PAGE)], MIB);
    assert!(over.contains("196608 bytes is more than the 131072 bytes"), "{over}");
    let over = refuse("(module (memory 3))", vec![], 2 * WASM_PAGE);
    assert!(over.contains("196608 bytes is more than the 131072 bytes"), "{over}");
    let many = format!("(module {})", "(memory 1)".repeat(MAX_MEMORIES + 1));
    assert!(refuse(&many, vec![], MIB).contains("at most 32 memories"));

    let sources = (0..=MAX_MEMORIES).map(|_| full_file(0)).collect();
    let mut store = Store::new(&engine, ());
    assert!(matches!(with_heaps(&mut store, sources, MIB, |_| ()), Err(HeapError::TooMany { count: 33 })));
}

#[test]
fn growth_stops_at_the_limit() {
    let _process = shared();
    let engine = kernel_engine();
    let module = module(&engine, GUEST);
    let mut store = Store::new(&engine, ());
    let born = with_heaps(&mut store, vec![], 3 * WASM_PAGE + 17, |store| Instance::new(store, &module, &[]));
    let (instance, heaps) = born.unwrap();
    let grow = instance.unwrap().get_typed_func::<i32, i32>(&mut store, "grow").unwrap();
    assert_eq!(grow.call(&mut store, 3).unwrap(), -1);
    assert_eq!(grow.call(&mut store, 2).unwrap(), 1);
    assert_eq!(grow.call(&mut store, 1).unwrap(), -1);
    assert_eq!(heaps[0].size(), 3 * WASM_PAGE);
}

#[test]
fn a_panic_or_a_nested_birth_leaves_nothing_behind() {
    let _process = shared();
    let engine = kernel_engine();
    let module = module(&engine, GUEST);
    let file = full_file(2 * WASM_PAGE);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut store = Store::new(&engine, ());
        let _ = with_heaps(&mut store, vec![file.clone()], MIB, |_| panic!("on purpose"));
    }));
    assert!(panicked.is_err());
    // Outside, memories are plain: the file of the list that panicked is not used.
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    assert_eq!(instance.get_memory(&mut store, "memory").unwrap().size(&store), 1);

    let mut outer = Store::new(&engine, ());
    let mut inner = Store::new(&engine, ());
    let (inner_heaps, outer_heaps) = with_heaps(&mut outer, vec![file.clone()], MIB, |outer| {
        let (_, heaps) =
            with_heaps(&mut inner, vec![], MIB, |inner| Instance::new(inner, &module, &[]).unwrap()).unwrap();
        Instance::new(outer, &module, &[]).unwrap();
        heaps
    })
    .unwrap();
    let sizes = |heaps: &[Heap]| heaps.iter().map(Heap::size).collect::<Vec<_>>();
    assert_eq!(sizes(&inner_heaps), [WASM_PAGE]);
    assert_eq!(sizes(&outer_heaps), [2 * WASM_PAGE]);
}

#[test]
#[should_panic(expected = "wrong store")]
fn another_store_is_no_proof() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let live = Live::wake(&module, vec![]);
    let other = Store::new(module.engine(), ());
    let _ = live.heap.page(&other, 0);
}

#[test]
fn a_heap_outlives_its_store() {
    let _process = shared();
    let module = module(&kernel_engine(), GUEST);
    let mut file = full_file(MIB);
    let Live { store, heap, .. } = Live::wake(&module, vec![file.clone()]);
    drop(store);
    assert_eq!(heap.size(), MIB);
    assert!(Arc::get_mut(&mut file).is_none(), "still mapped, so it can't be changed");
    drop(heap);
    assert!(Arc::get_mut(&mut file).is_some());
}

#[test]
fn a_duplicate_is_equal_and_apart() {
    let _process = shared();
    let mut file = HeapFile::new(MIB).unwrap();
    for index in [0, 1, 100, 255] {
        file.write_page(index, &[(index % 251 + 1) as u8; PAGE]).unwrap();
    }
    let copy = file.duplicate().unwrap();
    file.write_page(100, &[0; PAGE]).unwrap();
    let (mut a, mut b) = ([0; PAGE], [0; PAGE]);
    for index in 0..256 {
        file.read_page(index, &mut a).unwrap();
        copy.read_page(index, &mut b).unwrap();
        assert_eq!(a == b, index != 100, "page {index}");
    }
}

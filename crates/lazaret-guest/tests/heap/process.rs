//! What heaps cost the process: mappings, descriptors, room, time.

use crate::live::{GUEST, Live, MIB, alone, full_file, kernel_engine, module};
use lazaret_guest::native::heap::{HeapFile, PAGE, WASM_PAGE, with_heaps};
use std::sync::Arc;
use std::time::Instant;
use wasmtime::{Instance, Store};

fn maps() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

fn descriptors() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn nothing_leaks() {
    let _process = alone();
    let module = module(&kernel_engine(), GUEST);
    let cycle = || {
        let mut live = Live::wake(&module, vec![full_file(4 * WASM_PAGE)]);
        live.call::<_, i32>("grow", 1);
        live.poke(5 * WASM_PAGE - 1, 1);
        live.changed();
        let refused = with_heaps(&mut Store::new(module.engine(), ()), vec![], 0, |store| {
            Instance::new(store, &module, &[]).is_err()
        });
        assert!(refused.unwrap().0);
    };
    cycle();
    let (maps_before, descriptors_before) = (maps(), descriptors().len());
    for _ in 0..1000 {
        cycle();
    }
    // The allocator and the harness's threads may add a few; a leak would add a thousand.
    assert!(maps() < maps_before + 20, "{maps_before} mappings became {}", maps());
    assert!(descriptors().len() < descriptors_before + 10);
}

#[test]
fn huge_pages_are_off_and_zero_pages_take_no_room() {
    use std::os::unix::fs::MetadataExt;
    let _process = alone();
    let module = module(&kernel_engine(), GUEST);
    let mut file = HeapFile::new(16 * MIB).unwrap();
    let blocks = || {
        let heap = descriptors()
            .into_iter()
            .find(|fd| std::fs::read_link(fd).is_ok_and(|target| target.to_string_lossy().contains("lazaret-heap")));
        std::fs::metadata(heap.unwrap()).unwrap().blocks()
    };
    assert_eq!(blocks(), 0);
    file.write_page(9, &[1; PAGE]).unwrap();
    assert_eq!(blocks(), 8);
    file.write_page(9, &[0; PAGE]).unwrap();
    assert_eq!(blocks(), 0);

    let mut live = Live::wake(&module, vec![Arc::new(file)]);
    live.call::<_, i32>("grow", 256);
    let base = live.instance.get_memory(&mut live.store, "memory").unwrap().data_ptr(&live.store).addr();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    let mut flagged = 0;
    for line in smaps.lines() {
        if let Some(("VmFlags", flags)) = line.split_once(':') {
            assert!(!inside || flags.contains(" nh"), "a part of the heap may get huge pages: {flags}");
            flagged += usize::from(inside);
        } else if let Some((start, _)) = line.split_once('-').filter(|(start, _)| !start.contains(':')) {
            let start = usize::from_str_radix(start, 16).unwrap();
            inside = (base..base + live.heap.size()).contains(&start);
        }
    }
    assert_eq!(flagged, 2, "the file and what grew behind it");
}

/// Prints how long a turn's sleep and wake take with one page in a hundred changed; nothing is asserted about time.
#[test]
fn timing() {
    let _process = alone();
    let module = module(&kernel_engine(), GUEST);
    for mib in [1, 64] {
        let mut file = full_file(mib * MIB);
        let mut times = [const { Vec::new() }; 5];
        for round in 0..21 {
            let start = Instant::now();
            let mut live = Live::wake(&module, vec![file.clone()]);
            times[0].push(start.elapsed());
            for index in 0..mib * 256 / 100 {
                live.poke((index * 97 + round) % (mib * 256) * PAGE, round as u8);
            }
            let start = Instant::now();
            let changed = live.changed();
            times[1].push(start.elapsed());
            let start = Instant::now();
            let pages: Vec<_> =
                changed.iter().map(|index| (*index, *live.heap.page(&live.store, *index).unwrap())).collect();
            times[2].push(start.elapsed());
            let start = Instant::now();
            drop(live);
            times[3].push(start.elapsed());
            let start = Instant::now();
            let file = Arc::get_mut(&mut file).unwrap();
            for (index, page) in &pages {
                file.write_page(*index, page).unwrap();
            }
            times[4].push(start.elapsed());
        }
        let median = times.map(|mut list| {
            list.sort();
            list[list.len() / 2]
        });
        let [wake, scan, read, drop, apply] = median;
        println!("{mib} MiB heap: wake {wake:?}, scan {scan:?}, copy out {read:?}, drop {drop:?}, apply {apply:?}");
    }
}

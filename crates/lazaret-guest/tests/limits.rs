//! The caps on components, beside what real components need.

#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a test reads built guests and prints")]

use std::collections::BTreeMap;
use std::path::Path;

use lazaret_guest::inspect;

const GUESTS: [&str; 6] = ["rust-counter", "c-counter", "js-counter", "python-counter", "mailbox", "wasi-tool"];

/// Every cap leaves room for a guest half as large again as the largest we know.
#[test]
fn real_guests_are_far_from_the_caps() {
    let mut table: BTreeMap<&str, (usize, Vec<usize>)> = BTreeMap::new();
    for (at, guest) in GUESTS.iter().enumerate() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/build/{guest}.wasm"));
        let bytes = std::fs::read(&path)
            .unwrap_or_else(|why| panic!("{}: {why}; `cargo xtask guests` builds it", path.display()));
        let seen = inspect::measure(&bytes).unwrap_or_else(|why| panic!("{guest}: {why}"));
        for (what, extent) in seen.extents() {
            table.entry(what).or_insert((extent.most, vec![0; GUESTS.len()])).1[at] = extent.found;
        }
    }
    println!("{:38} {:>12}  {}", "", "the most", GUESTS.map(|guest| format!("{guest:>15}")).concat());
    for (what, (most, found)) in &table {
        println!("{what:38} {most:>12}  {}", found.iter().map(|found| format!("{found:>15}")).collect::<String>());
    }
    for (what, (most, found)) in table {
        let largest = found.into_iter().max().unwrap_or_default();
        assert!(2 * most >= 3 * largest, "{what}: the most is {most}, and a real guest has {largest}");
    }
}

//! What remembering costs, beside the bare disk in the same run.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, touches the disk and prints"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use common::*;
use lazaret_gate::Digest;
use lazaret_store::{Batch, Change, Store};

const GROUP: u64 = 256;
const GROUPS: u64 = 120;
const AGENTS: u64 = 16;
const TURNS: u64 = 400;

fn main() {
    let dir = dir();
    let store = open(&dir.path().join("root"));
    groups(&store, dir.path());
    turns(&store, dir.path());
    reads(&store);
    verification(&store);
}

fn name(n: u64) -> String {
    format!("agent-{n}")
}

/// One group of turn records, and the bytes that they are in the journal.
fn group(n: u64) -> Vec<Batch> {
    let place = |record| (record % AGENTS, (n * GROUP + record) / AGENTS + 1);
    (0..GROUP)
        .map(place)
        .map(|(agent, number)| turn(&name(agent), number, &format!("message {number}")))
        .collect()
}

fn groups(store: &Store, dir: &Path) {
    (0..AGENTS).for_each(|n| drop(store.commit(creation(&name(n))).unwrap()));
    let mut raw = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("raw"))
        .unwrap();
    let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
    for n in 0..GROUPS {
        let batches = group(n);
        let start = Instant::now();
        let tickets: Vec<_> = batches
            .into_iter()
            .map(|batch| store.commit_async(batch).unwrap())
            .collect();
        let placed: Vec<_> = tickets.into_iter().flat_map(|ticket| ticket.wait().unwrap()).collect();
        ours += start.elapsed();
        let bytes: Vec<_> = placed
            .iter()
            .map(|placed| store.entry_bytes(placed.seq).unwrap())
            .collect();
        let start = Instant::now();
        bytes.iter().for_each(|bytes| raw.write_all(bytes).unwrap());
        raw.sync_data().unwrap();
        theirs += start.elapsed();
    }
    let rate = |time: Duration| (GROUPS * GROUP) as f64 / time.as_secs_f64();
    println!("journal, groups of {GROUP}: {:.0} records/s", rate(ours));
    println!("raw append + fdatasync:  {:.0} records/s", rate(theirs));
    println!("ratio {:.2} (at least 0.5)", rate(ours) / rate(theirs));
}

/// Nanoseconds that this thread has been on a processor.
fn on_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn page(turn: u64, n: u64) -> Vec<u8> {
    let seed = Digest::of(&(turn * 8 + n).to_le_bytes());
    (0..4096)
        .map(|at| {
            if at % 8 < 3 {
                seed.0[at % 32] ^ (at / 32) as u8
            } else {
                0
            }
        })
        .collect()
}

/// One durable turn: a record, six pages, and the changes that go with it, alone in its transaction.
fn turns(store: &Store, dir: &Path) {
    store.commit(creation("worker")).unwrap();
    let raw = File::create(dir.join("raw-turns")).unwrap();
    raw.write_all_at(&vec![0; 4 << 20], 0).unwrap();
    raw.sync_all().unwrap();
    let (mut ours, mut theirs, mut cpu) = (Vec::new(), Vec::new(), 0);
    for number in 1..=TURNS {
        let mut batch = turn("worker", number, "message");
        batch.changes.extend((0..6).map(|n| blob(&page(number, n))));
        batch
            .changes
            .push(set("worker", &format!("key/{}", number % 50), b"a small value", number));
        batch.changes.push(Change::Unfinished {
            agent: id("worker"),
            turn: None,
        });
        let (start, before) = (Instant::now(), on_cpu());
        store.commit(batch).unwrap();
        ours.push(start.elapsed());
        cpu += on_cpu() - before;
        let start = Instant::now();
        raw.write_all_at(&vec![1; 60_000], number % 64 * 60_000).unwrap();
        raw.sync_data().unwrap();
        theirs.push(start.elapsed());
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_micros()
    };
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!(
        "durable turn (1 entry, 6 blobs, 3 changes): median {ours} µs; raw fdatasync of 60 kB in place: {theirs} µs"
    );
    println!("  on the processor, all of it: {} µs per turn", cpu / TURNS / 1000);
}

fn reads(store: &Store) {
    let agent = id("worker");
    let time = |what: &str, read: &dyn Fn(u64)| {
        let start = Instant::now();
        (0..20_000).for_each(read);
        println!("{what}: {:.1} µs", start.elapsed().as_secs_f64() * 1e6 / 20_000.0);
    };
    time("storage get, there", &|n| {
        drop(store.storage_get(&agent, &format!("key/{}", n % 50)).unwrap())
    });
    time("storage get, not there", &|n| {
        drop(store.storage_get(&agent, &format!("no/{n}")).unwrap())
    });
    time("agent", &|_| drop(store.agent(&agent).unwrap()));
    time("blob of a page", &|n| {
        drop(store.blob(&Digest::of(&page(n % TURNS + 1, n % 6))).unwrap())
    });
}

fn verification(store: &Store) {
    let start = Instant::now();
    let verified = store.verify_journal(|_| ()).unwrap();
    let rate = verified.entries as f64 / start.elapsed().as_secs_f64();
    println!(
        "verification: {} records, {rate:.0} records/s (at least 200000)",
        verified.entries
    );
    let start = Instant::now();
    let size = store.prover().unwrap().size();
    println!(
        "prover over {size} leaves: {:.1} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
}

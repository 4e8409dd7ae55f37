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
const TURNS: u64 = 1000;

type Part = fn(&Store, &Path);

/// All parts, or those that are named on the command line.
fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let dir = dir();
    let store = open(&dir.path().join("root"));
    let parts: [(&str, Part); 4] = [("groups", groups), ("turns", turns), ("reads", reads), ("verify", verification)];
    for (_, part) in parts.iter().filter(|(name, _)| named.is_empty() || named.iter().any(|named| named == name)) {
        part(&store, dir.path());
    }
}

fn name(n: u64) -> String {
    format!("agent-{n}")
}

/// One group of turn records, and the bytes that they are in the journal.
fn group(n: u64) -> Vec<Batch> {
    let place = |record| (record % AGENTS, (n * GROUP + record) / AGENTS + 1);
    (0..GROUP).map(place).map(|(agent, number)| turn(&name(agent), number, &format!("message {number}"))).collect()
}

/// Nanoseconds that this thread has been on a processor: what it costs however busy the machine is.
fn on_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn groups(store: &Store, dir: &Path) {
    (0..AGENTS).for_each(|n| drop(store.commit(creation(&name(n))).unwrap()));
    let mut raw = OpenOptions::new().create(true).append(true).open(dir.join("raw")).unwrap();
    let (mut encoding, mut ours, mut theirs, mut cpu) = (Duration::ZERO, Duration::ZERO, Duration::ZERO, 0);
    for n in 0..GROUPS {
        let batches = group(n);
        let start = Instant::now();
        let tickets: Vec<_> = batches.into_iter().map(|batch| store.commit_async(batch).unwrap()).collect();
        encoding += start.elapsed();
        let (start, before) = (Instant::now(), on_cpu());
        let placed: Vec<_> = tickets.into_iter().flat_map(|ticket| ticket.wait().unwrap()).collect();
        ours += start.elapsed();
        cpu += on_cpu() - before;
        let bytes: Vec<_> = placed.iter().map(|placed| store.entry_bytes(placed.seq).unwrap()).collect();
        let start = Instant::now();
        bytes.iter().for_each(|bytes| raw.write_all(bytes).unwrap());
        raw.sync_data().unwrap();
        theirs += start.elapsed();
    }
    let records = (GROUPS * GROUP) as f64;
    let rate = |time: Duration| records / time.as_secs_f64();
    println!(
        "journal, groups of {GROUP}: {:.0} records/s, {:.1} µs of processor each",
        rate(ours),
        cpu as f64 / records / 1e3
    );
    println!("raw append + fdatasync of the same bytes: {:.0} records/s", rate(theirs));
    println!("ratio {:.2} (at least 0.5)", rate(ours) / rate(theirs));
    println!("encoding, on the caller's thread: {:.1} µs each", encoding.as_secs_f64() * 1e6 / records);
}

fn page(turn: u64, n: u64) -> Vec<u8> {
    let seed = Digest::of(&(turn * 8 + n).to_le_bytes());
    (0..4096).map(|at| if at % 8 < 3 { seed.0[at % 32] ^ (at / 32) as u8 } else { 0 }).collect()
}

/// One durable turn: a record, six pages, and the changes that go with it, alone in its transaction.
fn turns(store: &Store, dir: &Path) {
    store.commit(creation("worker")).unwrap();
    let raw = File::create(dir.join("raw-turns")).unwrap();
    raw.write_all_at(&vec![0; 4 << 20], 0).unwrap();
    raw.sync_all().unwrap();
    let (mut ours, mut theirs, mut cpu) = (Vec::new(), Vec::new(), [0, 0]);
    for number in 1..=TURNS {
        let mut batch = turn("worker", number, "message");
        batch.changes.extend((0..6).map(|n| blob(&page(number, n))));
        batch.changes.push(set("worker", &format!("key/{}", number % 50), b"a small value", number));
        batch.changes.push(Change::Unfinished { agent: id("worker"), turn: None });
        let (start, before) = (Instant::now(), on_cpu());
        store.commit(batch).unwrap();
        ours.push(start.elapsed());
        cpu[0] += on_cpu() - before;
        let bytes = vec![1; 60_000];
        let (start, before) = (Instant::now(), on_cpu());
        raw.write_all_at(&bytes, number % 64 * 60_000).unwrap();
        raw.sync_data().unwrap();
        theirs.push(start.elapsed());
        cpu[1] += on_cpu() - before;
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_micros()
    };
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    let [cpu, raw] = cpu.map(|cpu| cpu / TURNS / 1000);
    println!("durable turn (1 entry, 6 blobs, 3 changes): median {ours} µs, {cpu} µs of processor");
    println!("raw write in place + fdatasync of 60 kB: median {theirs} µs, {raw} µs of processor");
}

fn reads(store: &Store, _: &Path) {
    let agent = id("worker");
    let time = |what: &str, read: &dyn Fn(u64)| {
        let (start, before) = (Instant::now(), on_cpu());
        (0..20_000).for_each(read);
        let (time, cpu) = (start.elapsed().as_secs_f64() * 1e6, (on_cpu() - before) as f64 / 1e3);
        println!("{what}: {:.1} µs, {:.1} µs of processor", time / 20_000.0, cpu / 20_000.0);
    };
    let pages: Vec<_> = (0..600).map(|n| Digest::of(&page(n % TURNS + 1, n % 6))).collect();
    time("storage get, there", &|n| drop(store.storage_get(&agent, &format!("key/{}", n % 50)).unwrap()));
    time("storage get, not there", &|n| drop(store.storage_get(&agent, &format!("no/{n}")).unwrap()));
    time("agent", &|_| drop(store.agent(&agent).unwrap()));
    time("blob of a page", &|n| drop(store.blob(&pages[n as usize % pages.len()]).unwrap()));
}

fn verification(store: &Store, _: &Path) {
    let (start, before) = (Instant::now(), on_cpu());
    let verified = store.verify_journal(|_| ()).unwrap();
    let rate = verified.entries as f64 / start.elapsed().as_secs_f64();
    let cpu = verified.entries as f64 / ((on_cpu() - before) as f64 / 1e9);
    println!(
        "verification: {} records, {rate:.0} records/s (at least 200000), {cpu:.0} per second of processor",
        verified.entries
    );
    let start = Instant::now();
    let size = store.prover().unwrap().size();
    println!("prover over {size} leaves: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
}

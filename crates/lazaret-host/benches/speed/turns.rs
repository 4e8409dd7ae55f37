//! What a turn costs, what a heap costs, what an ask costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lazaret_gate::{Budget, Effect, Halt, Outcome};
use lazaret_guest::{Engine, State, Terms, World, turn};
use lazaret_host::Host;
use lazaret_store::Committed;

use crate::bare::Bare;
use crate::guests;
use crate::rates::Raw;
use crate::timing::{median, show, side_by_side, time};

/// A world in which nothing can be asked.
struct Silence;

impl World for Silence {
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        Err(Halt::Stopped(format!("`{}` is not part of the measurement", effect.kind())))
    }
}

/// A turn of a newborn agent in memory, written nowhere. One that ends with the agent's own error keeps nothing, so it is
/// woken memory, limits and call and no more; for one that replies, the pages that it changed are found and named as well.
/// The anchor is a fresh instance of the same component on the same configuration, and the same call.
pub(crate) fn instantiate() {
    let component = guests::counter();
    let engine = Engine::new().expect("an engine");
    let admitted = engine.admit(&component).expect("an agent");
    let mut state = State::default();
    let _ = state.advance(&admitted.birth);
    state.settle(admitted.birth).expect("a heap");
    let bare = Bare::new(&component);
    let measure = |body: &[u8], replies: bool| {
        let (input, budget) = (guests::message(body), Budget::default());
        let ours = || {
            let terms = Terms { input: &input, budget: &budget };
            let ran = turn::run(&admitted.program, &state, &terms, Box::new(Silence));
            assert!(ran.ending.is_ok() && ran.change.is_some() == replies, "the guest did something else");
        };
        side_by_side(5_000, ours, || assert_eq!(bare.call(body).is_ok(), replies, "the guest did something else"))
    };
    measure(b"fail", false).print("instantiate + call, not durable", "bare Wasmtime", " (target at most 1.5)");
    measure(b"recall", true).print("  and what changed is named", "bare Wasmtime", "");
}

/// How long this thread was on a processor.
fn ran() -> Duration {
    let scheduled = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel's account");
    let ran = scheduled.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(ran.expect("time on a processor"))
}

/// What was written to the redo log and flushed.
pub(crate) struct Flushed {
    pub(crate) commits: Arc<AtomicU64>,
    pub(crate) bytes: Arc<AtomicU64>,
}

impl Flushed {
    /// Counts from here on.
    pub(crate) fn of(host: &Host) -> Self {
        let (commits, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counted = (commits.clone(), bytes.clone());
        let listener = move |committed: Committed| {
            counted.0.fetch_add(1, Ordering::Relaxed);
            counted.1.fetch_add(committed.bytes as u64, Ordering::Relaxed);
        };
        assert!(host.store().listen(Box::new(listener)), "nobody else listens");
        Self { commits, bytes }
    }
}

/// Wake, turn, sleep: from the message to the moment at which record, storage and changed pages are on disk. The anchor
/// writes as many bytes as a turn flushes into a file that is long enough, flushes them once, and makes a bare instance
/// and call.
///
/// What a turn flushes is its frame in the redo log, and that is all that its own thread writes to disk: the store counts
/// it. What the store's thread lays into the tables meanwhile is not flushed and not counted here; that
/// it doesn't fall behind shows in the time of turns that follow each other at once, which is printed too.
pub(crate) fn durable() {
    const TURNS: usize = 2_000;
    const ALONE: u32 = 500;
    /// After so many the redo log's file is as long as it gets.
    const WARM_UP: u32 = 2_000;
    let dir = guests::data_root();
    let component = guests::counter();
    let host = Host::open(&dir.path().join("root")).expect("a data root");
    let agent = guests::create(&host, "counter", &component);
    (0..WARM_UP).for_each(|_| drop(guests::send(&host, &agent, b"add 1")));
    let flushed = Flushed::of(&host);
    let (mut pages, before) = (0, ran());
    let alone = time(|| (0..ALONE).for_each(|_| pages += guests::send(&host, &agent, b"add 1").pages));
    let (bytes, ran) = (flushed.bytes.load(Ordering::Relaxed) / u64::from(ALONE), (ran() - before) / ALONE);
    let mut raw = Raw::new(&dir.path().join("raw"), bytes as usize);
    let bare = Bare::new(&component);
    let anchor = || {
        raw.flush();
        bare.call(b"recall").expect("a reply");
    };
    let pair = side_by_side(TURNS, || drop(guests::send(&host, &agent, b"add 1")), anchor);
    pair.print("durable turn", "flush + bare Wasmtime", " (target at most 1.5)");
    let flush: Vec<Duration> = (0..500).map(|_| time(|| raw.flush())).collect();
    let (flush, pages) = (show(median(flush)), pages as f64 / f64::from(ALONE));
    println!(
        "  {pages:.1} pages changed, {bytes} bytes flushed, {} on the processor; one after another: {}; the flush alone: {flush}",
        show(ran),
        show(alone / ALONE)
    );
}

/// Heaps of two sizes, and turns that change few or many of their pages: the cost follows the pages.
pub(crate) fn heap() {
    const TURNS: usize = 60;
    let dir = guests::data_root();
    let root = dir.path().join("root");
    println!("{:<34} {:>12} {:>12} {:>14}", "durable turn by heap and pages", "few changed", "many", "first wake");
    let few_and_many = [3_u32, 164];
    for (name, mib) in [("small", 1), ("large", 64)] {
        let host = Host::open(&root).expect("a data root");
        let agent = guests::create(&host, name, &guests::heap(mib * 16));
        guests::send(&host, &agent, &u32::MAX.to_le_bytes());
        let [few, many] = few_and_many.map(|pages| {
            let times = (0..TURNS).map(|_| {
                let mut changed = 0;
                let took = time(|| changed = guests::send(&host, &agent, &pages.to_le_bytes()).pages);
                // A page for messages and the reply is among them.
                assert!(changed >= pages as usize && changed <= pages as usize + 2, "{changed} pages changed");
                took
            });
            median(times.collect())
        });
        drop(host);
        // Nothing of the agent is in memory now: its compiled code, its image and its pages come from the data root.
        let host = Host::open(&root).expect("a data root");
        let wake = time(|| guests::send(&host, &agent, &few_and_many[0].to_le_bytes()));
        println!("  {:<32} {:>12} {:>12} {:>14}", format!("heap of {mib} MiB"), show(few), show(many), show(wake));
    }
    let [few, many] = few_and_many;
    println!(
        "  few: {few} pages of 4 KiB, 1 % of 1 MiB; many: {many}, 1 % of 64 MiB; first wake: all of the heap from disk"
    );
}

/// An ask that stays on the host, from the guest through the gate to storage and back, and its part in the turn's record
/// and flush: turns with and without a thousand of them. The anchor is a host function that returns a constant.
pub(crate) fn effect() {
    const ASKS: u32 = 1_000;
    let dir = guests::data_root();
    let component = guests::asker();
    let host = Host::open(&dir.path().join("root")).expect("a data root");
    let agent = guests::create(&host, "asker", &component);
    guests::send(&host, &agent, &u32::MAX.to_le_bytes());
    let bare = Bare::new(&component);
    let measure = |asks: u32| {
        let message = asks.to_le_bytes();
        side_by_side(
            200,
            || drop(guests::send(&host, &agent, &message)),
            || drop(bare.call(&message).expect("a reply")),
        )
    };
    let (with, without) = (measure(ASKS), measure(0));
    let ours = with.ours.saturating_sub(without.ours) / ASKS;
    let anchor = with.anchor.saturating_sub(without.anchor) / ASKS;
    let over = show(ours.saturating_sub(anchor));
    println!(
        "{:<34} lazaret {:>9}   bare host call {:>9}   over it {over} (target at most 20 µs)",
        "storage.get, whole gate and tape",
        show(ours),
        show(anchor),
    );
}

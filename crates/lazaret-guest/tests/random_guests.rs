//! Ten thousand guests that nobody wrote, each run three times: whatever a guest does, it does again.
//!
//! Each is a random core module inside a component of world `agent`. Once, it takes its turns with its state kept in
//! memory between them; once, with its state put to sleep as blobs and woken from them; once on one instance, as a replay
//! does. Endings, fuel, asks, pages and globals must be the same each time.

#![expect(clippy::expect_used, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a test reads its count and prints")]

mod support {
    pub(crate) mod world;
    pub(crate) mod wrap;
}

use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use arbitrary::Unstructured;
use lazaret_gate::canonical::Exact;
use lazaret_gate::image::{Image, Memory as MemoryImage};
use lazaret_gate::record::Message;
use lazaret_gate::{Blob, Budget, Digest, Ending, Grants, TapeEntry};
use lazaret_guest::native::heap::{Creator, Scan};
use lazaret_guest::state::Sealed;
use lazaret_guest::{Awake, Change, Engine, Program, Ran, State, Terms, turn};
use wasm_smith::{Config, InstructionKind, InstructionKinds, Module};

use support::world::Memory;
use support::wrap;

/// How many, unless the environment says otherwise.
const GUESTS: u64 = 10_000;

/// How many turns each takes.
const TURNS: u8 = 3;

/// What a random module can ask for: friendly forms of the host's functions, so that asks mostly succeed.
const ASKS: &str = include_str!("support/asks.wat");

/// The random module's place, and the `handle` that drives it.
const DRIVER: &str = include_str!("support/driver.wat");

/// What the driver calls in the random module.
const EXPORTS: &str = r#"(module
    (func (export "a") (param i32 i64) (result i64) unreachable)
    (func (export "b") (param f64 f32) (result f64) unreachable)
    (memory (export "m") 1 4))"#;

/// What the random module may import.
const IMPORTS: &str = r#"(module
    (import "ask" "now" (func (result i64)))
    (import "ask" "random" (func (result i64)))
    (import "ask" "get" (func (param i32) (result i64)))
    (import "ask" "set" (func (param i32 i64)))
    (import "ask" "log" (func (param i64))))"#;

/// Numbers from a seed.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// A random module that can be loaded: of the engine's proposals, and small. Half of them are made such that they don't
/// trap, or few would live to another turn. What admission refuses (dropped segments, changed tables, references in
/// globals) is rare, or few would live at all.
fn module(seed: u64) -> Vec<u8> {
    let rarely = seed.is_multiple_of(16);
    // With both, there is a `data.drop` in nearly every module.
    let (bulk_memory_enabled, max_data_segments) = if seed % 4 < 2 { (true, 0) } else { (rarely, 3) };
    let kinds: &[InstructionKind] = &[
        InstructionKind::Numeric,
        InstructionKind::Vector,
        InstructionKind::Parametric,
        InstructionKind::Variable,
        InstructionKind::Memory,
        InstructionKind::Control,
    ];
    let bytes: Vec<u8> = numbers(seed).flat_map(u64::to_le_bytes).take(3000).collect();
    let config = Config {
        available_imports: Some(wat::parse_str(IMPORTS).expect("the imports are well-formed")),
        exports: Some(wat::parse_str(EXPORTS).expect("the exports are well-formed")),
        max_funcs: 4,
        max_instructions: 40,
        max_globals: 6,
        max_types: 8,
        max_data_segments,
        bulk_memory_enabled,
        reference_types_enabled: rarely,
        multi_value_enabled: rarely,
        allowed_instructions: if rarely { InstructionKinds::all() } else { InstructionKinds::new(kinds) },
        max_memories: 0,
        max_element_segments: 2,
        max_elements: 8,
        max_table_elements: 64,
        max_memory32_bytes: 8 << 16,
        disallow_traps: seed.is_multiple_of(2),
        gc_enabled: false,
        exceptions_enabled: false,
        threads_enabled: false,
        relaxed_simd_enabled: false,
        tail_call_enabled: false,
        memory64_enabled: false,
        ..Config::default()
    };
    Module::new(config, &mut Unstructured::new(&bytes)).expect("the bytes suffice").to_bytes()
}

/// A turn, as far as it can be seen.
#[derive(Debug, PartialEq)]
struct Seen {
    ending: Ending,
    fuel: u64,
    tape: Vec<TapeEntry>,
    memories: Vec<MemoryImage>,
    globals: Vec<Vec<Exact>>,
}

fn budget() -> Budget {
    Budget { fuel: 300_000, memory: 4 << 20, wall_ms: 30_000, effects: 50, bytes: 1 << 20 }
}

fn take_turn(
    number: u8,
    run: impl FnOnce(&Terms<'_>, Box<Memory>) -> Ran,
) -> (Ending, u64, Vec<TapeEntry>, Option<Change>) {
    let input = Message::outside("t", vec![number; 9]);
    let budget = budget();
    let world = Box::new(Memory::new(Grants::basic(), budget.clone()));
    let ran = run(&Terms { input: &input, budget: &budget }, world);
    let ending = ran.ending.expect("nothing halts a turn in memory");
    (ending, ran.fuel, Memory::tape(ran.world), ran.change)
}

impl Seen {
    fn new(ending: Ending, fuel: u64, tape: Vec<TapeEntry>, sealed: Option<&Sealed>) -> Self {
        let (memories, globals) =
            sealed.map_or_else(Default::default, |sealed| (sealed.memories.clone(), sealed.globals.clone()));
        Self { ending, fuel, tape, memories, globals }
    }
}

fn newborn(program: &Program) -> (State, Vec<Blob>) {
    let birth = program.birth().expect("what was born once is born again");
    let mut state = State::default();
    let blobs = state.advance(&birth).blobs;
    state.settle(birth).expect("there is room for a newborn");
    (state, blobs)
}

/// The turns of an agent that stays in memory.
fn awake(program: &Program) -> Vec<Seen> {
    let (mut state, _) = newborn(program);
    let mut turns = Vec::new();
    for number in 1..=TURNS {
        let mut leftover = None;
        let (ending, fuel, tape, change) = take_turn(number, |terms, world| {
            let (ran, left) = turn::run_and_leave(program, &state, terms, world);
            leftover = Some(left);
            ran
        });
        let sealed = change.as_ref().map(|change| state.advance(change));
        turns.push(Seen::new(ending, fuel, tape, sealed.as_ref()));
        // As live turns do: what was written may stay mapped for the next one.
        leftover.expect("a turn was taken").settle(&mut state, change).expect("there is room for a turn's change");
    }
    turns
}

/// The same turns, on one instance as far as it goes.
fn kept(program: &Program) -> Vec<Seen> {
    let mut agent = Awake::new(program.clone(), newborn(program).0);
    let mut turns = Vec::new();
    for number in 1..=TURNS {
        let (ending, fuel, tape, change) = take_turn(number, |terms, world| agent.run(terms, world));
        let sealed = change.as_ref().map(|change| agent.advance(change));
        turns.push(Seen::new(ending, fuel, tape, sealed.as_ref()));
        // Where the kernel doesn't say which pages were written to, nothing is kept, and this is the first life again.
        let can_keep = Creator::new().scan() == Scan::Kernel;
        assert_eq!(agent.is_kept(), can_keep && change.is_some(), "an instance is kept if it replied");
        if let Some(change) = change {
            agent.settle(change).expect("there is room for a turn's change");
        }
    }
    turns
}

fn stored(blob: &Blob) -> ([u8; 32], Vec<u8>) {
    (blob.digest().0, blob.bytes().to_vec())
}

/// The same turns, with the agent as blobs between them.
fn asleep(program: &Program) -> Vec<Seen> {
    let (mut state, blobs) = newborn(program);
    let mut disk: BTreeMap<[u8; 32], Vec<u8>> = blobs.iter().map(stored).collect();
    let mut turns = Vec::new();
    for number in 1..=TURNS {
        let (ending, fuel, tape, change) = take_turn(number, |terms, world| turn::run(program, &state, terms, world));
        let sealed = change.as_ref().map(|change| state.advance(change));
        let seen = Seen::new(ending, fuel, tape, sealed.as_ref());
        if let Some(sealed) = sealed {
            disk.extend(sealed.blobs.iter().map(stored));
            let image = Image {
                agent: "random".parse().expect("a lawful name"),
                component: program.digest(),
                engine: program.engine().digest(),
                turn: number.into(),
                memories: seen.memories.clone(),
                globals: seen.globals.clone(),
            };
            let fetch = |name: &Digest| disk.get(&name.0).cloned().ok_or_else(|| format!("there is no {name}"));
            state = State::wake(&image, fetch).expect("what fell asleep wakes up");
        }
        turns.push(seen);
    }
    turns
}

/// How a guest fared, by name, or how its lives differ.
fn run(engine: &Engine, frame: &[u8], seed: u64) -> Result<String, String> {
    let component = wrap::splice(frame, &module(seed)).expect("the frame has a place for a module");
    let admitted = match engine.admit(&component) {
        Ok(admitted) => admitted,
        Err(why) => return Ok(format!("refused: {}", reason(&why.to_string()))),
    };
    let awake = awake(&admitted.program);
    for (how, other) in [("asleep between", asleep(&admitted.program)), ("kept", kept(&admitted.program))] {
        if let Some(at) = (0..awake.len()).find(|at| awake[*at] != other[*at]) {
            return Err(format!("guest {seed}, turn {}: {:?}\n{how}: {:?}", at + 1, awake[at], other[at]));
        }
    }
    let fared = |turn: &Seen| match &turn.ending {
        Ending::Replied(_) => "replied".to_owned(),
        Ending::Failed(_) => "failed".to_owned(),
        Ending::Stopped(stop) => format!("stopped by {}", stop.cause.name()),
    };
    let asked = awake.iter().any(|turn| !turn.tape.is_empty());
    Ok(format!(
        "{}{}",
        awake.iter().map(fared).collect::<Vec<_>>().join(", then "),
        if asked { ", having asked" } else { "" }
    ))
}

/// The part of a refusal that doesn't name a place.
fn reason(why: &str) -> String {
    let why = why.split(" (at offset").next().unwrap_or(why);
    why.split('`').nth(1).map_or_else(|| why.chars().take(120).collect(), |quoted| format!("`{quoted}`"))
}

/// What came of many guests.
#[derive(Default)]
struct Tally {
    fared: BTreeMap<String, u64>,
    different: Vec<String>,
    panicked: Vec<u64>,
}

impl Tally {
    /// Runs guests until there are none left.
    fn work(engine: &Engine, frame: &[u8], next: &AtomicU64, count: u64) -> Self {
        let mut tally = Self::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return tally;
            }
            match std::panic::catch_unwind(AssertUnwindSafe(|| run(engine, frame, seed))) {
                Ok(Ok(how)) => *tally.fared.entry(how).or_default() += 1,
                Ok(Err(how)) => tally.different.push(how),
                Err(_) => tally.panicked.push(seed),
            }
        }
    }

    fn add(&mut self, other: Self) {
        other.fared.into_iter().for_each(|(how, times)| *self.fared.entry(how).or_default() += times);
        self.different.extend(other.different);
        self.panicked.extend(other.panicked);
    }

    fn total(&self, part: &str) -> u64 {
        self.fared.iter().filter(|(how, _)| how.contains(part)).map(|(_, times)| times).sum()
    }
}

/// Panics, also those that something caught.
static PANICS: AtomicU64 = AtomicU64::new(0);

#[test]
fn random_guests_run_the_same_each_time() {
    let count = match std::env::var("LAZARET_RANDOM_GUESTS") {
        Ok(count) => count.parse().expect("LAZARET_RANDOM_GUESTS is a number"),
        Err(_) => GUESTS,
    };
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        report(panic);
    }));
    let engine = Engine::new().expect("the engine starts here");
    let frame = wat::parse_str(wrap::component(ASKS, "utf8", DRIVER, "$driver")).expect("the frame is well-formed");
    let next = AtomicU64::new(0);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let work = || Tally::work(&engine, &frame, &next, count);
        for worker in [scope.spawn(work), scope.spawn(work)] {
            tally.add(worker.join().expect("a worker comes to its end"));
        }
    });
    for (how, times) in &tally.fared {
        println!("{times:>6}  {how}");
    }
    let panics = PANICS.load(Ordering::SeqCst);
    // Past the test harness's capture: the figure is what this test is run for.
    let _ = writeln!(
        std::io::stderr(),
        "random guests: {count} run three times, {} differences, {panics} panics\n\
         of these {} replied, {} trapped, {} ran out of fuel, {} asked for something; {} were refused at admission",
        tally.different.len(),
        tally.total("replied"),
        tally.total("trap"),
        tally.total("fuel"),
        tally.total("having asked"),
        tally.total("refused:"),
    );
    assert_eq!(panics, 0, "panics of guests {:?}", tally.panicked);
    assert!(tally.different.is_empty(), "{}", tally.different.join("\n"));
    assert!(2 * tally.total("refused:") <= count, "fewer than half of the guests ran");
}

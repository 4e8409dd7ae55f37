//! The supervisor's core lives through thousands of histories with crashes, delays, full disks, revocations, quarantines,
//! schedules and drains, and keeps its word in each. `LAZARET_SEED=n` lives through one of them again and tells it;
//! `LAZARET_SEEDS=n` through so many.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reads its own settings, prints what it counted, and one that can't go on has failed"
)]

#[path = "simulation/disk.rs"]
mod disk;
#[path = "simulation/flaw.rs"]
mod flaw;
#[path = "simulation/watch.rs"]
mod watch;
#[path = "simulation/world.rs"]
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use flaw::Flaw;
use world::World;

/// Seeds that are lived through.
const SEEDS: u64 = 2_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, not a number")))
}

/// Lives through one history. What went wrong, with the end of the story.
fn live(seed: u64) -> Result<World, String> {
    live_with(seed, None)
}

/// The same, with something made wrong on purpose.
fn live_with(seed: u64, flaw: Option<Flaw>) -> Result<World, String> {
    let mut world = World::new(seed);
    world.flaw = flaw;
    let lived = world.run();
    match lived {
        Ok(()) => Ok(world),
        Err(why) => {
            let story: Vec<String> = world.story.into();
            Err(format!("{}\nseed {seed}: {why}\nLAZARET_SEED={seed} tells it again", story.join("\n")))
        }
    }
}

#[test]
fn no_history_breaks_a_promise() {
    if let Some(seed) = number("LAZARET_SEED") {
        let told = live(seed).map(|world| Vec::from(world.story).join("\n"));
        println!("{}", told.unwrap_or_else(|why| panic!("{why}")));
        return;
    }
    let seeds = number("LAZARET_SEEDS").unwrap_or(SEEDS);
    let (next, wrong) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let counts: [AtomicU64; 6] = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || wrong.lock().unwrap().len() >= 3 {
                        return;
                    }
                    match live(seed) {
                        Ok(it) => {
                            let counted = [it.turns, it.crashes, it.fired, it.quarantines, it.revocations, it.full];
                            counts.iter().zip(counted).for_each(|(all, it)| {
                                all.fetch_add(it, Ordering::Relaxed);
                            });
                        }
                        Err(why) => wrong.lock().unwrap().push(why),
                    }
                }
            });
        }
    });
    let [turns, crashes, fired, quarantines, revocations, full] = counts.map(AtomicU64::into_inner);
    let wrong = wrong.into_inner().unwrap();
    println!(
        "{seeds} seeds: {turns} turns, {crashes} crashes, {revocations} revocations, {full} times a full disk, {fired} schedules \
         fired, {quarantines} quarantines; {} violations",
        wrong.len()
    );
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
    let rare = [quarantines, revocations, full].into_iter().min();
    assert!(seeds < 100 || (turns > seeds * 20 && crashes > seeds && fired > seeds && rare > Some(seeds / 10)));
}

#[test]
fn a_seed_gives_the_same_history_every_time() {
    for seed in [1, 2, 3] {
        let tell = || live(seed).map(|world| world.story).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(tell(), tell());
    }
}

/// Something is wrong: a history shows it, says its seed, and shows the same when it is told again.
#[test]
fn what_is_made_wrong_is_found_and_told_again() {
    for flaw in [Flaw::Forgets, Flaw::Loses, Flaw::Repeats, Flaw::Hasty, Flaw::Lenient, Flaw::Crowds] {
        let found = (0..200).find_map(|seed| Some((seed, live_with(seed, Some(flaw)).err()?)));
        let (seed, why) = found.unwrap_or_else(|| panic!("nobody noticed that a supervisor {flaw:?}"));
        assert!(why.ends_with(&format!("LAZARET_SEED={seed} tells it again")), "{why}");
        assert_eq!(live_with(seed, Some(flaw)).err(), Some(why.clone()));
        assert!(live(seed).is_ok(), "only that is wrong");
        let what = why.lines().rev().nth(1).unwrap_or_default();
        println!("{flaw:?}: {what}");
    }
}

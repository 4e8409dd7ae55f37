//! Journals, images and bundles are changed at random, by blind damage and by people who mend what they can after
//! themselves: every change is found. `LAZARET_TAMPERINGS` says how many, `LAZARET_SEED` which ones.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

mod bundles;
mod images;
mod journal;
mod lies;
mod rows;
#[allow(dead_code, reason = "shared by several tests")]
#[path = "../support/station.rs"]
mod station;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;

use station::{Dice, number, say};
use world::World;

/// How one tampering went.
pub(crate) enum Fate {
    /// It was found, and by what.
    Found(&'static str),
    /// It changed nothing, or could not be made: it doesn't count.
    Nothing,
    /// Nobody noticed.
    Unseen(String),
}

/// Who tampers: each keeps what it needs between tamperings.
struct Vandals<'a> {
    journal: journal::Vandal<'a>,
    images: images::Vandal,
    bundles: bundles::Vandal<'a>,
    lies: lies::Liar,
}

/// What is tampered with in the tampering of this number, and how it went.
fn tamper(vandals: &mut Vandals<'_>, index: u64, dice: &mut Dice) -> (&'static str, Fate) {
    match index % 20 {
        0..7 => ("journal", vandals.journal.tamper(dice)),
        7..13 => ("image", vandals.images.tamper(dice)),
        // Re-execution takes longer than all other checks together.
        13 if index.is_multiple_of(3) => ("bundle", vandals.lies.lie(dice)),
        _ => ("bundle", vandals.bundles.tamper(dice)),
    }
}

#[derive(Default)]
struct Tally {
    found: BTreeMap<&'static str, u64>,
    by: BTreeMap<&'static str, u64>,
    again: u64,
    unseen: Vec<String>,
}

fn work(world: &World, seed: u64, mine: impl Iterator<Item = u64>, worker: usize, tally: &Mutex<Tally>) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut vandals = Vandals {
        journal: journal::Vandal::new(world, &dir.path().join(format!("journal-{worker}"))),
        images: images::Vandal::new(world, &dir.path().join(format!("image-{worker}"))),
        bundles: bundles::Vandal::new(world),
        lies: lies::Liar::new(world),
    };
    for index in mine {
        let mut dice = Dice(seed.wrapping_mul(0x1_0000_0000).wrapping_add(index));
        // What changes nothing is tried again with other dice until something is changed.
        loop {
            let (what, fate) = tamper(&mut vandals, index, &mut dice);
            let mut tally = tally.lock().expect("no worker failed");
            match fate {
                Fate::Found(by) => {
                    *tally.found.entry(what).or_default() += 1;
                    *tally.by.entry(by).or_default() += 1;
                    break;
                }
                Fate::Nothing => tally.again += 1,
                Fate::Unseen(how) => {
                    tally.unseen.push(format!("{what} {index}: {how}"));
                    break;
                }
            }
        }
    }
}

#[test]
fn every_tampering_is_found() {
    let (count, seed) = (number("LAZARET_TAMPERINGS", 20_000), number("LAZARET_SEED", 4));
    say(&format!("tamperings: seed {seed}"));
    let world = World::new();
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (world, tally) = (&world, &tally);
            scope.spawn(move || {
                work(world, seed, (0..count).filter(|index| index / 20 % 2 == worker as u64), worker, tally)
            });
        }
    });
    let Tally { found, by, again, unseen } = tally.into_inner().expect("no worker failed");
    for (by, times) in by {
        say(&format!("  {times:>6} found by {by}"));
    }
    say(&format!("  {again:>6} more changed nothing and were made anew"));
    let of = |what: &str| found.get(what).copied().unwrap_or_default();
    let (journals, images, bundles) = (of("journal"), of("image"), of("bundle"));
    let all = journals + images + bundles;
    say(&format!("tamperings: {count} (journal {journals}, image {images}, bundle {bundles}): {all} detected"));
    assert!(unseen.is_empty(), "{} unseen:\n{}", unseen.len(), unseen.join("\n"));
    assert_eq!(all, count);
}

#[test]
fn the_other_checker_says_the_same() {
    bundles::agree(&World::new(), number("LAZARET_SEED", 4), 300);
}

//! Whoever listens hears of every commit, and nobody has to look for one.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests touch the disk, and one that can't go on has failed"
)]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::*;
use lazaret_store::{Committed, Store};

#[test]
fn every_commit_is_told_before_whoever_waits_for_it_goes_on() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let heard: Arc<Mutex<Vec<Committed>>> = Arc::default();
    let ears = Arc::clone(&heard);
    assert!(store.listen(Box::new(move |committed| ears.lock().unwrap().push(committed))));
    assert!(!store.listen(Box::new(|_| panic!("there is one who listens"))), "the first who listens is told");
    for number in 1..=20 {
        store.commit(turn("a", number, "in")).unwrap();
        let last = *heard.lock().unwrap().last().expect("it was told");
        assert_eq!(last.journal, store.journal_len().unwrap());
    }
    // What fails is not told.
    let before = heard.lock().unwrap().len();
    store.commit(creation("a")).unwrap_err();
    assert_eq!(heard.lock().unwrap().len(), before);
    // Commits of many threads are told in the order in which they were made.
    std::thread::scope(|scope| {
        for name in ["b", "c", "d", "e"] {
            let store = &store;
            scope.spawn(move || {
                store.commit(creation(name)).unwrap();
                (1..=20).for_each(|number| drop(store.commit(turn(name, number, "in")).unwrap()));
            });
        }
    });
    let heard = heard.lock().unwrap();
    assert!(heard.windows(2).all(|pair| pair[0].journal < pair[1].journal));
    assert_eq!(heard.last().unwrap().journal, store.journal_len().unwrap());
    let told: usize = heard.iter().map(|committed| committed.batches).sum();
    assert_eq!(told, 20 + 4 * 21);
}

#[test]
fn there_is_time_while_the_disk_works() {
    let dir = dir();
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    let begin = |_: std::os::fd::BorrowedFd<'_>, _: u64, len: u64| {
        assert!(len > 0);
        BEGUN.fetch_add(1, Ordering::Relaxed);
    };
    let store = Store::open_ahead(dir.path(), now, begin).unwrap();
    store.commit(creation("a")).unwrap();
    let (before, mut times) = (BEGUN.load(Ordering::Relaxed), 0);
    for number in 1..=20 {
        let entries = [turn_body("a", number, "in")];
        let placed = store.commit_entries_while(&entries, turn("a", number, "in").changes, || times += 1).unwrap();
        assert_eq!(placed[0].seq, store.journal_len().unwrap() - 1);
    }
    assert_eq!(times, 20, "once in each");
    assert_eq!(BEGUN.load(Ordering::Relaxed) - before, 20, "each was begun before it was waited for");
    // What never gets to the disk leaves no time.
    store.commit_entries_while(&creation("a").entries, creation("a").changes, || times += 1).unwrap_err();
    assert_eq!(times, 20);
    // Whoever waits for another's flush has time too, or is told before; never twice.
    std::thread::scope(|scope| {
        for name in ["b", "c", "d", "e", "f", "g", "h", "i"] {
            let store = &store;
            scope.spawn(move || {
                store.commit(creation(name)).unwrap();
                for number in 1..=50 {
                    let (entries, mut times) = ([turn_body(name, number, "in")], 0);
                    let changes = turn(name, number, "in").changes;
                    store.commit_entries_while(&entries, changes, || times += 1).unwrap();
                    assert!(times <= 1);
                }
            });
        }
    });
    store.close();
    assert_eq!(open(dir.path()).agents().unwrap().iter().map(|row| row.turn).sum::<u64>(), 20 + 8 * 50);
}

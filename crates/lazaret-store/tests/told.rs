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

use std::sync::{Arc, Mutex};

use common::*;
use lazaret_store::Committed;

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

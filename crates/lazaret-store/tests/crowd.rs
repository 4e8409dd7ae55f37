//! Many who commit at once: the clerk writes for them, a flush that fails is told to all whom it concerns, and nobody is left
//! waiting.
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

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use lazaret_store::{Store, StoreError};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const CLERK: &str = "lazaret-log";
const CHILD: &str = "LAZARET_TEST_CROWD";
const TURNS: u64 = 5;

/// A disk on which others have time to come.
fn slowly(_: BorrowedFd<'_>, _: u64, _: u64) {
    std::thread::sleep(Duration::from_millis(2));
}

fn is_clerk() -> bool {
    std::thread::current().name() == Some(CLERK)
}

/// Each takes turns until one fails; how many were acknowledged, and what was said in the end.
fn all_at_once(store: &Store, turns: u64) -> Vec<(u64, Result<(), StoreError>)> {
    let count = |name: &str| {
        for number in 1..=turns {
            if let Err(why) = store.commit(turn(name, number, "in")) {
                return (number - 1, Err(why));
            }
        }
        (turns, Ok(()))
    };
    std::thread::scope(|scope| {
        let threads = NAMES.map(|name| scope.spawn(move || count(name)));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn one_writes_itself_and_for_a_crowd_the_clerk_does() {
    let dir = dir();
    let store = Store::open_ahead(dir.path(), now, slowly).unwrap();
    let heard: Arc<Mutex<Vec<(bool, usize)>>> = Arc::default();
    let ears = Arc::clone(&heard);
    assert!(store.listen(Box::new(move |told| ears.lock().unwrap().push((is_clerk(), told.batches)))));
    NAMES.iter().for_each(|name| drop(store.commit(creation(name)).unwrap()));
    assert_eq!(*heard.lock().unwrap(), [(false, 1); 6], "whoever is alone needs nobody");
    assert!(all_at_once(&store, 20).iter().all(|answer| *answer == (20, Ok(()))));
    let told = heard.lock().unwrap().clone();
    assert!(told.iter().any(|(clerk, batches)| *clerk && *batches > 1), "{told:?}");
    assert_eq!(told.iter().map(|(_, batches)| batches).sum::<usize>(), 6 * 21);
    // What nobody waits for is written when the store is closed.
    let left: Vec<_> = NAMES.map(|name| store.commit_async(turn(name, 21, "in")).unwrap()).into();
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.agents().unwrap().iter().map(|row| row.turn).sum::<u64>(), 6 * 21);
    left.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
    store.verify_journal(|_| ()).unwrap();
    store.verify_state().unwrap();
}

#[test]
fn nobody_waits_for_a_clerk_that_broke_down() {
    let dir = dir();
    let store = Store::open_ahead(dir.path(), now, slowly).unwrap();
    NAMES.iter().for_each(|name| drop(store.commit(creation(name)).unwrap()));
    assert!(store.listen(Box::new(|_| assert!(!is_clerk(), "it breaks down when the commit is on disk"))));
    let said = all_at_once(&store, 1_000);
    assert!(said.iter().all(|(_, why)| *why == Err(StoreError::Closed)), "{said:?}");
    assert_eq!(store.commit(turn("a", 1_000, "in")), Err(StoreError::Closed));
    drop(store);
    let store = open(dir.path());
    for (name, (acknowledged, _)) in NAMES.iter().zip(said) {
        let there = store.agent(&id(name)).unwrap().unwrap().turn;
        assert!(
            (acknowledged..=acknowledged + 1).contains(&there),
            "{name}: {acknowledged} acknowledged, {there} there"
        );
    }
    store.verify_journal(|_| ()).unwrap();
    store.verify_state().unwrap();
}

/// Takes turns on many threads, says which are acknowledged, and tries again what failed.
fn child(root: &Path) {
    let store = match Store::open_ahead(root, now, slowly) {
        Ok(store) => store,
        Err(why) => return println!("open failed: {why}"),
    };
    let attempts = |name: &str, taken: u64, attempt: &dyn Fn() -> bool| {
        (0..3).any(|_| {
            let there = store.agent(&id(name)).unwrap().map_or(0, |row| row.turn);
            assert_eq!(there, taken, "what failed is not there");
            attempt()
        })
    };
    std::thread::scope(|scope| {
        for name in NAMES {
            let (store, attempts) = (&store, &attempts);
            scope.spawn(move || {
                attempts(name, 0, &|| store.commit(creation(name)).is_ok());
                for n in 1..=TURNS {
                    if !attempts(name, n - 1, &|| store.commit(turn(name, n, "in")).is_ok()) {
                        return println!("gave up {name}");
                    }
                    println!("ack {name} {n}");
                }
            });
        }
    });
    println!("done");
}

/// Runs the child with one fault and checks what it leaves. Returns what it said.
fn run(fault: &str) -> String {
    let dir = dir();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={fault}")])
        .arg(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", "death_and_errors_in_a_crowd"])
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("panicked"), "{fault}: {said}{errors}");
    let store = Store::open(dir.path(), now).unwrap_or_else(|why| panic!("{fault}: {why}\n{said}"));
    store.verify_journal(|_| ()).unwrap_or_else(|why| panic!("{fault}: {why}\n{said}"));
    store.verify_state().unwrap_or_else(|why| panic!("{fault}: {why}\n{said}"));
    for name in NAMES {
        let acknowledged = said.lines().filter(|line| line.starts_with(&format!("ack {name} "))).count() as u64;
        let there = store.agent(&id(name)).unwrap().map_or(0, |row| row.turn);
        let at_most = if said.contains("done") { acknowledged } else { acknowledged + 1 };
        let holds = (acknowledged..=at_most).contains(&there);
        assert!(holds, "{fault}: {acknowledged} of {name} acknowledged, {there} there\n{said}");
    }
    said
}

#[test]
fn death_and_errors_in_a_crowd() {
    if let Some(root) = std::env::var_os(CHILD) {
        return child(Path::new(&root));
    }
    let strace = Command::new("strace").arg("-V").output();
    assert!(strace.is_ok(), "strace is needed to inject faults; install it, e.g. with apt-get install strace");
    let mut deaths = 0;
    for at in 1..=40 {
        deaths += u64::from(!run(&format!("fdatasync:signal=KILL:when={at}")).contains("done"));
        for error in ["EIO", "ENOSPC"] {
            let said = run(&format!("fdatasync:error={error}:when={at}"));
            let well = said.contains("open failed") || said.contains("done") && !said.contains("gave up");
            assert!(well, "fdatasync {at} {error}: {said}");
        }
    }
    for at in (1..120).step_by(17) {
        for fault in ["error=EIO", "error=ENOSPC", "signal=KILL"] {
            run(&format!("pwrite64:{fault}:when={at}"));
        }
    }
    // Six times six commits make at least as many flushes as each of them needs by itself.
    assert!(deaths > TURNS, "{deaths}");
}

//! Death and disk errors at every flush: what was acknowledged is there, and the chain holds.
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

use std::path::Path;
use std::process::Command;

use common::*;
use lazaret_store::{Store, StoreError};

const CHILD: &str = "LAZARET_TEST_CRASH";
/// Set: the child dies at once after the first turn that failed.
const ABORT: &str = "LAZARET_TEST_ABORT";
const TURNS: u64 = 6;

fn batch(n: u64) -> lazaret_store::Batch {
    let mut batch = turn("a", n, &format!("turn {n}"));
    batch.changes.push(set("a", &format!("key {n}"), &[n as u8; 3000], n));
    batch.changes.push(blob(&[n as u8; 9000]));
    batch
}

/// Takes turns, says which are acknowledged, and tries again what failed.
fn child(root: &Path) {
    let store = match Store::open(root, now) {
        Ok(store) => store,
        Err(why) => return println!("open failed: {why}"),
    };
    let mut made = store.agent(&id("a")).unwrap().is_some();
    for _ in 0..3 {
        made = made || store.commit(creation("a")).is_ok();
    }
    for n in 1..=TURNS {
        let attempt = |attempt| {
            let before = store.agent(&id("a")).unwrap().map_or(0, |row| row.turn);
            assert_eq!(before, n - 1, "what failed is not there");
            let answer = store.commit(batch(n));
            answer.map_err(|why| println!("failed {n} {attempt}: {why}")).is_ok()
        };
        let abort = std::env::var_os(ABORT).is_some();
        if abort && !attempt(0) {
            println!("dies");
            std::process::abort();
        }
        if !abort && !(0..3).any(attempt) {
            break;
        }
        println!("ack {n}");
    }
    match store.verify_journal(|_| ()).map(drop).and_then(|()| store.verify_state()) {
        Ok(()) => println!("done"),
        // What was acknowledged can be read when the tables can be written again: whoever opens the data root does that.
        Err(why @ (StoreError::DiskFull | StoreError::Io { .. })) => println!("unreadable: {why}"),
        Err(why) => panic!("{why}"),
    }
}

/// Runs the child with one fault and checks what it leaves. Returns what it said.
fn run(fault: &str, abort: bool) -> String {
    let dir = dir();
    let mut command = Command::new("strace");
    if abort {
        command.env(ABORT, "1");
    }
    let output = command
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={fault}")])
        .arg(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", "death_and_errors_at_every_flush"])
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("panicked"), "{fault}: {said}{errors}");
    let acknowledged = said.lines().filter(|line| line.starts_with("ack ")).count() as u64;
    let store = Store::open(dir.path(), now).unwrap_or_else(|why| panic!("{fault}: {why}\n{said}"));
    store.verify_journal(|_| ()).unwrap_or_else(|why| panic!("{fault}: {why}\n{said}"));
    store.verify_state().unwrap_or_else(|why| panic!("{fault}: {why}\n{said}"));
    let turn = store.agent(&id("a")).unwrap().map_or(0, |row| row.turn);
    // Somebody was told that it failed, or that all is done: then there is no more than what was acknowledged.
    let certain = said.contains("done") || said.contains("dies");
    let at_most = if certain { acknowledged } else { acknowledged + 1 };
    assert!((acknowledged..=at_most).contains(&turn), "{fault}: {acknowledged} acknowledged, {turn} there\n{said}");
    for n in 1..=turn {
        assert_eq!(store.storage_get(&id("a"), &format!("key {n}")).unwrap(), Some((vec![n as u8; 3000], n)));
        assert!(store.has_blob(&lazaret_gate::Digest::of(&[n as u8; 9000])).unwrap());
    }
    said
}

#[test]
fn death_and_errors_at_every_flush() {
    if let Some(root) = std::env::var_os(CHILD) {
        return child(Path::new(&root));
    }
    let strace = Command::new("strace").arg("-V").output();
    assert!(strace.is_ok(), "strace is needed to inject faults; install it, e.g. with apt-get install strace");
    let (mut deaths, mut errors) = (0, 0);
    // strace counts each call by itself; SQLite uses the second kind where it was told that there is one.
    for call in ["fsync", "fdatasync"] {
        for at in 1.. {
            let said = run(&format!("{call}:signal=KILL:when={at}"), false);
            if said.contains("done") {
                break;
            }
            deaths += 1;
            for error in ["EIO", "ENOSPC"] {
                let said = run(&format!("{call}:error={error}:when={at}"), false);
                let well = said.contains("open failed") || said.contains(&format!("ack {TURNS}\ndone"));
                assert!(well, "{call} {at} {error}: {said}");
                errors += 1;
            }
            run(&format!("{call}:error=EIO:when={at}"), true);
            errors += 1;
        }
    }
    for at in (1..300).step_by(23) {
        for fault in ["error=EIO", "error=ENOSPC", "signal=KILL"] {
            run(&format!("pwrite64:{fault}:when={at}"), false);
            errors += 1;
        }
        run(&format!("pwrite64:error=ENOSPC:when={at}+"), false);
        errors += 1;
    }
    println!("{deaths} deaths, {errors} disk errors: nothing acknowledged is lost, every chain holds");
    assert!(deaths > TURNS);
}

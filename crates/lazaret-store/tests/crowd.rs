//! Many who commit at once: the clerk writes for them, where the disk is slow two commits are flushed at a time, a flush that
//! fails is told to all whom it concerns, and nobody is left waiting.
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
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use lazaret_store::{Store, StoreError};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const CLERK: &str = "lazaret-log";
const CHILD: &str = "LAZARET_TEST_CROWD";
const BREAKS_AT: &str = "LAZARET_TEST_BREAKS_AT";
const GIVES_UP: &str = "LAZARET_TEST_GIVES_UP";
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
    if let Ok(at) = std::env::var(BREAKS_AT) {
        let (at, told) = (at.parse::<u64>().unwrap(), AtomicU64::new(0));
        let listener =
            move |_| assert!(told.fetch_add(1, Relaxed) + 1 != at, "it breaks down when the commit is on disk");
        assert!(store.listen(Box::new(listener)));
    }
    let attempts = |name: &str, taken: u64, attempt: &dyn Fn() -> bool| {
        // strace has each thread fail once: that is more often than there are threads.
        let often = if std::env::var_os(BREAKS_AT).is_some() { 1 } else { 10 };
        (0..often).any(|_| {
            let there = store.agent(&id(name)).unwrap().map_or(0, |row| row.turn);
            assert_eq!(there, taken, "what failed is not there");
            let done = attempt();
            if !done && std::env::var_os(GIVES_UP).is_some() {
                println!("gave up {name}");
                std::process::abort();
            }
            done
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

/// A disk as `disk.c` has it: a fault, where it strikes, and how much longer a flush takes.
type Disk<'a> = (&'a str, u64, &'a str);

/// `disk.c`, compiled.
fn disk(dir: &Path) -> PathBuf {
    let (source, made) = (concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/faults/disk.c"), dir.join("disk.so"));
    let done = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]).arg(&made).arg(source).status();
    assert!(done.is_ok_and(|done| done.success()), "a C compiler is needed, as `cc`, to make a bad disk");
    made
}

/// The commits in a log that were written while the one before them was on its way to the disk.
fn in_company(root: &Path) -> usize {
    let log = std::fs::read(root.join("lazaret.redo")).unwrap_or_default();
    let word = |at: usize| log.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()));
    let frames = (0..log.len()).step_by(64).filter(|at| log[*at..].starts_with(b"LZRTLOG\x02"));
    frames.filter(|at| word(at + 8) > word(at + 24) + 1).count()
}

/// What came of a run.
struct Run {
    said: String,
    in_company: usize,
}

/// Runs the child with one of strace's faults, on a disk or on the machine's, and checks what it leaves.
fn run(fault: Option<&str>, disk: Option<(&Path, Disk<'_>)>) -> Run {
    run_so(fault, disk, &[])
}

fn run_so(fault: Option<&str>, disk: Option<(&Path, Disk<'_>)>, how: &[(&str, &str)]) -> Run {
    let (dir, what) = (dir(), format!("{fault:?} {disk:?}"));
    let mut command = match fault {
        Some(fault) => {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={fault}")]);
            strace.arg(std::env::current_exe().unwrap());
            strace
        }
        None => {
            // Whoever waits for ever has failed.
            let mut timed = Command::new("timeout");
            timed.args(["-s", "KILL", "20"]).arg(std::env::current_exe().unwrap());
            timed
        }
    };
    if let Some((made, (fault, at, slow))) = disk {
        command.env("LD_PRELOAD", made).env("DISK_ROOT", dir.path()).env("DISK_FAULT", fault);
        command.env("DISK_AT", at.to_string()).env("DISK_SLOW", slow);
    }
    let test = ["--nocapture", "--exact", "death_and_errors_in_a_crowd"];
    let output = command.args(test).env(CHILD, dir.path()).envs(how.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_to_break = how.iter().any(|(name, _)| *name == BREAKS_AT);
    let ended = output.status.code().is_some_and(|code| code != 137);
    assert!(ended || !is_to_break, "{what}: somebody waits for ever: {said}{errors}");
    assert_eq!(errors.contains("panicked"), is_to_break, "{what}: {said}{errors}");
    let in_company = in_company(dir.path());
    let store = Store::open(dir.path(), now).unwrap_or_else(|why| panic!("{what}: {why}\n{said}"));
    store.verify_journal(|_| ()).unwrap_or_else(|why| panic!("{what}: {why}\n{said}"));
    store.verify_state().unwrap_or_else(|why| panic!("{what}: {why}\n{said}"));
    for name in NAMES {
        let acknowledged = said.lines().filter(|line| line.starts_with(&format!("ack {name} "))).count() as u64;
        let there = store.agent(&id(name)).unwrap().map_or(0, |row| row.turn);
        // Who broke down has told nobody what is on disk.
        let is_over = !is_to_break && (said.contains("done") || said.contains(&format!("gave up {name}")));
        let at_most = if is_over { acknowledged } else { acknowledged + 1 };
        let holds = (acknowledged..=at_most).contains(&there);
        assert!(holds, "{what}: {acknowledged} of {name} acknowledged, {there} there\n{said}");
    }
    Run { said, in_company }
}

#[test]
fn what_failed_is_void_before_anybody_is_told() {
    let made = dir();
    let disk = disk(made.path());
    let mut gave_up = 0;
    // strace counts for each thread by itself, and none of them flushes often.
    for (at, slow) in (0..12).flat_map(|run| [(run % 3 + 1, "0"), (run % 3 + 1, "3000")]) {
        let disk = Some((disk.as_path(), ("slow", 0, slow)));
        let fault = format!("fdatasync:error=EIO:when={at}");
        gave_up += u64::from(run_so(Some(&fault), disk, &[(GIVES_UP, "1")]).said.contains("gave up"));
    }
    assert!(gave_up >= 4, "{gave_up}");
}

#[test]
fn nobody_waits_where_one_of_two_breaks_down() {
    let made = dir();
    let disk = disk(made.path());
    for at in [3, 4, 5, 6, 7, 8].repeat(3) {
        let slow = Some((disk.as_path(), ("slow", 0, "3000")));
        let run = run_so(None, slow, &[(BREAKS_AT, &at.to_string())]);
        assert!(run.said.contains("gave up"), "{at}: {}", run.said);
    }
}

#[test]
fn power_cuts_and_errors_where_two_commits_are_flushed_at_a_time() {
    let made = dir();
    let disk = disk(made.path());
    let (mut cuts, mut in_company) = (0, 0);
    for at in (2..120).step_by(2) {
        for fault in ["power", "mixed"] {
            let run = run(None, Some((&disk, (fault, at, "3000"))));
            cuts += u64::from(!run.said.contains("done"));
            in_company += run.in_company;
        }
    }
    for at in 1..=12 {
        for error in ["error=EIO", "error=ENOSPC", "signal=KILL"] {
            let slow = Some((disk.as_path(), ("slow", 0, "3000")));
            let Run { said, in_company: pairs } = run(Some(&format!("fdatasync:{error}:when={at}")), slow);
            let well = said.contains("open failed") || said.contains("done") && !said.contains("gave up");
            assert!(well || error.contains("KILL"), "fdatasync {at} {error}: {said}");
            in_company += pairs;
        }
    }
    // Failures that come in a row, and end all the same.
    for often in ["2+2", "3+2", "2+3", "4+1"] {
        run(Some(&format!("fdatasync:error=EIO:when={often}")), Some((&disk, ("slow", 0, "2000"))));
    }
    println!("{cuts} power cuts, {in_company} commits written beside another");
    assert!(cuts > 40, "{cuts} cuts");
    assert!(in_company > 20, "{in_company} commits in company");
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
        deaths += u64::from(!run(Some(&format!("fdatasync:signal=KILL:when={at}")), None).said.contains("done"));
        for error in ["EIO", "ENOSPC"] {
            let said = run(Some(&format!("fdatasync:error={error}:when={at}")), None).said;
            let well = said.contains("open failed") || said.contains("done") && !said.contains("gave up");
            assert!(well, "fdatasync {at} {error}: {said}");
        }
    }
    for at in (1..120).step_by(17) {
        for fault in ["error=EIO", "error=ENOSPC", "signal=KILL"] {
            run(Some(&format!("pwrite64:{fault}:when={at}")), None);
        }
    }
    // Six times six commits make at least as many flushes as each of them needs by itself.
    assert!(deaths > TURNS, "{deaths}");
}

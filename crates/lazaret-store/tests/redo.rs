//! What was acknowledged and not yet in the tables when the process ended: it is taken up, or its damage is seen.
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

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::*;
use lazaret_gate::Digest;
use lazaret_store::{Batch, Change, Reader, Store, StoreError};
use proptest::prelude::*;

const HEADER: usize = 96;
const MAGIC: &[u8] = b"LZRTLOG\x02";

/// Everything that a data root tells, as text.
fn contents(reader: &Reader) -> String {
    let mut all = format!("{:?}", reader.agents().unwrap());
    let visit = |seq: u64, bytes: &[u8]| {
        all += &format!("\n{seq} {}", Digest::of(bytes));
        ControlFlow::Continue(())
    };
    reader.entries(0..u64::MAX, visit).unwrap();
    all += &format!("\n{:?}\n{:?}", reader.head().unwrap(), reader.checkpoints().unwrap());
    for row in reader.agents().unwrap() {
        let keys = reader.storage_list(&row.agent, "", None, 10_000);
        for info in keys.iter().flatten() {
            all += &format!("\n{} {:?}", info.key, reader.storage_get(&row.agent, &info.key).unwrap());
        }
        all += &format!("\n{:?} {:?}", keys.is_ok(), reader.mailbox_next(&row.agent));
    }
    reader.verify_journal(|_| ()).unwrap();
    reader.verify_state().unwrap();
    all
}

/// A data root as a crash leaves it: with SQLite's log, or, after a power cut, without what was never flushed.
fn cut_off(root: &Path, power: bool) -> tempfile::TempDir {
    let copy = dir();
    for name in ["lazaret.redo", "lazaret.db", "lazaret.db-wal", "host.key"] {
        if !(power && name == "lazaret.db-wal") && root.join(name).exists() {
            fs::copy(root.join(name), copy.path().join(name)).unwrap();
            fs::set_permissions(copy.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
    copy
}

fn some(n: u64) -> Batch {
    let mut batch = turn("a", n, &format!("turn {n}"));
    batch.changes.push(set("a", &format!("key {}", n % 5), &[n as u8; 300], n));
    batch.changes.push(blob(&[n as u8; 5000]));
    batch.changes.push(Change::Enqueue { to: id("a"), message: message(&format!("waits {n}")) });
    batch
}

fn busy(root: &Path, turns: u64) -> Store {
    let store = open(root);
    store.commit(creation("a")).unwrap();
    (1..=turns).for_each(|n| drop(store.commit(some(n)).unwrap()));
    store
}

/// Where the log's frames begin, in the order of the file.
fn places(log: &[u8]) -> Vec<usize> {
    (0..log.len()).step_by(64).filter(|at| log[*at..].starts_with(MAGIC)).collect()
}

#[test]
fn what_the_tables_have_not_seen_is_taken_up() {
    let dir = dir();
    let store = busy(dir.path(), 20);
    let copies = [true, false].map(|power| cut_off(dir.path(), power));
    let expected = contents(&store);
    for copy in &copies {
        let again = open(copy.path());
        assert_eq!(contents(&again), expected);
        assert_eq!(again.commit(some(21)).unwrap()[0].seq, 22, "it goes on");
        again.close();
        assert_eq!(fs::metadata(copy.path().join("lazaret.redo")).unwrap().len(), 0, "a closed log is empty");
    }
}

#[test]
fn who_only_reads_takes_it_up_or_says_that_it_cannot() {
    let dir = dir();
    let store = busy(dir.path(), 20);
    let copies = [true, false].map(|power| cut_off(dir.path(), power));
    let expected = contents(&store);
    for copy in &copies {
        assert_eq!(contents(&Store::open_read_only(copy.path()).unwrap()), expected);
    }
    let copy = cut_off(dir.path(), true);
    // Only the host can tell whether these commits are its own.
    fs::rename(copy.path().join("host.key"), copy.path().join("aside")).unwrap();
    assert!(matches!(Store::open_read_only(copy.path()), Err(StoreError::KeyMissing { .. })));
    fs::rename(copy.path().join("aside"), copy.path().join("host.key")).unwrap();
    // A place where no lock can be had stands for one that can't be written.
    fs::remove_file(copy.path().join("lazaret.lock")).unwrap();
    fs::create_dir(copy.path().join("lazaret.lock")).unwrap();
    let refused = Store::open_read_only(copy.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Unapplied { .. }), "{refused}");
    assert!(refused.to_string().contains("lazaret.redo"), "{refused}");
}

#[test]
fn a_torn_tail_was_never_acknowledged() {
    let dir = dir();
    let store = busy(dir.path(), 8);
    let copy = cut_off(dir.path(), true);
    drop(store);
    let path = copy.path().join("lazaret.redo");
    let whole = fs::read(&path).unwrap();
    let last = *places(&whole).last().unwrap();
    let database = fs::read(copy.path().join("lazaret.db")).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for cut in (last..end).step_by(97) {
        let again = dir_with(&copy, &database, &whole[..cut]);
        assert_eq!(open(again.path()).agent(&id("a")).unwrap().unwrap().turn, 7, "cut at {cut} of {last}..{end}");
        let mut zeros = whole.clone();
        zeros[cut..].fill(0);
        let again = dir_with(&copy, &database, &zeros);
        assert_eq!(open(again.path()).agent(&id("a")).unwrap().unwrap().turn, 7, "zeros at {cut}");
    }
    let again = dir_with(&copy, &database, &whole);
    assert_eq!(open(again.path()).agent(&id("a")).unwrap().unwrap().turn, 8);
}

fn dir_with(like: &tempfile::TempDir, database: &[u8], log: &[u8]) -> tempfile::TempDir {
    let made = dir();
    for (name, bytes) in [
        ("lazaret.db", database.to_vec()),
        ("lazaret.redo", log.to_vec()),
        ("host.key", fs::read(like.path().join("host.key")).unwrap()),
    ] {
        fs::write(made.path().join(name), bytes).unwrap();
        fs::set_permissions(made.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    made
}

#[test]
fn a_bad_frame_before_a_good_one_is_damage() {
    let dir = dir();
    let store = busy(dir.path(), 6);
    let copy = cut_off(dir.path(), true);
    drop(store);
    let whole = fs::read(copy.path().join("lazaret.redo")).unwrap();
    let database = fs::read(copy.path().join("lazaret.db")).unwrap();
    let places = places(&whole);
    let (first, last) = (places[0], places[places.len() - 1]);
    assert_eq!(places.len(), 8, "the journal's beginning, the agent and its turns");
    let length = |at: usize| u64::from_le_bytes(whole[at + 16..at + 24].try_into().unwrap()) as usize;
    for (number, at) in (first..last).step_by(331).enumerate() {
        let inside = places.iter().rev().find(|place| **place <= at).unwrap();
        if at >= inside + HEADER + length(*inside) {
            continue;
        }
        let mut damaged = whole.clone();
        damaged[at] ^= 0x20;
        let again = dir_with(&copy, &database, &damaged);
        let found = match number % 2 {
            0 => Store::open(again.path(), now).map(drop),
            _ => Store::open_read_only(again.path()).map(drop),
        };
        assert!(matches!(found, Err(StoreError::Damaged { .. })), "byte {at}: {found:?}");
        assert_eq!(fs::read(again.path().join("lazaret.redo")).unwrap(), damaged, "and nothing is thrown away");
    }
    // Frames in another order, or one twice, are nothing that this host has written.
    let mut swapped = whole.clone();
    swapped.copy_within(places[3]..places[4], places[2]);
    let again = dir_with(&copy, &database, &swapped);
    assert!(matches!(Store::open(again.path(), now), Err(StoreError::Damaged { .. })));
}

/// The log is used again from its beginning. What is left there of earlier rounds is not taken for new.
#[test]
fn old_frames_are_not_taken_for_new_ones() {
    let dir = dir();
    let store = busy(dir.path(), 3);
    let early = cut_off(dir.path(), true);
    let large = |n: u64| {
        let mut batch = some(n);
        batch.changes.push(set("a", "large", &Digest::of(&n.to_le_bytes()).0.repeat(10_000), n));
        batch
    };
    // 64 MiB are one round at most.
    (4..=320).for_each(|n| drop(store.commit(large(n)).unwrap()));
    let late = cut_off(dir.path(), false);
    let expected = contents(&store);
    drop(store);
    assert!(fs::metadata(late.path().join("lazaret.redo")).unwrap().len() < 66 << 20, "it doesn't grow for ever");
    assert_eq!(contents(&Store::open_read_only(late.path()).unwrap()), expected);

    let database = fs::read(dir.path().join("lazaret.db")).unwrap();
    let old_log = fs::read(early.path().join("lazaret.redo")).unwrap();
    let again = dir_with(&early, &database, &old_log);
    assert_eq!(contents(&open(again.path())), expected, "a log that is older than the database changes nothing");

    // The log was emptied when the store was closed, so now it begins with a late commit.
    let store = open(dir.path());
    (321..=323).for_each(|n| drop(store.commit(some(n)).unwrap()));
    let log = fs::read(dir.path().join("lazaret.redo")).unwrap();
    let database = fs::read(early.path().join("lazaret.db")).unwrap();
    let again = dir_with(&early, &database, &log);
    let found = Store::open(again.path(), now).map(drop);
    assert!(matches!(found, Err(StoreError::Damaged { .. })), "a database that is older than the log: {found:?}");
}

#[test]
fn whoever_reads_here_sees_what_was_acknowledged() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    assert_eq!(store.agent(&id("a")).unwrap().unwrap().turn, 0);
    assert_eq!(store.storage_get(&id("a"), "never"), Ok(None));
    for n in 1..=100 {
        let placed = store.commit(some(n)).unwrap()[0];
        match n % 9 {
            0 => assert_eq!(store.agent(&id("a")).unwrap().unwrap().turn, n),
            1 => assert_eq!(store.storage_get(&id("a"), &format!("key {}", n % 5)), Ok(Some((vec![n as u8; 300], n)))),
            2 => assert_eq!(store.mailbox_len(&id("a")), Ok(n)),
            3 => assert_eq!(store.journal_len(), Ok(n + 2)),
            4 => assert_eq!(store.blob(&Digest::of(&[n as u8; 5000])).unwrap(), [n as u8; 5000]),
            5 => assert_eq!(store.turn_entry(&id("a"), n), Ok(Some(placed.seq))),
            6 => assert_eq!(Digest::of(&store.entry_bytes(placed.seq).unwrap()), placed.hash),
            7 => assert_eq!(store.head().unwrap().0.size, n + 2),
            _ => assert_eq!(store.agents().unwrap()[0].last_entry, placed.hash),
        }
    }
    let delete = Change::StorageDelete { agent: id("a"), key: "key 1".into() };
    store.commit(changes(vec![delete])).unwrap();
    assert_eq!(store.storage_get(&id("a"), "key 1"), Ok(None));
    store.commit(removal("a")).unwrap();
    let gone = StoreError::NoSuchAgent { agent: id("a") };
    assert_eq!(store.storage_get(&id("a"), "key 2"), Err(gone.clone()));
    assert_eq!((store.mailbox_len(&id("a")), store.mailbox_next(&id("a"))), (Err(gone.clone()), Err(gone)));
}

#[test]
fn damage_in_the_tables_stops_commits_and_loses_nothing() {
    let dir = dir();
    drop(busy(dir.path(), 5));
    let database = dir.path().join("lazaret.db");
    let good = fs::read(&database).unwrap();
    let harm = "UPDATE storage SET version = 77 WHERE key = CAST(x'01' || 'key 1' AS BLOB)";
    assert_eq!(rusqlite::Connection::open(&database).unwrap().execute(harm, []), Ok(1));
    let store = open(dir.path());
    store.commit(some(6)).unwrap();
    let stopped = store.journal_len().unwrap_err();
    assert!(matches!(stopped, StoreError::Damaged { .. }), "{stopped:?}");
    assert_eq!(store.commit(some(7)), Err(stopped.clone()));
    assert_eq!(store.agent(&id("a")).unwrap().unwrap().turn, 6, "it was acknowledged");
    drop(store);
    assert_eq!(Store::open(dir.path(), now).map(drop), Err(stopped));
    for name in ["lazaret.db-wal", "lazaret.db-shm"] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    fs::write(&database, good).unwrap();
    let store = open(dir.path());
    assert_eq!(store.agent(&id("a")).unwrap().unwrap().turn, 6, "the backup and the log have it");
    store.commit(some(7)).unwrap();
    store.verify_journal(|_| ()).unwrap();
    store.verify_state().unwrap();
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Turn(u8),
    Remove(u8),
    Set(u8, u8, u16),
    Delete(u8, u8),
    Send(u8),
    Answer(u8),
    Checkpoint,
    CutOff(bool),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u8..4).prop_map(Step::Create),
        6 => (0u8..4).prop_map(Step::Turn),
        1 => (0u8..4).prop_map(Step::Remove),
        6 => (0u8..4, 0u8..6, 0u16..2000).prop_map(|(agent, key, len)| Step::Set(agent, key, len)),
        2 => (0u8..4, 0u8..6).prop_map(|(agent, key)| Step::Delete(agent, key)),
        4 => (0u8..4).prop_map(Step::Send),
        3 => (0u8..4).prop_map(Step::Answer),
        1 => Just(Step::Checkpoint),
        2 => any::<bool>().prop_map(Step::CutOff),
        1 => Just(Step::Close),
    ]
}

fn batch(store: &Store, step: &Step, n: u64) -> Batch {
    let name = |agent: &u8| format!("agent-{agent}");
    match step {
        Step::Create(agent) => creation(&name(agent)),
        Step::Turn(agent) => {
            let taken = store.agent(&id(&name(agent))).unwrap().map_or(0, |row| row.turn);
            let mut batch = turn(&name(agent), taken + 1, &format!("step {n}"));
            batch.changes.push(blob(&n.to_le_bytes().repeat(300)));
            batch
        }
        Step::Remove(agent) => removal(&name(agent)),
        Step::Set(agent, key, len) => {
            changes(vec![set(&name(agent), &format!("k{key}"), &vec![n as u8; (*len).into()], n)])
        }
        Step::Delete(agent, key) => {
            changes(vec![Change::StorageDelete { agent: id(&name(agent)), key: format!("k{key}") }])
        }
        Step::Send(agent) => {
            changes(vec![Change::Enqueue { to: id(&name(agent)), message: message(&format!("step {n}")) }])
        }
        Step::Answer(agent) => {
            let first = store.agent(&id(&name(agent))).unwrap().and_then(|row| row.queued.first().copied());
            changes(vec![Change::Dequeue { agent: id(&name(agent)), message: first.unwrap_or(77) }])
        }
        Step::Checkpoint | Step::CutOff(_) | Step::Close => changes(vec![Change::Checkpoint]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// One store is cut off again and again, and goes on from what the log holds. The other has the same key and the same
    /// commits, and waits for its tables after each. In the end nobody can tell which is which.
    #[test]
    fn a_store_that_was_cut_off_is_like_one_that_never_was(steps in proptest::collection::vec(step(), 1..50)) {
        let (calm, mut troubled) = (dir(), dir());
        drop(open(calm.path()));
        for name in ["lazaret.db", "host.key"] {
            fs::copy(calm.path().join(name), troubled.path().join(name)).unwrap();
        }
        let one = open(calm.path());
        let mut other = Some(open(troubled.path()));
        for (n, step) in (1..).zip(&steps) {
            if let Step::CutOff(power) = step {
                let copy = cut_off(troubled.path(), *power);
                other.take();
                other = Some(open(copy.path()));
                troubled = copy;
            }
            if let Step::Close = step {
                other.take();
                other = Some(open(troubled.path()));
            }
            let other = other.as_ref().unwrap();
            let answer = one.commit(batch(&one, step, n));
            one.journal_len().unwrap();
            prop_assert_eq!(answer, other.commit(batch(other, step, n)), "{:?}", step);
        }
        let expected = contents(&one);
        let copy = cut_off(troubled.path(), true);
        prop_assert_eq!(&contents(other.as_ref().unwrap()), &expected);
        prop_assert_eq!(&contents(&Store::open_read_only(copy.path()).unwrap()), &expected);
    }
}

#[test]
fn what_cannot_be_a_log_is_refused_unread() {
    let dir = dir();
    busy(dir.path(), 2).close();
    let log = dir.path().join("lazaret.redo");
    let refused = |why: &str| {
        for said in [Store::open(dir.path(), now).map(drop), Store::open_read_only(dir.path()).map(drop)] {
            let said = said.unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    };
    // Sparse: reading it would take all memory, and it takes no room.
    fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(1 << 40).unwrap();
    refused("more than any log");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    refused("not a file");
    fs::remove_dir(&log).unwrap();
    std::os::unix::fs::symlink(dir.path().join("host.key"), &log).unwrap();
    refused("not a file");
    fs::remove_file(&log).unwrap();
    assert_eq!(open(dir.path()).journal_len().unwrap(), 4, "nothing was lost by it");
}

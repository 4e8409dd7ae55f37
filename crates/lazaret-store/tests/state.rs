//! Agents, mailbox, blobs and storage.
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

use std::collections::BTreeMap;
use std::path::Path;

use common::*;
use lazaret_gate::Digest;
use lazaret_store::limits::MAX_MAILBOX;
use lazaret_store::{AgentState, Batch, Change, Store, StoreError};
use proptest::prelude::*;

fn keys(store: &Store, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    store.storage_list(&id("a"), prefix, after, limit).unwrap().into_iter().map(|info| info.key).collect()
}

fn sql(root: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(root.join("lazaret.db")).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    assert!(conn.execute(sql, []).unwrap() > 0, "{sql}");
}

#[test]
fn a_name_is_never_used_twice() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    store.commit(changes(vec![set("a", "k", b"v", 1)])).unwrap();
    store.commit(changes(vec![Change::Enqueue { to: id("a"), message: message("x") }])).unwrap();
    assert_eq!(store.commit(creation("a")), Err(StoreError::NameTaken { agent: id("a") }));
    store.commit(removal("a")).unwrap();
    assert_eq!(store.commit(creation("a")), Err(StoreError::NameTaken { agent: id("a") }));
    let gone = StoreError::NoSuchAgent { agent: id("a") };
    let row = store.agent(&id("a")).unwrap().unwrap();
    assert_eq!((row.state, row.queued.clone()), (AgentState::Removed, vec![]));
    assert_eq!(store.storage_get(&id("a"), "k"), Err(gone.clone()));
    assert_eq!(store.storage_list(&id("a"), "", None, 9), Err(gone.clone()));
    assert_eq!(store.mailbox_next(&id("a")), Err(gone.clone()));
    for change in [
        set("a", "k", b"v", 1),
        Change::StorageDelete { agent: id("a"), key: "k".into() },
        Change::Enqueue { to: id("a"), message: message("x") },
        Change::Dequeue { agent: id("a"), message: 1 },
        Change::RemoveAgent { agent: id("a") },
        Change::SetState { agent: id("a"), state: AgentState::Asleep },
        Change::Unfinished { agent: id("a"), turn: None },
    ] {
        assert_eq!(store.commit(changes(vec![change])), Err(gone.clone()));
    }
    assert_eq!(store.commit(turn("a", 1, "x")), Err(gone));
    assert_eq!(store.agent(&id("b")), Ok(None));
    let twice =
        Batch { entries: creation("b").entries, changes: [creation("b").changes, creation("b").changes].concat() };
    assert_eq!(store.commit(twice), Err(StoreError::NameTaken { agent: id("b") }));
    store.commit(creation("b")).unwrap();
    let set_removed = Change::SetState { agent: id("b"), state: AgentState::Removed };
    store.commit(changes(vec![set_removed])).unwrap();
    assert_eq!(store.storage_get(&id("b"), "k"), Err(StoreError::NoSuchAgent { agent: id("b") }));
    assert_eq!(store.agents().unwrap().len(), 2);
    store.verify_state().unwrap();
}

#[test]
fn messages_come_out_in_order_and_once() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    store.commit(creation("b")).unwrap();
    assert_eq!(store.mailbox_next(&id("a")), Ok(None));
    let send = |to: &str, text: &str| Change::Enqueue { to: id(to), message: message(text) };
    store.commit(changes(vec![send("a", "one"), send("b", "other"), send("a", "two")])).unwrap();
    assert_eq!(store.mailbox_len(&id("a")), Ok(2));
    let (first, text) = store.mailbox_next(&id("a")).unwrap().unwrap();
    assert_eq!(text, message("one"));
    let take = |message| Change::Dequeue { agent: id("a"), message };
    store.commit(changes(vec![take(first)])).unwrap();
    assert_eq!(
        store.commit(changes(vec![take(first)])),
        Err(StoreError::NoSuchMessage { agent: id("a"), message: first })
    );
    let of_b = store.mailbox_next(&id("b")).unwrap().unwrap().0;
    assert!(store.commit(changes(vec![take(of_b)])).is_err(), "another agent's message");
    drop(store);
    let store = open(dir.path());
    let (second, text) = store.mailbox_next(&id("a")).unwrap().unwrap();
    assert_eq!(text, message("two"));
    store.commit(changes(vec![take(second)])).unwrap();
    store.commit(changes(vec![send("a", "three")])).unwrap();
    assert!(store.mailbox_next(&id("a")).unwrap().unwrap().0 > second, "a number is never used twice");
}

#[test]
fn a_mailbox_has_an_end() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let send = || Change::Enqueue { to: id("a"), message: message("x") };
    store.commit(changes((0..MAX_MAILBOX).map(|_| send()).collect())).unwrap();
    let full = StoreError::MailboxFull { agent: id("a"), limit: MAX_MAILBOX };
    assert_eq!(store.commit(changes(vec![send()])), Err(full.clone()));
    let (first, _) = store.mailbox_next(&id("a")).unwrap().unwrap();
    let room = changes(vec![Change::Dequeue { agent: id("a"), message: first }, send()]);
    store.commit(room).unwrap();
    assert_eq!(store.commit(changes(vec![send()])), Err(full));
    assert_eq!(store.mailbox_len(&id("a")), Ok(MAX_MAILBOX));
}

#[test]
fn blobs_are_what_their_name_says() {
    let dir = dir();
    let store = open(dir.path());
    let noise: Vec<u8> = (0..9000u32).map(|n| Digest::of(&n.to_le_bytes()).0[0]).collect();
    let all = [vec![], vec![7], vec![0; 4096], vec![1; 3 << 20], noise, b"abc".repeat(30)];
    store.commit(changes(all.iter().map(|bytes| blob(bytes)).collect())).unwrap();
    store.commit(changes(all.iter().map(|bytes| blob(bytes)).collect())).unwrap();
    drop(store);
    let size = std::fs::metadata(dir.path().join("lazaret.db")).unwrap().len();
    assert!(size < 300_000, "three megabytes of ones take {size} bytes");
    let store = open(dir.path());
    let names: Vec<_> = all.iter().map(|bytes| Digest::of(bytes)).collect();
    for (name, bytes) in names.iter().zip(&all) {
        assert_eq!((store.has_blob(name), &store.blob(name).unwrap()), (Ok(true), bytes));
    }
    assert_eq!(store.blobs(&names).unwrap(), all);
    let missing = Digest::of(b"missing");
    assert_eq!(
        (store.has_blob(&missing), store.blob(&missing)),
        (Ok(false), Err(StoreError::NoSuchBlob { digest: missing }))
    );
}

/// A row that was changed, exchanged or lost is never an answer.
#[test]
fn rows_that_were_not_written_here_are_damage() {
    type Ask = fn(&lazaret_store::Reader) -> Result<(), StoreError>;
    let get: Ask = |store| store.storage_get(&id("a"), "k2").map(drop);
    let miss: Ask = |store| store.storage_get(&id("a"), "k22").map(drop);
    let list: Ask = |store| store.storage_list(&id("a"), "", None, 99).map(drop);
    let mail: Ask = |store| store.mailbox_next(&id("a")).map(drop);
    let agent: Ask = |store| store.agent(&id("a")).map(drop);
    let bytes: Ask = |store| store.blob(&Digest::of(&[9; 5000])).map(drop);
    let trail: Ask = |store| store.agent_entries(&id("a"), Some("turn"), None).map(drop);
    let cases: &[(&str, Ask)] = &[
        ("UPDATE storage SET value = x'00' WHERE key = CAST(x'01' || 'k2' AS BLOB)", get),
        ("UPDATE storage SET value = CAST('valuf' AS BLOB) WHERE key = CAST(x'01' || 'k2' AS BLOB)", get),
        ("UPDATE storage SET version = 7 WHERE key = CAST(x'01' || 'k2' AS BLOB)", get),
        ("UPDATE storage SET version = 7 WHERE key = CAST(x'01' || 'k2' AS BLOB)", list),
        ("UPDATE storage SET size = 7 WHERE key = CAST(x'01' || 'k2' AS BLOB)", list),
        ("DELETE FROM storage WHERE key = CAST(x'01' || 'k2' AS BLOB)", get),
        ("DELETE FROM storage WHERE key = CAST(x'01' || 'k2' AS BLOB)", miss),
        ("DELETE FROM storage WHERE key = CAST(x'01' || 'k2' AS BLOB)", list),
        ("DELETE FROM storage WHERE key = CAST(x'01' || 'k5' AS BLOB)", list),
        ("DELETE FROM storage WHERE agent = 'a'", get),
        ("UPDATE storage SET key = CAST(x'01' || 'k22' AS BLOB) WHERE key = CAST(x'01' || 'k2' AS BLOB)", get),
        ("UPDATE storage SET key = CAST(x'01' || 'k22' AS BLOB) WHERE key = CAST(x'01' || 'k2' AS BLOB)", miss),
        ("UPDATE storage SET agent = 'b' WHERE key = CAST(x'01' || 'k2' AS BLOB)", get),
        ("UPDATE mailbox SET message = CAST(replace(message, 'text', 'test') AS BLOB)", mail),
        ("DELETE FROM mailbox WHERE id = 1", mail),
        ("DELETE FROM mailbox", mail),
        ("UPDATE mailbox SET id = 9 WHERE id = 1", mail),
        ("UPDATE agents SET row = CAST(replace(row, 'asleep', 'in-doubt') AS BLOB)", agent),
        ("DELETE FROM agents WHERE agent = 'a'", agent),
        ("UPDATE agents SET row = (SELECT row FROM agents WHERE agent = 'b')", agent),
        ("UPDATE blobs SET bytes = zeroblob(20)", bytes),
        ("UPDATE blobs SET size = 268435456", bytes),
        ("UPDATE blobs SET size = -1", bytes),
        ("UPDATE blobs SET packed = 0", bytes),
        ("UPDATE blobs SET packed = 2", bytes),
        ("UPDATE blobs SET packed = 0, bytes = zeroblob(5000)", bytes),
        ("UPDATE agents SET row = x'7b', digest = zeroblob(32)", trail),
    ];
    for (change, ask) in cases {
        let dir = dir();
        let store = open(dir.path());
        store.commit(creation("a")).unwrap();
        store.commit(creation("b")).unwrap();
        store.commit(turn("a", 1, "x")).unwrap();
        let mut all: Vec<_> = (1..=5).map(|n| set("a", &format!("k{n}"), b"value", 1)).collect();
        all.extend((0..2).map(|_| Change::Enqueue { to: id("a"), message: message("x") }));
        all.push(blob(&[9; 5000]));
        store.commit(changes(all)).unwrap();
        ask(&store).unwrap();
        drop(store);
        sql(dir.path(), change);
        let reader = Store::open_read_only(dir.path()).unwrap();
        let found = ask(&reader).expect_err(change);
        assert!(matches!(found, StoreError::Damaged { .. }), "{change}: {found:?}");
        assert!(reader.verify_state().is_err(), "{change}");
    }
}

#[test]
fn hostile_keys_are_only_keys() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    store.commit(creation("aa")).unwrap();
    let long = "k".repeat(1024);
    let hostile = [
        "",
        "\0",
        "\0\0",
        "\u{1}",
        "%",
        "_",
        "%_",
        "a",
        "a%",
        "a_b",
        "ab",
        "a\0b",
        "'; DROP TABLE storage; --",
        "\"",
        "\\",
        "é",
        "e\u{301}",
        "🦀",
        "🦀🦀",
        "\u{10FFFF}",
        "\u{10FFFF}\u{10FFFF}",
        "\u{7f}",
        "\u{ff}",
        "a\u{10FFFF}",
        "b",
        &long,
        "\u{202e}rtl",
        "../..",
        "K",
    ];
    for (n, key) in hostile.iter().enumerate() {
        store.commit(changes(vec![set("a", key, key.as_bytes(), n as u64 + 1)])).unwrap();
    }
    let mut sorted = hostile.to_vec();
    sorted.sort_unstable();
    assert_eq!(keys(&store, "", None, 1000), sorted);
    for (n, key) in hostile.iter().enumerate() {
        assert_eq!(store.storage_get(&id("a"), key).unwrap(), Some((key.as_bytes().to_vec(), n as u64 + 1)), "{key:?}");
        let with: Vec<_> = sorted.iter().filter(|other| other.starts_with(key)).copied().collect();
        assert_eq!(keys(&store, key, None, 1000), with, "prefix {key:?}");
        let after: Vec<_> = sorted.iter().filter(|other| *other > key).copied().collect();
        assert_eq!(keys(&store, "", Some(key), 1000), after, "after {key:?}");
        assert_eq!(keys(&store, key, Some(key), 1000), with[1..], "prefix and after {key:?}");
    }
    assert_eq!(keys(&store, "a", Some(""), 1), ["a"], "after something before the prefix");
    assert_eq!(keys(&store, "a", Some("b"), 9), [] as [&str; 0], "after something past the prefix");
    assert_eq!(keys(&store, "", None, 0), [] as [&str; 0]);
    for missing in ["x", "kk", "\0\0\0", "\u{10FFFE}", "🦀 "] {
        assert_eq!(store.storage_get(&id("a"), missing).unwrap(), None);
    }
    assert_eq!(store.storage_list(&id("aa"), "", None, 9).unwrap(), [], "another agent's");
    let delete = |key: &str| Change::StorageDelete { agent: id("a"), key: key.into() };
    store.commit(changes(hostile.iter().map(|key| delete(key)).collect())).unwrap();
    store.commit(changes(vec![delete("never there")])).unwrap();
    assert_eq!(keys(&store, "", None, 9), [] as [&str; 0]);
    store.verify_state().unwrap();
    let nobody = StoreError::NoSuchAgent { agent: id("nobody") };
    assert_eq!(store.storage_get(&id("nobody"), "k"), Err(nobody));
}

#[derive(Clone, Debug)]
enum Op {
    Set(String, Vec<u8>),
    Delete(String),
    List(String, Option<String>, usize),
    Get(String),
    Reopen,
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab%_]{0,3}",
        1 => proptest::collection::vec(prop_oneof![Just('\0'), Just('\u{10FFFF}'), Just('\u{ff}'), any::<char>()], 0..3)
            .prop_map(|chars| chars.into_iter().collect::<String>()),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (key(), proptest::collection::vec(any::<u8>(), 0..40)).prop_map(|(key, value)| Op::Set(key, value)),
        3 => key().prop_map(Op::Delete),
        3 => (key(), proptest::option::of(key()), 0usize..6).prop_map(|(prefix, after, limit)| Op::List(prefix, after, limit)),
        3 => key().prop_map(Op::Get),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn storage_is_a_sorted_map(ops in proptest::collection::vec(op(), 1..60)) {
        let dir = dir();
        let mut store = open(dir.path());
        store.commit(creation("a")).unwrap();
        let mut model: BTreeMap<String, (Vec<u8>, u64)> = BTreeMap::new();
        for (version, op) in (1..).zip(ops) {
            match op {
                Op::Set(key, value) => {
                    store.commit(changes(vec![set("a", &key, &value, version)])).unwrap();
                    model.insert(key, (value, version));
                }
                Op::Delete(key) => {
                    store.commit(changes(vec![Change::StorageDelete { agent: id("a"), key: key.clone() }])).unwrap();
                    model.remove(&key);
                }
                Op::List(prefix, after, limit) => {
                    let found = store.storage_list(&id("a"), &prefix, after.as_deref(), limit).unwrap();
                    let found: Vec<_> = found.into_iter().map(|info| (info.key, info.version, info.size)).collect();
                    let expected: Vec<_> = model
                        .iter()
                        .filter(|(key, _)| key.starts_with(&prefix) && after.as_ref().is_none_or(|after| *key > after))
                        .take(limit)
                        .map(|(key, (value, version))| (key.clone(), *version, value.len() as u64))
                        .collect();
                    prop_assert_eq!(found, expected);
                }
                Op::Get(key) => prop_assert_eq!(store.storage_get(&id("a"), &key).unwrap(), model.get(&key).cloned()),
                Op::Reopen => {
                    drop(store);
                    store = open(dir.path());
                }
            }
        }
        store.verify_state().unwrap();
    }
}

//! The journal: group commit, all or nothing, append-only, verified.
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

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use common::*;
use lazaret_gate::entry::{Chain, Entry};
use lazaret_gate::merkle::{leaf, verify_consistency, verify_inclusion};
use lazaret_gate::record::{ComponentAdmitted, World};
use lazaret_gate::{Body, Digest};
use lazaret_store::{AgentState, Batch, Change, Reader, Store, StoreError};

#[test]
fn a_new_journal_begins_with_its_key_and_a_checkpoint() {
    let dir = dir();
    let store = open(dir.path());
    assert_eq!(store.journal_len().unwrap(), 1);
    let Body::Genesis(genesis) = store.entry(0).unwrap().body else { panic!("not a genesis") };
    assert_eq!(genesis.format, "lazaret-journal/1");
    assert_eq!(genesis.key, store.verifier().to_text());
    let (head, note) = store.head().unwrap();
    assert_eq!((head.size, head.root), (1, leaf(&store.entry_bytes(0).unwrap())));
    assert_eq!(store.checkpoints().unwrap(), [(head, note)]);
    assert_eq!(store.entry_bytes(1).unwrap_err(), StoreError::NoSuchEntry { seq: 1, len: 1 });
}

#[test]
fn a_store_goes_between_threads() {
    fn both<T: Send + Sync>() {}
    both::<Store>();
    both::<Reader>();
    both::<StoreError>();
}

#[test]
fn eight_threads_share_groups_and_nothing_is_lost() {
    let dir = dir();
    let store = open(dir.path());
    for thread in 0..8 {
        store.commit(creation(&format!("t{thread}"))).unwrap();
    }
    let placed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let commit = |n| store.commit(turn(&format!("t{thread}"), n, &format!("{thread}/{n}"))).unwrap();
                    (1..=40).flat_map(commit).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(placed.len(), 320);
    assert_eq!(placed.iter().map(|placed| placed.seq).collect::<BTreeSet<_>>(), (9..329).collect());
    for placed in &placed {
        assert_eq!(Digest::of(&store.entry_bytes(placed.seq).unwrap()), placed.hash);
    }
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.verify_journal(|_| ()).unwrap().entries, 329);
    store.verify_state().unwrap();
    for thread in 0..8 {
        let name = id(&format!("t{thread}"));
        assert_eq!(store.agent(&name).unwrap().unwrap().turn, 40);
        for n in 1..=40 {
            let seq = store.turn_entry(&name, n).unwrap().unwrap();
            let Body::Turn(record) = store.entry(seq).unwrap().body else { panic!("not a turn") };
            assert_eq!(record.input, message(&format!("{thread}/{n}")));
        }
        assert_eq!(store.turn_entry(&name, 41).unwrap(), None);
        assert_eq!(store.agent_entries(&name, None, None).unwrap().len(), 41);
        assert_eq!(store.agent_entries(&name, Some("turn"), None).unwrap().len(), 40);
    }
}

#[test]
fn tickets_of_one_thread_make_one_group() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let tickets: Vec<_> = (1..=600).map(|n| store.commit_async(turn("a", n, "x")).unwrap()).collect();
    for (n, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.wait().unwrap()[0].seq, n as u64 + 2);
    }
    let left = store.commit_async(turn("a", 601, "in line at the end")).unwrap();
    drop(store);
    assert_eq!(left.wait().unwrap()[0].seq, 602, "closing writes what is in line");
    assert_eq!(open(dir.path()).verify_journal(|_| ()).unwrap().entries, 603);
}

#[test]
fn one_bad_batch_in_a_group_harms_no_other() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let mut half = turn("a", 2, "bad half way");
    half.changes.push(Change::Enqueue { to: id("nobody"), message: message("x") });
    half.changes.push(blob(b"never kept"));
    let mut checkpoint = turn("a", 9, "out of turn");
    checkpoint.changes.push(Change::Checkpoint);
    let tickets: Vec<_> = [turn("a", 1, "one"), half, creation("a"), checkpoint, turn("a", 2, "two")]
        .into_iter()
        .map(|batch| store.commit_async(batch).unwrap())
        .collect();
    let answers: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait()).collect();
    assert_eq!(answers[0].as_ref().unwrap()[0].seq, 2);
    assert_eq!(answers[1], Err(StoreError::NoSuchAgent { agent: id("nobody") }));
    assert_eq!(answers[2], Err(StoreError::NameTaken { agent: id("a") }));
    assert_eq!(answers[3], Err(StoreError::OutOfTurn { agent: id("a"), taken: 2 - 1, turn: 9 }));
    assert_eq!(answers[4].as_ref().unwrap()[0].seq, 3, "the failed ones left no gap");
    assert!(!store.has_blob(&Digest::of(b"never kept")).unwrap());
    assert_eq!(store.checkpoints().unwrap().len(), 1, "a failed batch keeps no checkpoint");
    assert_eq!(store.commit(half_alone()).unwrap_err(), StoreError::NoSuchAgent { agent: id("nobody") });
    assert_eq!(store.verify_journal(|_| ()).unwrap().entries, 4);
    assert_eq!(store.agent(&id("a")).unwrap().unwrap().turn, 2);
    store.verify_state().unwrap();
    drop(store);
    open(dir.path()).verify_state().unwrap();
}

fn half_alone() -> Batch {
    let mut batch = turn("a", 3, "alone");
    batch.changes.push(Change::Enqueue { to: id("nobody"), message: message("x") });
    batch
}

#[test]
fn a_batch_that_makes_no_sense_is_refused() {
    let dir = dir();
    let store = open(dir.path());
    let mut nowhere = creation("a");
    nowhere.entries.clear();
    assert!(matches!(store.commit(nowhere), Err(StoreError::BadBatch { .. })));
    let stranger = Batch { entries: vec![turn_body("stranger", 1, "x")], changes: Vec::new() };
    assert_eq!(store.commit(stranger), Err(StoreError::NoSuchAgent { agent: id("stranger") }));
    assert_eq!(store.commit(Batch::default()), Ok(Vec::new()));
    assert_eq!(store.journal_len().unwrap(), 1);
}

#[test]
fn the_journal_is_append_only_by_trigger_too() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    store.commit(turn("a", 1, "x")).unwrap();
    drop(store);
    let conn = rusqlite::Connection::open(dir.path().join("lazaret.db")).unwrap();
    let columns = "kind, agent, turn, hash, leaf, bytes";
    for (sql, word) in [
        ("UPDATE journal SET bytes = x'00' WHERE seq = 1".to_owned(), "append-only"),
        ("UPDATE journal SET kind = kind".to_owned(), "append-only"),
        ("DELETE FROM journal WHERE seq = 2".to_owned(), "append-only"),
        (format!("INSERT INTO journal SELECT 9, {columns} FROM journal WHERE seq = 1"), "no gaps"),
        (format!("INSERT INTO journal SELECT -1, {columns} FROM journal WHERE seq = 1"), "no gaps"),
        (format!("INSERT OR REPLACE INTO journal SELECT 1, {columns} FROM journal WHERE seq = 2"), "no gaps"),
        (format!("REPLACE INTO journal SELECT 2, {columns} FROM journal WHERE seq = 1"), "no gaps"),
        ("UPDATE checkpoints SET note = ''".to_owned(), "append-only"),
        ("DELETE FROM checkpoints".to_owned(), "append-only"),
        ("INSERT OR REPLACE INTO checkpoints VALUES (1, '')".to_owned(), "append-only"),
    ] {
        let why = conn.execute(&sql, []).expect_err(&sql).to_string();
        assert!(why.contains(word), "{sql}: {why}");
    }
}

#[test]
fn each_kind_of_entry_is_found_by_its_columns() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let admitted =
        ComponentAdmitted { component: Digest::of(b"c"), size: 1, world: World::Stateless, engine: Digest::of(b"e") };
    let unfinished = |turn| Change::Unfinished { agent: id("a"), turn };
    let in_doubt_now = Change::SetState { agent: id("a"), state: AgentState::InDoubt };
    store.commit(Batch { entries: vec![Body::ComponentAdmitted(admitted)], changes: vec![] }).unwrap();
    store.commit(Batch { entries: vec![opened("a", 1, 0)], changes: vec![unfinished(Some(1))] }).unwrap();
    let close = Body::EffectClosed(Box::new(closed("a", 1, 0)));
    store.commit(Batch { entries: vec![close, opened("a", 1, 1)], changes: vec![] }).unwrap();
    store.commit(Batch { entries: vec![in_doubt("a", 1, 1)], changes: vec![in_doubt_now] }).unwrap();
    let row = store.agent(&id("a")).unwrap().unwrap();
    assert_eq!((row.state, row.unfinished, row.turn), (AgentState::InDoubt, Some(1), 0));
    store.commit(Batch { entries: vec![Body::Settled(Box::new(closed("a", 1, 1)))], changes: vec![] }).unwrap();
    let kinds = |entries: Vec<Entry>| entries.iter().map(|entry| entry.body.kind()).collect::<Vec<_>>();
    assert_eq!(
        kinds(store.unfinished_entries(&id("a"), 1).unwrap()),
        ["effect-opened", "effect-closed", "effect-opened", "in-doubt", "settled"]
    );
    let placed = store.commit(turn("a", 1, "},\"turn\":5}}")).unwrap();
    let row = store.agent(&id("a")).unwrap().unwrap();
    assert_eq!((row.unfinished, row.turn, row.last_entry), (None, 1, placed[0].hash));
    store.commit(removal("a")).unwrap();
    assert_eq!(store.agent_entries(&id("a"), None, None).unwrap(), [1, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(store.agent_entries(&id("a"), Some("settled"), Some(1)).unwrap(), [7]);
    assert_eq!(store.agent_entries(&id("a"), None, Some(2)).unwrap(), [] as [u64; 0]);
    // Verification compares every row's columns with its bytes.
    assert_eq!(store.verify_journal(|_| ()).unwrap().entries, 10);
    store.verify_state().unwrap();
}

#[test]
fn a_turn_that_kept_nothing_leaves_the_image() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let mut stopped = turn("a", 1, "stopped");
    stopped.changes = vec![Change::Turned {
        agent: id("a"),
        turn: 1,
        image: None,
        account: Box::new(common::account("a")),
        labels: lazaret_gate::Labels::from(["untrusted".to_owned()]),
        entry: 0,
        kept: false,
    }];
    store.commit(stopped).unwrap();
    let row = store.agent(&id("a")).unwrap().unwrap();
    assert_eq!((row.turn, row.image), (1, Some(Digest::of(b"a"))));
    assert!(row.labels.is_empty(), "nor is what was seen in it");
}

#[test]
fn entries_come_in_order_and_prove_themselves() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    (1..=20).for_each(|n| drop(store.commit(turn("a", n, "x")).unwrap()));
    store.commit(changes(vec![Change::Checkpoint])).unwrap();
    (21..=50).for_each(|n| drop(store.commit(turn("a", n, "x")).unwrap()));
    store.commit(changes(vec![Change::Checkpoint, Change::Checkpoint])).unwrap();
    store.commit(changes(vec![Change::Checkpoint])).unwrap();

    let reader = Store::open_read_only(dir.path()).unwrap();
    let mut chain = Chain::default();
    reader
        .entries(0..u64::MAX, |_, bytes| {
            chain.follow(bytes).unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(chain.len(), 52);
    let mut some = Vec::new();
    let stop = |seq, _: &[u8]| {
        some.push(seq);
        if seq == 12 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    reader.entries(10..40, stop).unwrap();
    assert_eq!(some, [10, 11, 12]);
    reader.entries(99..120, |_, _| panic!("there is nothing")).unwrap();

    let (head, note) = reader.head().unwrap();
    let sizes: Vec<_> = reader.checkpoints().unwrap().iter().map(|(checkpoint, _)| checkpoint.size).collect();
    assert_eq!(sizes, [1, 22, 52], "the same size is kept once");
    let prover = reader.prover().unwrap();
    for seq in 0..52 {
        let proof = prover.inclusion(seq, 52).unwrap();
        let leaf = leaf(&reader.entry_bytes(seq as u64).unwrap());
        assert!(verify_inclusion(&leaf, seq as u64, 52, &proof, &head.root));
    }
    for (old, _) in reader.checkpoints().unwrap() {
        let proof = prover.consistency(old.size as usize, 52).unwrap();
        assert!(verify_consistency(old.size, &old.root, 52, &head.root, &proof));
    }
    let mut told = Vec::new();
    let verified = reader.verify_journal(|at| told.push(at)).unwrap();
    assert_eq!((verified.entries, verified.root, verified.checkpoints), (52, head.root, 3));
    assert_eq!((verified.note, told), (note, vec![52]));
}

/// With the triggers out of the way, every kind of tampering is seen, and at the right entry.
#[test]
fn tampering_is_seen_where_it_was_done() {
    let tricks: &[(&str, Option<u64>)] = &[
        (
            "UPDATE journal SET bytes = CAST(replace(CAST(bytes AS TEXT), '1234', '1235') AS BLOB) WHERE seq = 4",
            Some(4),
        ),
        ("UPDATE journal SET kind = 'turn' WHERE seq = 1", Some(1)),
        ("UPDATE journal SET agent = 'b' WHERE seq = 5", Some(5)),
        ("UPDATE journal SET turn = turn + 1 WHERE seq = 5", Some(5)),
        ("UPDATE journal SET turn = NULL WHERE seq = 5", Some(5)),
        ("UPDATE journal SET hash = zeroblob(32) WHERE seq = 5", Some(5)),
        ("UPDATE journal SET hash = x'00' WHERE seq = 5", Some(5)),
        ("UPDATE journal SET leaf = zeroblob(32) WHERE seq = 5", Some(5)),
        ("DELETE FROM journal WHERE seq = 5", Some(5)),
        ("DELETE FROM journal WHERE seq >= 9", None),
        ("DELETE FROM checkpoints WHERE size > 1", None),
        ("UPDATE checkpoints SET size = 3 WHERE size > 1", None),
        ("UPDATE checkpoints SET note = replace(note, 'A', 'B')", None),
        ("UPDATE head SET messages = 5", None),
        ("UPDATE head SET note = (SELECT note FROM checkpoints WHERE size = 1)", None),
        ("DELETE FROM head", None),
    ];
    for (sql, at) in tricks {
        let dir = dir();
        let store = open(dir.path());
        store.commit(creation("a")).unwrap();
        (1..=8).for_each(|n| drop(store.commit(turn("a", n, &format!("in {}", n + 1))).unwrap()));
        store.commit(changes(vec![Change::Checkpoint])).unwrap();
        drop(store);
        let conn = rusqlite::Connection::open(dir.path().join("lazaret.db")).unwrap();
        let triggers: String = conn
            .query_row("SELECT group_concat(sql, ';') FROM sqlite_schema WHERE type = 'trigger'", [], |row| row.get(0))
            .unwrap();
        let names: Vec<String> = {
            let mut names = conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
            names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        names.iter().for_each(|name| conn.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
        assert!(conn.execute(sql, []).unwrap() > 0, "{sql}");
        conn.execute_batch(&triggers).unwrap();
        drop(conn);
        let found = Store::open_read_only(dir.path()).and_then(|reader| reader.verify_journal(|_| ())).expect_err(sql);
        match (at, &found) {
            (Some(at), StoreError::Broken { seq, .. }) => assert_eq!(seq, at, "{sql}: {found}"),
            (None, StoreError::Broken { .. } | StoreError::Damaged { .. }) => {}
            _ => panic!("{sql}: {found:?}"),
        }
        let written = Store::open(dir.path(), now).and_then(|store| store.verify_journal(|_| ()).map(drop));
        assert!(written.is_err(), "{sql}");
    }
}

//! Forks, rollbacks and quarantine, as the store keeps them.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests touch the disk, and one that can't go on has failed"
)]

mod common;

use common::*;
use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{AgentForked, AgentQuarantined, AgentRolledBack, AgentWoken, World};
use lazaret_gate::{Body, Budget, Digest, Grants, Labels};
use lazaret_store::{AgentState, Batch, Change, NewAgent, Placed, Store, StoreError};

fn fork(from: &str, new: &str, entry: Digest) -> Batch {
    let (component, engine, image) = (Digest::of(b"component"), Digest::of(b"engine"), Some(Digest::of(b"fork")));
    let (grants, budget, caps, world) = (Grants::default(), Budget::default(), Caps::default(), World::Durable);
    let forked = AgentForked {
        agent: id(new),
        component,
        world,
        engine,
        grants: grants.clone(),
        budget: budget.clone(),
        caps: caps.clone(),
        slots: Default::default(),
        image,
        from: id(from),
        turn: 1,
        entry,
    };
    let row = NewAgent {
        agent: id(new),
        component,
        world,
        engine,
        grants,
        budget,
        caps,
        image,
        labels: Labels::new(),
        entry: 0,
        slots: Default::default(),
    };
    let changes = vec![Change::CreateAgent(Box::new(row)), set(new, "k", b"v", 7)];
    Batch { entries: vec![Body::AgentForked(Box::new(forked))], changes }
}

fn back(name: &str, previous: Digest) -> Batch {
    let (image, entry) = (Digest::of(b"earlier"), Digest::of(b"entry"));
    let back =
        AgentRolledBack { agent: id(name), by: "\",\"turn\":9}}".into(), to: 0, entry, image, taken: 1, previous };
    let changes = vec![Change::RolledBack { agent: id(name), image, labels: Labels::new(), entry: 0 }];
    Batch { entries: vec![Body::AgentRolledBack(back)], changes }
}

fn placed(store: &Store, batch: Batch) -> Placed {
    store.commit(batch).unwrap()[0]
}

#[test]
fn each_is_found_again_and_the_row_names_the_last_of_the_chain() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let one = placed(&store, turn("a", 1, "one"));
    let forked = placed(&store, fork("a", "b", one.hash));
    let back = placed(&store, back("a", one.hash));
    let (agent, by) = (id("a"), "me".to_owned());
    let reason = "\\u{202e}\"}},\"prev\":\"".to_owned();
    let apart = Body::AgentQuarantined(AgentQuarantined { agent: agent.clone(), by: by.clone(), reason });
    let changes = vec![
        Change::SetState { agent: agent.clone(), state: AgentState::Quarantined },
        Change::SetStreak { agent: agent.clone(), streak: 3 },
    ];
    store.commit(Batch { entries: vec![apart], changes }).unwrap();
    let woken = Body::AgentWoken(AgentWoken { agent: agent.clone(), by });
    store.commit(Batch { entries: vec![woken], changes: Vec::new() }).unwrap();
    let check = |store: &lazaret_store::Reader| {
        let kinds: Vec<_> = store.trail(&agent).unwrap().into_iter().map(|(_, kind, turn)| (kind, turn)).collect();
        let expected = [
            ("agent-created", None),
            ("turn", Some(1)),
            ("agent-rolled-back", None),
            ("agent-quarantined", None),
            ("agent-woken", None),
        ];
        assert_eq!(kinds, expected.map(|(kind, turn)| (kind.to_owned(), turn)));
        let row = store.agent(&agent).unwrap().unwrap();
        assert_eq!((row.turn, row.streak, row.state), (1, 3, AgentState::Quarantined));
        assert_eq!((row.last_entry, row.image), (back.hash, Some(Digest::of(b"earlier"))));
        let new = store.agent(&id("b")).unwrap().unwrap();
        assert_eq!((new.turn, new.streak, new.last_entry), (0, 0, forked.hash));
        assert_eq!(store.storage_get(&id("b"), "k").unwrap(), Some((b"v".to_vec(), 7)));
        store.verify_journal(|_| ()).unwrap();
        store.verify_state().unwrap();
    };
    check(&store);
    drop(store);
    check(&Store::open_read_only(dir.path()).unwrap());
    // Turns go on from there.
    open(dir.path()).commit(turn("a", 2, "two")).unwrap();
}

#[test]
fn nothing_is_put_back_in_the_middle_of_a_turn() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let one = placed(&store, turn("a", 1, "one"));
    let unfinished = Change::Unfinished { agent: id("a"), turn: Some(2) };
    store.commit(Batch { entries: Vec::new(), changes: vec![unfinished] }).unwrap();
    let before = (store.journal_len().unwrap(), store.agent(&id("a")).unwrap());
    assert!(matches!(store.commit(back("a", one.hash)), Err(StoreError::BadBatch { .. })));
    assert_eq!((store.journal_len().unwrap(), store.agent(&id("a")).unwrap()), before);
}

//! What a row says of an agent's trust: as the entries that are committed with it, and absent in rows of old.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests touch the disk, and one that can't go on has failed"
)]

mod common;

use common::*;
use lazaret_gate::record::Body;
use lazaret_gate::trust::{Conduct, Score, TrustChange, TrustEvent};
use lazaret_store::{AgentRow, Batch, Change, Store};

fn event(change: TrustChange, hundredths: u8, by: &str) -> TrustEvent {
    let (agent, score) = (id("a"), Score::try_from(hundredths).unwrap());
    TrustEvent { agent, change, score, by: by.into(), at: 5, reason: String::new(), turn: None }
}

fn commit(store: &Store, event: TrustEvent) -> AgentRow {
    let entries = vec![Body::TrustChanged(event.clone())];
    store.commit(Batch { entries, changes: vec![Change::Trust(event)] }).unwrap();
    std::sync::Arc::unwrap_or_clone(store.agent(&id("a")).unwrap().unwrap())
}

#[test]
fn a_row_follows_its_entries() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    assert_eq!(store.agent(&id("a")).unwrap().unwrap().score(), Score::START);
    assert_eq!(commit(&store, event(TrustChange::Set, 80, "ana")).score().hundredths(), 80);
    commit(&store, event(TrustChange::Revoked, 0, "ben"));
    let row = commit(&store, event(TrustChange::Revoked, 0, "cy"));
    assert_eq!(row.revoked.unwrap().by, "ben", "the first word stands");
    assert_eq!(commit(&store, event(TrustChange::Restored, 80, "ana")).revoked, None);
    let row = commit(&store, event(TrustChange::Mismatch, 80, "ana"));
    assert_eq!((row.conduct.unwrap().mismatches, row.score().hundredths()), (1, 15));
    let (before, more) = (Conduct { denied: 99, ..Conduct::default() }, Conduct { refusals: 2, ..Conduct::default() });
    store.commit(changes(vec![Change::Behaved { agent: id("a"), before, more }])).unwrap();
    let row = store.agent(&id("a")).unwrap().unwrap();
    assert_eq!(
        row.conduct,
        Some(Conduct { mismatches: 1, refusals: 2, ..Conduct::default() }),
        "it was counted before"
    );
    // Of an agent that is gone, too: what is known of it stays known.
    store.commit(removal("a")).unwrap();
    commit(&store, event(TrustChange::Mismatch, 0, "ana"));
    drop(store);
    let store = open(dir.path());
    let entries = store.agent_entries(&id("a"), Some("trust-changed"), None).unwrap();
    assert_eq!(entries.len(), 6);
    assert!(matches!(store.entry(entries[0]).unwrap().body, Body::TrustChanged(_)));
    store.verify_journal(|_| ()).unwrap();
    store.verify_state().unwrap();
}

#[test]
fn a_row_of_old_reads_as_one_that_nobody_has_counted() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let row = store.agent(&id("a")).unwrap().unwrap();
    let mut json = serde_json::to_value(&row).unwrap();
    let fields = json.as_object_mut().unwrap();
    for name in ["conduct", "base", "revoked"] {
        assert!(fields.remove(name).is_some(), "{name}");
    }
    let old: AgentRow = serde_json::from_value(json).unwrap();
    assert_eq!((old.conduct, old.base, &old.revoked), (None, None, &None));
    assert_eq!(AgentRow { conduct: row.conduct, ..old }, *row);
}

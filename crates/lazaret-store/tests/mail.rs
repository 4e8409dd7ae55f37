//! Numbers, room and schedules: what a keeper asks of mailboxes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests touch the disk, and one that can't go on has failed"
)]
mod common;

use common::*;
use lazaret_gate::record::{Body, Message};
use lazaret_gate::schedule::{Missed, ScheduleAdded, ScheduleFired, ScheduleRemoved, When};
use lazaret_store::limits::{MAX_MAILBOX, MAX_MAILBOX_BYTES, MAX_SCHEDULES};
use lazaret_store::{Batch, Change, StoreError, Unscheduled};

#[test]
fn messages_are_numbered_and_the_oldest_is_told_before_and_after_the_tables_have_it() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    store.commit(creation("b")).unwrap();
    let send = |to: &str, text: &str| Change::Enqueue { to: id(to), message: message(text) };
    let done = store.commit_async(changes(vec![send("a", "1"), send("b", "2"), send("a", "3")])).unwrap();
    assert_eq!(done.finish().unwrap().messages, 1..4);
    assert_eq!(store.commit_async(changes(vec![])).unwrap().finish().unwrap().messages, 4..4);
    assert_eq!(store.mailbox_next(&id("a")).unwrap(), Some((1, message("1"))));
    store.commit(changes(vec![Change::Dequeue { agent: id("a"), message: 1 }])).unwrap();
    assert_eq!(store.mailbox_next(&id("a")).unwrap(), Some((3, message("3"))));
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.mailbox_next(&id("a")).unwrap(), Some((3, message("3"))));
    assert_eq!(store.commit_async(changes(vec![send("b", "4")])).unwrap().finish().unwrap().messages, 4..5);
    assert_eq!(store.mailbox_next(&id("b")).unwrap(), Some((2, message("2"))), "not at hand after a restart");
    store.verify_state().unwrap();
}

#[test]
fn what_comes_and_is_answered_before_the_tables_know_leaves_no_trace_there() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let send = |text: &str| changes(vec![Change::Enqueue { to: id("a"), message: message(text) }]);
    let answer = |message| changes(vec![Change::Dequeue { agent: id("a"), message }]);
    // Nobody reads, so all of these are laid down in one transaction.
    for batch in [send("one"), send("two"), answer(1), send("three"), answer(2)] {
        store.commit(batch).unwrap();
    }
    store.verify_state().unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.mailbox_next(&id("a")).unwrap(), Some((3, message("three"))));
    // One that came before, and one that comes now.
    for batch in [answer(3), send("four"), send("five"), answer(4)] {
        store.commit(batch).unwrap();
    }
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.mailbox_next(&id("a")).unwrap(), Some((5, message("five"))));
    assert_eq!(store.mailbox_len(&id("a")), Ok(1));
    store.verify_state().unwrap();
}

#[test]
fn a_mailbox_has_a_weight_and_what_is_delivered_was_weighed_before() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    let heavy = || Message::outside("", vec![7; 3 << 20]);
    let mut taken = 0;
    let why = loop {
        match store.commit(changes(vec![Change::Enqueue { to: id("a"), message: heavy() }])) {
            Ok(_) => taken += 1,
            Err(why) => break why,
        }
    };
    assert_eq!(taken, 15, "4 MiB each as they are kept");
    let StoreError::MailboxHeavy { waiting, limit: MAX_MAILBOX_BYTES, .. } = why else { panic!("{why:?}") };
    assert_eq!(store.agent(&id("a")).unwrap().unwrap().queued_bytes(), waiting);
    store.commit(changes(vec![Change::Deliver { to: id("a"), message: heavy() }])).unwrap();
    for number in 1..=16 {
        store.commit(changes(vec![Change::Dequeue { agent: id("a"), message: number }])).unwrap();
    }
    assert_eq!(store.agent(&id("a")).unwrap().unwrap().queued_bytes(), 0);
    let many = (0..MAX_MAILBOX + 5).map(|_| Change::Deliver { to: id("a"), message: message("x") }).collect();
    store.commit(changes(many)).unwrap();
    let refused = store.commit(changes(vec![Change::Enqueue { to: id("a"), message: message("x") }]));
    assert!(matches!(refused, Err(StoreError::MailboxFull { .. })));
    store.verify_state().unwrap();
}

fn added(name: &str) -> Batch {
    let body = ScheduleAdded {
        agent: id("a"),
        by: "ana".into(),
        message: message("x"),
        missed: Missed::Once,
        schedule: name.into(),
        when: When::Every { from: 0, interval: 1_000 },
    };
    let changes = vec![Change::AddSchedule { agent: id("a"), name: name.into(), entry: 0, until: 5 }];
    Batch { entries: vec![Body::ScheduleAdded(Box::new(body))], changes }
}

fn fired(name: &str, due: u64) -> Batch {
    let body = ScheduleFired { agent: id("a"), due, missed: 0, schedule: name.into() };
    let fire = Change::FireSchedule { agent: id("a"), name: name.into(), until: due };
    let changes = vec![Change::Enqueue { to: id("a"), message: message("x") }, fire];
    Batch { entries: vec![Body::ScheduleFired(body)], changes }
}

#[test]
fn a_schedule_fires_once_for_a_due_time_and_all_of_it_is_on_record() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    store.commit(added("x")).unwrap();
    assert!(matches!(store.commit(added("x")), Err(StoreError::Schedule { why: Unscheduled::Taken, .. })));
    store.commit(fired("x", 10)).unwrap();
    for due in [5, 9, 10] {
        let again = store.commit(fired("x", due));
        assert!(matches!(again, Err(StoreError::Schedule { why: Unscheduled::Fired(10), .. })), "{due}");
    }
    assert_eq!(store.mailbox_len(&id("a")).unwrap(), 1, "what was refused left no message");
    let row = store.agent(&id("a")).unwrap().unwrap();
    assert_eq!((row.schedules[0].entry, row.schedules[0].until), (2, 10));
    for n in 1..MAX_SCHEDULES {
        store.commit(added(&format!("y{n}"))).unwrap();
    }
    assert!(matches!(store.commit(added("z")), Err(StoreError::Schedule { why: Unscheduled::Full, .. })));
    let body = ScheduleRemoved { agent: id("a"), by: "ana".into(), reason: "".into(), schedule: "x".into() };
    let changes = vec![Change::RemoveSchedule { agent: id("a"), name: "x".into() }];
    store.commit(Batch { entries: vec![Body::ScheduleRemoved(body)], changes }).unwrap();
    assert!(matches!(store.commit(fired("x", 11)), Err(StoreError::Schedule { why: Unscheduled::Absent, .. })));
    // Each kind of entry is found by its columns.
    for (kind, many) in [("schedule-added", MAX_SCHEDULES), ("schedule-fired", 1), ("schedule-removed", 1)] {
        assert_eq!(store.agent_entries(&id("a"), Some(kind), None).unwrap().len(), many);
    }
    store.verify_journal(|_| ()).unwrap();
    store.verify_state().unwrap();
}

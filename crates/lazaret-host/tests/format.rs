//! A data root that an earlier release wrote is taken up as it is.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test touches the disk, and one that can't go on has failed"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lazaret_gate::AgentId;
use lazaret_gate::record::{Ending, Message};
use lazaret_gate::trust::TrustChange;
use lazaret_host::{Host, Verdict, events_of};
use lazaret_store::{AgentState, Store};
use tempfile::TempDir;

/// A copy of a fixture, with the modes that a data root must have.
fn root(format: u32) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(&root, 0o700);
    let fixture = format!("../../tests/fixtures/format-{format}");
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture)).unwrap() {
        let (from, to) = (file.as_ref().unwrap().path(), root.join(file.unwrap().file_name()));
        std::fs::copy(from, &to).unwrap();
        mode(&to, 0o600);
    }
    (dir, root)
}

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

#[test]
fn format_1_is_read_and_takes_a_turn() {
    let (_dir, root) = root(1);
    let host = Host::open(&root).unwrap();
    let agent = "counter".parse().unwrap();
    let row = host.known(&agent).unwrap();
    assert_eq!((row.turn, row.streak), (6, 0));
    let ask = |text: &str| {
        let message = Message::outside("text/plain", text);
        match host.send(&agent, message).unwrap().record.ending {
            Ending::Replied(reply) => String::from_utf8(reply.body.0).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((ask("recall"), ask("add 1")), ("40,2".into(), "total=43 count=3".into()));
    // What it can do now reaches back into what was written then.
    host.rollback(&agent, 1, "me").unwrap();
    assert_eq!(ask("stored"), "stored=40@1");
    host.fork(&agent, Some(3), &"copy".parse().unwrap()).unwrap();
    let verdicts = host.replay(&"counter".parse().unwrap(), |_, _, _| ()).unwrap();
    assert_eq!(verdicts, vec![Verdict::Match; 9]);
    host.store().verify_journal(|_| ()).unwrap();
    host.store().verify_state().unwrap();
}

#[test]
fn format_1_is_brought_up_to_date_by_whoever_only_reads() {
    let (_dir, root) = root(1);
    for _ in 0..2 {
        let reader = Store::open_read_only(&root).unwrap();
        assert_eq!(reader.verify_journal(|_| ()).unwrap().entries, 12);
        reader.verify_state().unwrap();
        assert_eq!(reader.agents().unwrap().len(), 2);
    }
}

/// What a keeper of an earlier release left that was killed right after its last answer: some of it is in the tables, some in
/// SQLite's log, some in the redo log of that time only.
#[test]
fn what_a_killed_keeper_of_an_earlier_release_left_is_taken_up() {
    for format in [2, 3, 4] {
        let (_dir, root) = root(format);
        let host = Host::open(&root).unwrap();
        let ask = |name: &str, text: &str| match host
            .send(&id(name), Message::outside("text/plain", text))
            .unwrap()
            .record
            .ending
        {
            Ending::Replied(reply) => String::from_utf8(reply.body.0).unwrap(),
            other => panic!("{other:?}"),
        };
        // All that was acknowledged, and a message that waits. One more entry says that other rules are in force here.
        assert_eq!(host.store().verify_journal(|_| ()).unwrap().entries, 20 + 1, "format {format}");
        host.store().verify_state().unwrap();
        let row = host.known(&id("counter")).unwrap();
        assert_eq!((row.turn, row.schedules.len(), row.schedules[0].name.as_str()), (8, 1, "nightly"));
        assert_eq!(ask("counter", "recall"), "40,2,1,1");
        let apart = host.known(&id("apart")).unwrap();
        assert_eq!((apart.state, apart.queued.len()), (AgentState::Quarantined, 1));
        host.wake(&id("apart"), "me").unwrap();
        assert_eq!(host.deliver().unwrap().len(), 1);
        assert_eq!(ask("apart", "recall"), "5,6");
        // Who is revoked stays so, and who did it is on record.
        let why = host.send(&id("twin"), Message::outside("text/plain", "recall")).unwrap_err().to_string();
        assert!(why.contains("ana has revoked `twin`"), "{why}");
        let told = events_of(host.store(), &id("twin")).unwrap();
        assert_eq!((told.len(), told[0].change), (1, TrustChange::Revoked));
        let verdicts = host.replay(&"counter".parse().unwrap(), |_, _, _| ()).unwrap();
        assert_eq!(verdicts, vec![Verdict::Match; 9], "format {format}");
        host.rollback(&id("counter"), 1, "me").unwrap();
        assert_eq!(ask("counter", "stored"), "stored=40@1");
        drop(host);
        // And once more, as what it is now.
        let reader = Store::open_read_only(&root).unwrap();
        reader.verify_journal(|_| ()).unwrap();
        reader.verify_state().unwrap();
        assert!(reader.agent(&id("gone")).unwrap().is_some_and(|row| row.state == AgentState::Removed));
    }
}

#[test]
fn whoever_only_reads_takes_it_up_too() {
    for format in [2, 3, 4] {
        let (_dir, root) = root(format);
        for _ in 0..2 {
            let reader = Store::open_read_only(&root).unwrap();
            assert_eq!(reader.verify_journal(|_| ()).unwrap().entries, 20, "format {format}");
            reader.verify_state().unwrap();
            assert_eq!(reader.agents().unwrap().len(), 4);
        }
    }
}

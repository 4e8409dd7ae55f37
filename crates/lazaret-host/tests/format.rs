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

use lazaret_gate::record::{Ending, Message};
use lazaret_host::{Host, Verdict};
use lazaret_store::Store;
use tempfile::TempDir;

/// A copy of the fixture, with the modes that a data root must have.
fn root() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(&root, 0o700);
    for file in ["lazaret.db", "host.key"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/format-1").join(file);
        std::fs::copy(from, root.join(file)).unwrap();
        mode(&root.join(file), 0o600);
    }
    (dir, root)
}

#[test]
fn format_1_is_read_and_takes_a_turn() {
    let (_dir, root) = root();
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
    let (_dir, root) = root();
    for _ in 0..2 {
        let reader = Store::open_read_only(&root).unwrap();
        assert_eq!(reader.verify_journal(|_| ()).unwrap().entries, 12);
        reader.verify_state().unwrap();
        assert_eq!(reader.agents().unwrap().len(), 2);
    }
}

//! Writes that fail half way. A child process runs under a file size limit, which it lifts later.
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
use lazaret_store::StoreError;
use rustix::process::{Resource, getrlimit, setrlimit};

const CHILD: &str = "LAZARET_TEST_FULL_DISK";

#[test]
fn what_failed_is_gone_and_what_was_acknowledged_stays() {
    if let Some(root) = std::env::var_os(CHILD) {
        return child(Path::new(&root));
    }
    let dir = dir();
    let me = std::env::current_exe().unwrap();
    // A write past the limit must be an error and not a signal; blocks of 512 bytes.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 1600; exec \"$0\" --nocapture"])
        .arg(me)
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("child done"), "{text}");
    let store = open(dir.path());
    store.verify_journal(|_| ()).unwrap();
    store.verify_state().unwrap();
}

fn child(root: &Path) {
    let store = open(root);
    store.commit(creation("a")).unwrap();
    let mut acknowledged = 0;
    let failed = loop {
        match store.commit(turn("a", acknowledged + 1, "x")) {
            Ok(_) => acknowledged += 1,
            Err(why) => break why,
        }
        assert!(acknowledged < 1000, "the limit isn't felt");
    };
    assert!(matches!(failed, StoreError::Io { .. } | StoreError::DiskFull), "{failed:?}");
    assert!(acknowledged > 1);
    let big = changes(vec![set("a", "k", &[7; 300_000], 1)]);
    let again = store.commit(big).unwrap_err();
    assert!(matches!(again, StoreError::Io { .. } | StoreError::DiskFull | StoreError::Halted { .. }), "{again:?}");
    assert_eq!(store.agent(&id("a")).unwrap().unwrap().turn, acknowledged);
    assert_eq!(store.journal_len().unwrap(), acknowledged + 2);
    store.verify_journal(|_| ()).unwrap();

    let limit = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    for n in acknowledged + 1..=acknowledged + 20 {
        let placed = store.commit(turn("a", n, "with room again")).unwrap();
        assert_eq!(placed[0].seq, n + 1, "no gap, no other entry");
    }
    store.verify_journal(|_| ()).unwrap();
    assert_eq!(store.storage_get(&id("a"), "k").unwrap(), None);
    store.verify_state().unwrap();
    println!("child done: {acknowledged} acknowledged before {failed}");
}

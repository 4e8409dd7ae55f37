//! The data root: who may open it, and what is refused.
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
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use common::*;
use lazaret_store::{Store, StoreError};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn refusal(path: &Path) -> StoreError {
    Store::open(path, now).map(drop).expect_err("this can't be opened")
}

fn sql(root: &Path, sql: &str) {
    rusqlite::Connection::open(root.join("lazaret.db")).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn everything_made_is_closed_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("deep/er/root");
    let store = open(&root);
    store.commit(creation("a")).unwrap();
    assert_eq!(mode(&root), 0o700);
    let mut seen = 0;
    for file in fs::read_dir(&root).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 6, "database, its log and that one's index, redo log, key and lock");
    drop(store);
    assert!(!root.join("lazaret.db-wal").exists(), "a closed data root is one database file");
    assert_eq!(fs::metadata(root.join("lazaret.redo")).unwrap().len(), 0, "and an empty log");
}

#[test]
fn a_second_process_is_told_who_has_it() {
    let dir = dir();
    let store = open(dir.path());
    assert_eq!(refusal(dir.path()), StoreError::Busy { pid: Some(std::process::id()) });
    let reader = Store::open_read_only(dir.path()).unwrap();
    store.commit(creation("a")).unwrap();
    // Another process sees a commit as soon as it is in the tables; this one waits for that.
    assert_eq!(store.agents().unwrap().len(), 1);
    assert_eq!(reader.agents().unwrap().len(), 1, "reading goes on beside it");
    store.close();
    open(dir.path());
}

#[test]
fn one_who_passes_through_is_waited_for() {
    let dir = dir();
    drop(open(dir.path()));
    // As a command that only reads holds it, while it brings a crashed process's commits into the tables.
    let lock = fs::File::options().write(true).open(dir.path().join("lazaret.lock")).unwrap();
    lock.try_lock().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| Store::open(dir.path(), || 7).map(drop));
        // The name of one who is gone stands in it until now.
        std::thread::sleep(std::time::Duration::from_millis(2));
        lock.set_len(0).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(lock);
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn open_to_others_is_refused() {
    let dir = dir();
    drop(open(dir.path()));
    for (path, loose, tight) in [(dir.path(), 0o750, 0o700), (&dir.path().join("host.key"), 0o644, 0o600)] {
        chmod(path, loose);
        let refused = refusal(path.parent().filter(|_| !path.is_dir()).unwrap_or(dir.path()));
        assert_eq!(refused, StoreError::Exposed { path: path.into(), mode: loose, directory: path.is_dir() });
        assert!(refused.to_string().contains(&format!("chmod {tight:o}")), "{refused}");
        chmod(path, tight);
    }
    chmod(&dir.path().join("lazaret.db"), 0o666);
    assert!(matches!(refusal(dir.path()), StoreError::Exposed { mode: 0o666, .. }));
    chmod(&dir.path().join("lazaret.db"), 0o600);
    open(dir.path());
}

#[test]
fn a_file_or_a_foreign_directory_is_refused() {
    let dir = dir();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(refusal(&file), StoreError::NotADirectory { path: file.clone() });
    assert_eq!(refusal(&file.join("below")), StoreError::NotADirectory { path: file.join("below") });
    let me = rustix::process::geteuid().as_raw();
    if me == 0 {
        std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
        assert_eq!(refusal(dir.path()), StoreError::Owner { path: dir.path().into(), owner: 65534, me: 0 });
    } else {
        let refused = refusal(Path::new("/"));
        assert_eq!(refused, StoreError::Owner { path: "/".into(), owner: 0, me });
    }
}

#[test]
fn other_formats_are_told_apart() {
    let dir = dir();
    drop(open(dir.path()));
    sql(dir.path(), "PRAGMA user_version = 9");
    assert_eq!(refusal(dir.path()), StoreError::Newer { found: 9, known: 5 });
    assert_eq!(Store::open_read_only(dir.path()).unwrap_err(), StoreError::Newer { found: 9, known: 5 });
    // Where the host's key is, there was a journal; elsewhere it is somebody else's file.
    let text = "not a database, by any means: only some text";
    sql(dir.path(), "PRAGMA user_version = 1; PRAGMA application_id = 77");
    assert!(matches!(refusal(dir.path()), StoreError::Corrupt { .. }));
    fs::write(dir.path().join("lazaret.db"), text).unwrap();
    assert!(matches!(refusal(dir.path()), StoreError::Corrupt { .. }));
    fs::remove_file(dir.path().join("host.key")).unwrap();
    assert!(matches!(refusal(dir.path()), StoreError::NotOurs { .. }));
    let read = Store::open_read_only(dir.path());
    assert!(matches!(read, Err(StoreError::NotOurs { .. })));
}

#[test]
fn a_changed_schema_is_damage() {
    let dir = dir();
    drop(open(dir.path()));
    sql(dir.path(), "DROP TRIGGER journal_no_delete");
    assert!(matches!(refusal(dir.path()), StoreError::Damaged { .. }));
    assert!(matches!(Store::open_read_only(dir.path()), Err(StoreError::Damaged { .. })));
}

#[test]
fn the_key_is_never_made_twice() {
    let dir = dir();
    let key = dir.path().join("host.key");
    let store = open(dir.path());
    let verifier = store.verifier().clone();
    let secret = store.secret("code");
    assert_ne!(secret, store.secret("other"));
    drop(store);
    assert_eq!(fs::read(&key).unwrap().len(), 32);
    let store = open(dir.path());
    assert_eq!((store.verifier(), store.secret("code")), (&verifier, secret), "the same after a restart");
    drop(store);

    fs::rename(&key, dir.path().join("aside")).unwrap();
    assert_eq!(refusal(dir.path()), StoreError::KeyMissing { path: key.clone() });
    assert!(!key.exists());
    assert_eq!(Store::open_read_only(dir.path()).unwrap().verifier(), &verifier, "a copy without the key can be read");

    for wrong in [vec![], vec![1; 31], vec![1; 33], vec![1; 32]] {
        fs::write(&key, &wrong).unwrap();
        chmod(&key, 0o600);
        assert!(matches!(refusal(dir.path()), StoreError::KeyBad { .. }), "{} bytes", wrong.len());
        assert!(matches!(Store::open_read_only(dir.path()), Err(StoreError::KeyBad { .. })));
        assert_eq!(fs::read(&key).unwrap(), wrong);
    }
    fs::rename(dir.path().join("aside"), &key).unwrap();
    open(dir.path());
}

#[test]
fn a_crash_while_beginning_is_no_harm() {
    let dir = dir();
    fs::write(dir.path().join("host.key.new"), "half").unwrap();
    fs::write(dir.path().join("lazaret.db"), "").unwrap();
    chmod(&dir.path().join("lazaret.db"), 0o600);
    drop(open(dir.path()));
    assert!(!dir.path().join("host.key.new").exists());
    // The tables and the key, and not yet an entry.
    let key = fs::read(dir.path().join("host.key")).unwrap();
    fs::remove_file(dir.path().join("lazaret.db")).unwrap();
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/001.sql");
    sql(dir.path(), &fs::read_to_string(schema).unwrap());
    sql(dir.path(), "PRAGMA application_id = 0x4c5a5254; PRAGMA user_version = 1");
    chmod(&dir.path().join("lazaret.db"), 0o600);
    assert!(matches!(Store::open_read_only(dir.path()), Err(StoreError::NoStore { .. })));
    assert_eq!(open(dir.path()).journal_len(), Ok(1));
    assert_eq!(fs::read(dir.path().join("host.key")).unwrap(), key);
}

#[test]
fn a_journal_that_vanished_is_not_begun_anew() {
    let dir = dir();
    let db = dir.path().join("lazaret.db");
    drop(open(dir.path()));
    fs::remove_file(&db).unwrap();
    assert_eq!(refusal(dir.path()), StoreError::JournalMissing { path: db.clone() });
    fs::write(&db, "").unwrap();
    assert_eq!(refusal(dir.path()), StoreError::JournalMissing { path: db });
}

#[test]
fn reading_needs_something_to_read() {
    let dir = dir();
    let nowhere = dir.path().join("nowhere");
    assert_eq!(Store::open_read_only(&nowhere).unwrap_err(), StoreError::NoStore { path: nowhere.clone() });
    assert_eq!(Store::open_read_only(dir.path()).unwrap_err(), StoreError::NoStore { path: dir.path().into() });
    assert!(!nowhere.exists());
    fs::write(dir.path().join("lazaret.db"), "").unwrap();
    let empty = Store::open_read_only(dir.path()).unwrap_err();
    assert_eq!(empty, StoreError::NoStore { path: dir.path().into() }, "somebody is about to make one");
}

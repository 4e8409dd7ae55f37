//! Random damage to the database's file: what is read is exactly what was written, or an error.
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
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use common::*;
use lazaret_gate::{Body, Digest};
use lazaret_store::{Batch, Change, Reader, Store, StoreError};

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap() % end
    }
}

const AGENTS: [&str; 3] = ["first", "second", "third"];

fn bytes(n: u64) -> Vec<u8> {
    let mut dice = Dice(n);
    (0..500 + n * 37 % 5000)
        .map(|_| if n.is_multiple_of(2) { dice.next() as u8 } else { dice.below(3) as u8 })
        .collect()
}

fn fill(root: &Path) {
    let store = open(root);
    for name in AGENTS.iter().chain(&["gone"]) {
        store.commit(creation(name)).unwrap();
    }
    for n in 1..=30 {
        for name in AGENTS {
            let mut batch = turn(name, n, &format!("message {n} to {name}"));
            batch.changes.push(set(name, &format!("key/{}", n % 11), &bytes(n), n));
            batch.changes.push(set(name, &format!("other/{n}"), b"small", 1));
            batch.changes.push(blob(&bytes(1000 + n)));
            batch.changes.push(Change::Enqueue { to: id(name), message: message(&format!("waits {n}")) });
            if n % 7 == 0 {
                batch.changes.push(Change::Checkpoint);
                batch.changes.push(Change::StorageDelete { agent: id(name), key: format!("other/{}", n - 3) });
            }
            store.commit(batch).unwrap();
        }
    }
    store.commit(removal("gone")).unwrap();
    let close = Body::EffectClosed(Box::new(closed("third", 31, 0)));
    let unfinished = Change::Unfinished { agent: id("third"), turn: Some(31) };
    store.commit(Batch { entries: vec![opened("third", 31, 0), close], changes: vec![unfinished] }).unwrap();
}

/// Every answer that a reader can give, each as text or as an error.
fn answers(reader: &Reader) -> Vec<Result<String, StoreError>> {
    let mut all = Vec::new();
    let mut put = |answer: Result<String, StoreError>| all.push(answer);
    put(reader.agents().map(|rows| format!("{rows:?}")));
    put(reader.head().map(|head| format!("{head:?}")));
    put(reader.checkpoints().map(|all| format!("{all:?}")));
    put(reader.journal_len().map(|len| len.to_string()));
    put(reader.prover().map(|prover| format!("{:?}", prover.inclusion(3, prover.size()))));
    for seq in 0..97 {
        put(reader.entry_bytes(seq).map(|bytes| Digest::of(&bytes).to_string()));
    }
    let mut entries = String::new();
    let visited = reader.entries(0..200, |seq, bytes| {
        entries += &format!("{seq} {}", Digest::of(bytes));
        ControlFlow::Continue(())
    });
    put(visited.map(|()| entries));
    for n in 1..=30 {
        put(reader.blob(&Digest::of(&bytes(1000 + n))).map(|bytes| Digest::of(&bytes).to_string()));
    }
    for name in AGENTS.iter().chain(&["gone", "never"]).map(|name| id(name)) {
        put(reader.agent(&name).map(|row| format!("{row:?}")));
        put(reader.storage_list(&name, "", None, 1000).map(|keys| format!("{keys:?}")));
        put(reader.storage_list(&name, "key/1", Some("key/1"), 5).map(|keys| format!("{keys:?}")));
        for key in (0..32).flat_map(|n| [format!("key/{n}"), format!("other/{n}")]) {
            put(reader.storage_get(&name, &key).map(|value| format!("{value:?}")));
        }
        put(reader.mailbox_len(&name).map(|len| len.to_string()));
        put(reader.mailbox_next(&name).map(|next| format!("{next:?}")));
        put(reader.agent_entries(&name, None, None).map(|all| format!("{all:?}")));
        put(reader.agent_entries(&name, Some("turn"), None).map(|all| format!("{all:?}")));
        put(reader.unfinished_entries(&name, 31).map(|all| format!("{all:?}")));
        for n in 0..33 {
            put(reader.turn_entry(&name, n).map(|seq| format!("{seq:?}")));
        }
    }
    all
}

fn damage(dice: &mut Dice, file: &mut Vec<u8>) -> String {
    let at = dice.below(file.len());
    match dice.below(10) {
        0..5 => {
            file[at] ^= 1 << dice.below(8);
            format!("bit at {at}")
        }
        5..7 => {
            file[at] = dice.next() as u8;
            format!("byte at {at}")
        }
        // SQLite's structure lies at the beginning of pages.
        7 => {
            let at = at / 4096 * 4096 + dice.below(200);
            let at = at.min(file.len() - 1);
            file[at] = file[at].wrapping_add(1 + dice.below(255) as u8);
            format!("page head at {at}")
        }
        8 => {
            let (from, to) = (dice.below(file.len() / 4096) * 4096, dice.below(file.len() / 4096) * 4096);
            file.copy_within(from..from + 4096, to);
            format!("page {from} over {to}")
        }
        _ => {
            let end = (at + dice.below(6000)).min(file.len());
            if dice.below(2) == 0 {
                file[at..end].fill(0);
                format!("zeros at {at}..{end}")
            } else {
                file.truncate(at);
                format!("cut at {at}")
            }
        }
    }
}

#[test]
fn damage_is_an_error_or_changes_nothing() {
    let seeds = std::env::var("LAZARET_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(256);
    let dir = dir();
    fill(dir.path());
    let file = dir.path().join("lazaret.db");
    let original = fs::read(&file).unwrap();
    let expected = answers(&Store::open_read_only(dir.path()).unwrap());
    assert!(expected.iter().filter(|answer| answer.is_ok()).count() > 450);
    let (mut refused, mut partly, mut unseen) = (0, 0, 0);
    for seed in 0..seeds {
        let (mut dice, mut damaged) = (Dice(seed), original.clone());
        let what = damage(&mut dice, &mut damaged);
        if damaged == original {
            continue;
        }
        fs::write(&file, &damaged).unwrap();
        let run = || {
            let store: Box<dyn std::ops::Deref<Target = Reader>> = match seed % 2 {
                0 => Box::new(Store::open(dir.path(), now)?),
                _ => Box::new(Box::new(Store::open_read_only(dir.path())?)),
            };
            let found = answers(&store);
            let whole = store.verify_journal(|_| ()).map(drop).and_then(|()| store.verify_state());
            Ok::<_, StoreError>((found, whole))
        };
        match catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| panic!("seed {seed}: {what}: panicked")) {
            Err(_) => refused += 1,
            Ok((found, whole)) => {
                for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    assert!(
                        found == expected || found.is_err(),
                        "seed {seed}: {what}: answer {number}: {found:?} instead of {expected:?}"
                    );
                }
                let failed = found != expected || whole.is_err();
                *(if failed { &mut partly } else { &mut unseen }) += 1;
            }
        }
        for name in ["lazaret.db-wal", "lazaret.db-shm"] {
            let _ = fs::remove_file(dir.path().join(name));
        }
    }
    println!("{seeds} damaged files: {refused} refused at once, {partly} with errors, {unseen} without effect, 0 lies");
    assert!(refused + partly > seeds / 2);
}

/// SQLite takes the first frame of its log that doesn't check for the log's end. The redo log holds what follows.
#[test]
fn a_damaged_log_is_not_taken_for_a_short_one() {
    let dir = dir();
    let store = open(dir.path());
    store.commit(creation("a")).unwrap();
    for n in 1..=10 {
        store.commit(turn("a", n, "x")).unwrap();
        store.verify_state().unwrap();
    }
    // As after a crash: the log is there and nobody has carried it over.
    let copy = common::dir();
    let names = ["lazaret.db", "lazaret.db-wal", "lazaret.redo", "host.key"];
    let files = names.map(|name| (copy.path().join(name), fs::read(dir.path().join(name)).unwrap()));
    let log = copy.path().join("lazaret.db-wal");
    let len = files[1].1.len();
    for at in (0..len).step_by(len / 23) {
        for read_only in [true, false] {
            for (path, bytes) in &files {
                fs::write(path, bytes).unwrap();
                fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            }
            let _ = fs::remove_file(copy.path().join("lazaret.db-shm"));
            let mut damaged = files[1].1.clone();
            damaged[at] ^= 1;
            fs::write(&log, &damaged).unwrap();
            if read_only {
                assert_eq!(Store::open_read_only(copy.path()).unwrap().journal_len(), Ok(12), "byte {at}");
            } else {
                assert_eq!(open(copy.path()).verify_journal(|_| ()).unwrap().entries, 12, "byte {at}");
            }
        }
    }
}

//! A vault in use: what is kept, who may have it, what is refused, and with which words.
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
mod vaults;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use common::dir;
use lazaret_store::StoreError;
use lazaret_store::vault::{Kind, Mark, Remark, Scope, Secret, Status, Vault, VaultError};
use vaults::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_is_kept_is_there_after_unlocking_again() {
    let dir = dir();
    let vault = init(dir.path());
    set(&vault, "github-token", "a value to keep");
    let long = Secret::new((0..=255).cycle().take(64 << 10).collect());
    vault.set(&name("blob"), &"app:mailer".parse().unwrap(), &long).unwrap();
    assert_eq!(vault.bind(&binding("agent:clerk", "api-key", "github-token")), Ok(None));
    let listed = vault.list().unwrap();
    drop(vault);
    let vault = unlock(dir.path()).unwrap();
    assert_eq!(value(&vault, "github-token").unwrap(), "a value to keep");
    assert!(vault.get(&name("blob")).unwrap() == long);
    assert_eq!(vault.list().unwrap(), listed);
    assert_eq!(
        vault.bound(&holder("agent:clerk"), &name("api-key")),
        Ok(Some(binding("agent:clerk", "api-key", "github-token")))
    );
    let [blob, token] = listed.as_slice() else { panic!("two") };
    assert_eq!((blob.name.as_str(), blob.scope.to_string(), blob.version), ("blob", "app:mailer".to_owned(), 1));
    assert_eq!((token.created, token.rotated, token.bindings.len()), (now(), now(), 1));
    assert_eq!(token.at_most, 28, "15 bytes, and it isn't said how many");
}

#[test]
fn everything_made_is_closed_to_others() {
    let dir = dir();
    set(&init(dir.path()), "a", "12345678");
    assert_eq!(mode(&dir.path().join("vault")), 0o700);
    let found = fs::read_dir(dir.path().join("vault")).unwrap().map(|found| found.unwrap());
    let names: BTreeSet<_> =
        found.inspect(|found| assert_eq!(mode(&found.path()), 0o600)).map(|f| f.file_name()).collect();
    assert_eq!(names, ["lock", "secrets.sealed"].map(Into::into).into());
    assert_eq!(mode(&key_path(dir.path())), 0o600);
}

#[test]
fn what_others_may_open_is_refused() {
    let dir = dir();
    set(&init(dir.path()), "a", "12345678");
    for path in [dir.path().join("vault"), file(dir.path()), key_path(dir.path())] {
        let lawful = mode(&path);
        for more in [0o040, 0o020, 0o004, 0o001] {
            chmod(&path, lawful | more);
            let refused = unlock(dir.path()).map(drop);
            assert!(
                matches!(&refused, Err(VaultError::Disk(StoreError::Exposed { path: said, .. })) if *said == path),
                "{refused:?}"
            );
        }
        chmod(&path, lawful);
    }
    unlock(dir.path()).unwrap();
}

#[test]
fn a_link_or_a_pipe_is_not_a_vault() {
    let dir = dir();
    drop(init(dir.path()));
    let (path, aside) = (file(dir.path()), dir.path().join("aside"));
    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    assert!(matches!(unlock(dir.path()).map(drop), Err(VaultError::Damaged { .. })));
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap().success());
    assert!(matches!(unlock(dir.path()).map(drop), Err(VaultError::Damaged { .. })));
}

#[test]
fn status_needs_no_key_and_tells_no_names() {
    let dir = dir();
    assert_eq!(Vault::status(dir.path()), Ok(None));
    assert_eq!(unlock(dir.path()).map(drop), Err(VaultError::Missing { path: dir.path().into() }));
    let vault = init(dir.path());
    set(&vault, "github-token", "a value to keep");
    vault.bind(&binding("agent:clerk", "api-key", "github-token")).unwrap();
    let status = Vault::status(dir.path()).unwrap().unwrap();
    assert_eq!(status, vault.facts().unwrap());
    let Status { kind, epoch, secrets, bindings, mark, .. } = status;
    assert_eq!((kind, epoch, secrets, bindings), (Kind::KeyFile { path: key_path(dir.path()) }, 1, 1, 1));
    assert_eq!(mark, vault.mark().unwrap());
    assert_eq!(mark.generation, 3);
    let bytes = fs::read(file(dir.path())).unwrap();
    for word in ["github", "a value", "clerk", "api-key", "example"] {
        assert!(!bytes.windows(word.len()).any(|part| part == word.as_bytes()), "{word}");
    }
}

#[test]
fn a_vault_is_made_once() {
    let dir = dir();
    drop(init(dir.path()));
    let again = Vault::init(dir.path(), &key_file(dir.path()), now).map(drop);
    assert_eq!(again, Err(VaultError::Exists { path: file(dir.path()) }));
}

#[test]
fn a_new_value_has_a_new_version_and_the_same_scope() {
    let dir = dir();
    let vault = init(dir.path());
    set(&vault, "a", "first value");
    assert_eq!(vault.set(&name("a"), &Scope::Global, &secret("second value")).unwrap().version, 2);
    assert_eq!(vault.rotate(&name("a"), &secret("third value")).unwrap().version, 3);
    assert_eq!(value(&vault, "a").unwrap(), "third value");
    let moved = vault.set(&name("a"), &"agent:x".parse().unwrap(), &secret("fourth value"));
    assert!(matches!(moved, Err(VaultError::OtherScope { .. })));
    assert_eq!(vault.rotate(&name("b"), &secret("some value")), Err(VaultError::NoSuchSecret { secret: name("b") }));
    assert_eq!(vault.remove(&name("a")), Ok(()));
    assert_eq!(value(&vault, "a"), Err(VaultError::NoSuchSecret { secret: name("a") }));
    assert_eq!(vault.remove(&name("a")), Err(VaultError::NoSuchSecret { secret: name("a") }));
}

#[test]
fn many_values_are_one_write_or_none() {
    let dir = dir();
    let vault = init(dir.path());
    let (names, values): (Vec<_>, Vec<_>) =
        (0..1000).map(|n| (name(&format!("canary-{n}")), secret(&format!("canary value {n}")))).unzip();
    let before = vault.mark().unwrap().generation;
    let all: Vec<_> = names.iter().zip(&values).map(|(name, value)| (name, &Scope::Global, value)).collect();
    vault.set_many(&all).unwrap();
    assert_eq!(vault.mark().unwrap().generation, before + 1);
    assert_eq!(value(&vault, "canary-999").unwrap(), "canary value 999");
    let short = secret("short");
    let some = [(&names[0], &Scope::Global, &values[1]), (&names[1], &Scope::Global, &short)];
    assert_eq!(vault.set_many(&some), Err(VaultError::ValueShort));
    assert_eq!(value(&vault, "canary-0").unwrap(), "canary value 0", "nothing of it was kept");
}

#[test]
fn values_have_a_shortest_and_a_longest() {
    let dir = dir();
    let vault = init(dir.path());
    let try_set = |len| vault.set(&name("a"), &Scope::Global, &Secret::new(vec![b'x'; len])).map(drop);
    assert_eq!(try_set(0), Err(VaultError::ValueShort));
    assert_eq!(try_set(7), Err(VaultError::ValueShort));
    assert_eq!(try_set(8), Ok(()));
    assert_eq!(try_set(64 << 10), Ok(()));
    assert_eq!(try_set((64 << 10) + 1), Err(VaultError::ValueLong));
    assert!(matches!(Secret::read(&mut std::io::repeat(b'x')), Err(VaultError::ValueLong)));
    let typed = Secret::read(&mut &b"typed with a line break\r\n"[..]).unwrap().without_line_break();
    assert_eq!(typed.expose(), b"typed with a line break");
}

#[test]
fn a_bound_secret_cannot_be_removed_and_stays_what_it_is_bound_for() {
    let dir = dir();
    let vault = init(dir.path());
    set(&vault, "a", "a good value");
    vault.set(&name("mine"), &"agent:clerk".parse().unwrap(), &secret("only for one")).unwrap();
    let bound = binding("agent:clerk", "key", "a");
    assert_eq!(vault.bind(&bound), Ok(None));
    assert_eq!(vault.bind(&binding("agent:clerk", "key", "mine")), Ok(Some(bound)), "the slot is filled anew");
    let other = vault.bind(&binding("agent:other", "key", "mine"));
    assert!(matches!(other, Err(VaultError::OutOfScope { .. })), "{other:?}");
    assert!(matches!(vault.bind(&binding("agent:clerk", "key", "none")), Err(VaultError::NoSuchSecret { .. })));
    let removed = vault.remove(&name("mine")).unwrap_err();
    assert_eq!(removed.to_string(), "`mine` is bound to slot `key` of agent:clerk; unbind it first");
    let torn = vault.rotate(&name("mine"), &secret("two\r\nheaders: x"));
    assert_eq!(torn, Err(VaultError::NotForHeader { secret: name("mine") }));
    assert_eq!(vault.unbind(&holder("agent:clerk"), &name("key")).unwrap().secret, name("mine"));
    assert!(matches!(vault.unbind(&holder("agent:clerk"), &name("key")), Err(VaultError::NotBound { .. })));
    vault.rotate(&name("mine"), &secret("two\r\nlines")).unwrap();
    let late = vault.bind(&binding("agent:clerk", "key", "mine"));
    assert_eq!(late, Err(VaultError::NotForHeader { secret: name("mine") }));
    vault.remove(&name("mine")).unwrap();
}

#[test]
fn an_older_copy_is_noticed_by_whoever_knows_the_newer_mark() {
    let dir = dir();
    let vault = init(dir.path());
    set(&vault, "a", "the old value");
    let (old, copy) = (vault.mark().unwrap(), fs::read(file(dir.path())).unwrap());
    set(&vault, "a", "the new value");
    let new = vault.mark().unwrap();
    assert_eq!(new.follows(&old), Ok(()));
    assert_eq!(old.follows(&new), Err(VaultError::RolledBack { found: old.generation, known: new.generation }));
    let other = Mark { digest: old.digest, ..new };
    assert!(matches!(new.follows(&other), Err(VaultError::Forked { .. })));
    let (aside, file) = (dir.path().join("aside"), file(dir.path()));
    fs::write(&aside, &copy).unwrap();
    chmod(&aside, 0o600);
    let newer = fs::read(&file).unwrap();
    fs::write(&file, &copy).unwrap();
    assert!(matches!(value(&vault, "a"), Err(VaultError::RolledBack { .. })), "a copy over it is noticed too");
    fs::write(&file, newer).unwrap();
    assert_eq!(value(&vault, "a").unwrap(), "the new value");
    fs::rename(&aside, &file).unwrap();
    assert!(matches!(value(&vault, "a"), Err(VaultError::RolledBack { .. })), "the process that saw the newer one");
    let again = unlock(dir.path()).unwrap();
    assert_eq!(
        again.mark().unwrap().follows(&new),
        Err(VaultError::RolledBack { found: 2, known: 3 }),
        "and the journal"
    );
}

#[test]
fn an_audit_opens_everything_and_says_what_could_be_better() {
    let dir = dir();
    let vault = init(dir.path());
    set(&vault, "a", "the same value");
    set(&vault, "b", "the same value");
    set(&vault, "c", "another value");
    let mut broad = binding("agent:clerk", "key", "c");
    (broad.methods, broad.paths) = (Vec::new(), Vec::new());
    broad.hosts.push("http://127.0.0.1:8080".parse().unwrap());
    vault.bind(&broad).unwrap();
    vault.bind(&binding("app:mailer", "key", "a")).unwrap();
    drop(vault);
    let later = Vault::unlock(dir.path(), &by_key_file(dir.path()), || now() + 200 * 86_400_000).unwrap();
    let audit = later.audit().unwrap();
    assert_eq!((audit.opened, audit.status.bindings), (3, 2));
    let old = |of| Remark::Old { secret: name(of), days: 200 };
    let place = "slot `key` of agent:clerk".to_owned();
    let expected = [
        old("a"),
        Remark::Repeated { secret: name("b"), other: name("a") },
        old("b"),
        Remark::Unbound { secret: name("b") },
        old("c"),
        Remark::Broad { secret: name("c"), place },
        Remark::Plain { secret: name("c"), host: "http://127.0.0.1:8080".into() },
    ];
    assert_eq!(audit.remarks, expected);
}

/// Compiles only for a type that has none of these: with one of them, the compiler could not tell which `seen` is meant.
macro_rules! cannot {
    ($type:ty: $($trait:path),*) => {$({
        trait Seen<Which> {
            fn seen() {}
        }
        struct Implements;
        impl<T: ?Sized> Seen<()> for T {}
        impl<T: ?Sized + $trait> Seen<Implements> for T {}
        <$type as Seen<_>>::seen();
    })*};
}

#[test]
fn a_value_cannot_be_printed_copied_or_written_out() {
    use lazaret_store::vault::{Source, Unlock};
    cannot!(Secret: std::fmt::Debug, std::fmt::Display, std::fmt::LowerHex, std::fmt::UpperHex, std::fmt::Pointer);
    cannot!(Secret: serde::Serialize, Clone, ToString, AsRef<[u8]>, AsRef<str>, std::ops::Deref, Into<Vec<u8>>, Into<String>);
    cannot!(Secret: std::hash::Hash, PartialOrd);
    cannot!(Source: std::fmt::Debug, std::fmt::Display, serde::Serialize, Clone);
    cannot!(Unlock: std::fmt::Debug, std::fmt::Display, serde::Serialize, Clone);
    cannot!(Vault: std::fmt::Debug, std::fmt::Display, serde::Serialize, Clone);
    fn shared<T: Send + Sync>() {}
    shared::<Vault>();
    assert!(secret("same") == secret("same"));
    assert!(secret("same") != secret("Same") && secret("same") != secret("sam") && secret("") != secret("x"));
}

#[test]
fn core_dumps_are_off_once_somebody_said_so() {
    const CHILD: &str = "LAZARET_TEST_DUMPS";
    if std::env::var_os(CHILD).is_some() {
        lazaret_store::vault::disable_core_dumps().unwrap();
        let limits = fs::read_to_string("/proc/self/limits").unwrap();
        let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(cores.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"]);
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), rustix::process::DumpableBehavior::NotDumpable);
        return;
    }
    // For the whole process, so in one of its own.
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "core_dumps_are_off_once_somebody_said_so"])
        .env(CHILD, "1")
        .status();
    assert!(child.unwrap().success());
}

//! Master keys: where they come from, which are refused, and what becomes of the vault when they change.
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

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;

use common::dir;
use lazaret_store::vault::{
    Cost, Keychain as _, Kind, Remark, Secret, Source, SystemKeyring, Unlock, Vault, VaultError,
};
use vaults::*;

const FIRST: &str = "correct horse battery staple";
const SECOND: &str = "an entirely different passphrase";

fn by(text: &str) -> Unlock {
    Unlock::Passphrase(secret(text))
}

#[test]
fn a_wrong_passphrase_opens_nothing() {
    let dir = dir();
    set(&Vault::init(dir.path(), &passphrase(FIRST), now).unwrap(), "a", "a good value");
    let vault = Vault::unlock(dir.path(), &by(FIRST), now).unwrap();
    assert_eq!(value(&vault, "a").unwrap(), "a good value");
    let long = "x".repeat(100_000);
    for wrong in ["", "x", "correct horse battery stapl", "Correct horse battery staple", SECOND, &long] {
        let refused = Vault::unlock(dir.path(), &by(wrong), now).map(drop);
        assert_eq!(refused, Err(VaultError::WrongKey { kind: Kind::Passphrase }));
        assert_eq!(refused.unwrap_err().to_string(), "that is not this vault's passphrase");
    }
    let refused = Vault::unlock(dir.path(), &by_key_file(dir.path()), now).map(drop).unwrap_err();
    assert!(
        refused.to_string().starts_with("this vault is unlocked by a passphrase, not by the key file `"),
        "{refused}"
    );
    assert!(vault.audit().unwrap().remarks.contains(&Remark::Cheap));
}

#[test]
fn passphrases_and_costs_have_limits() {
    let dir = dir();
    for bad in ["", "eleven char", "éééééé"] {
        let refused = Vault::init(dir.path(), &passphrase(bad), now).map(drop);
        assert_eq!(refused, Err(VaultError::Passphrase), "{bad}");
    }
    let long = Source::Passphrase { passphrase: Secret::new(vec![b'x'; 1025]), cost: cheap() };
    assert_eq!(Vault::init(dir.path(), &long, now).map(drop), Err(VaultError::Passphrase));
    assert_eq!(Vault::status(dir.path()), Ok(None), "nothing was made");
    for (memory, passes, lanes) in [
        (0, 3, 1),
        (8 << 10, 3, 1),
        (64 << 10, 1, 1),
        (64 << 10, 3, 0),
        (u32::MAX, 3, 1),
        (64 << 10, u32::MAX, 1),
        (64 << 10, 3, 17),
    ] {
        assert_eq!(Cost::new(memory, passes, lanes), Err(VaultError::Cost { memory, passes, lanes }));
    }
    Cost::new(19 << 10, 2, 1).unwrap();
    Cost::new(1 << 20, 64, 16).unwrap();
}

#[test]
fn the_cost_in_the_file_is_checked_before_it_is_paid() {
    let dir = dir();
    drop(Vault::init(dir.path(), &passphrase(FIRST), now).unwrap());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let bytes = fs::read(file(dir.path())).unwrap();
    let head = text(&bytes[..bytes.iter().rposition(|b| *b == b'}').unwrap()]);
    assert!(head.contains("\"memory\":19456"), "{head}");
    for memory in ["1", "4294967295"] {
        let at = bytes.windows(5).position(|part| part == b"19456").unwrap();
        let mut forged = [&bytes[..at], memory.as_bytes(), &bytes[at + 5..bytes.len() - 32]].concat();
        forged.extend_from_slice(&lazaret_gate::Digest::of(&forged).0);
        fs::write(file(dir.path()), &forged).unwrap();
        let refused = Vault::unlock(dir.path(), &by(FIRST), now).map(drop);
        assert!(matches!(refused, Err(VaultError::Cost { .. })), "{refused:?}");
    }
}

#[test]
fn a_key_file_is_made_or_taken_and_nothing_else_will_do() {
    let dir = dir();
    let path = key_path(dir.path());
    let relative = Vault::init(dir.path(), &Source::KeyFile { path: "key".into() }, now).map(drop);
    assert!(matches!(relative, Err(VaultError::KeyFileBad { .. })), "{relative:?}");
    for bad in [vec![7; 31], vec![7; 33], vec![0; 32], vec![7; 1]] {
        fs::write(&path, bad).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let refused = Vault::init(dir.path(), &key_file(dir.path()), now).map(drop);
        assert!(matches!(refused, Err(VaultError::KeyFileBad { .. })), "{refused:?}");
    }
    fs::write(&path, []).unwrap();
    set(&init(dir.path()), "a", "a good value");
    let key = fs::read(&path).unwrap();
    assert_eq!(key.len(), 32, "an empty one, as a crash leaves it, is filled");
    fs::write(&path, [9; 32]).unwrap();
    assert_eq!(unlock(dir.path()).map(drop), Err(VaultError::WrongKey { kind: Kind::KeyFile { path: path.clone() } }));
    fs::remove_file(&path).unwrap();
    assert_eq!(unlock(dir.path()).map(drop), Err(VaultError::KeyFileMissing { path: path.clone() }));
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, key).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
    let moved = Vault::unlock(dir.path(), &Unlock::KeyFile { path: elsewhere }, now).unwrap();
    assert_eq!(value(&moved, "a").unwrap(), "a good value", "a copy of the key is the key");
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap().success());
    assert!(matches!(unlock(dir.path()).map(drop), Err(VaultError::KeyFileBad { .. })));
}

#[test]
fn one_key_file_for_two_vaults_gives_each_its_own_keys() {
    let (one, two) = (dir(), dir());
    let source = key_file(one.path());
    let vaults = [&one, &two].map(|dir| Vault::init(dir.path(), &source, now).unwrap());
    vaults.iter().for_each(|vault| set(vault, "a", "a good value"));
    drop(vaults);
    fs::copy(file(one.path()), file(two.path())).unwrap();
    let moved = Vault::unlock(two.path(), &by_key_file(one.path()), now).unwrap();
    assert_eq!(value(&moved, "a").unwrap(), "a good value", "a vault can be moved whole");
}

#[test]
fn a_keyring_keeps_the_key_and_another_machine_has_none() {
    let dir = dir();
    let (here, there) = (Memory::new(), Memory::new());
    let vault = Vault::init(dir.path(), &Source::Keyring(here.clone()), now).unwrap();
    set(&vault, "a", "a good value");
    let id = vault.facts().unwrap().id;
    let vault = Vault::unlock(dir.path(), &Unlock::Keyring(here.clone()), now).unwrap();
    assert_eq!(value(&vault, "a").unwrap(), "a good value");
    let refused = Vault::unlock(dir.path(), &Unlock::Keyring(there.clone()), now).map(drop);
    assert_eq!(refused, Err(VaultError::KeyringMissing { vault: id.clone() }));
    there.kept.lock().unwrap().insert(format!("{id} 1"), vec![1; 31]);
    let refused = Vault::unlock(dir.path(), &Unlock::Keyring(there.clone()), now).map(drop);
    assert_eq!(refused, Err(VaultError::KeyringBad { vault: id.clone(), len: 31 }));
    there.kept.lock().unwrap().insert(format!("{id} 1"), vec![1; 32]);
    let refused = Vault::unlock(dir.path(), &Unlock::Keyring(there), now).map(drop);
    assert_eq!(refused, Err(VaultError::WrongKey { kind: Kind::Keyring }));
    // From one keyring entry to the next: the old one goes, and a failure changes nothing.
    *here.broken.lock().unwrap() = true;
    assert!(matches!(vault.rotate_master(&Source::Keyring(here.clone())), Err(VaultError::NoKeyring { .. })));
    *here.broken.lock().unwrap() = false;
    vault.rotate_master(&Source::Keyring(here.clone())).unwrap();
    assert_eq!(here.kept.lock().unwrap().keys().cloned().collect::<Vec<_>>(), [format!("{id} 2")]);
    let vault = Vault::unlock(dir.path(), &Unlock::Keyring(here.clone()), now).unwrap();
    // What rotations that were cut off, after the file was written and before, leave behind.
    here.kept.lock().unwrap().extend([1, 3].map(|epoch| (format!("{id} {epoch}"), vec![1; 32])));
    vault.rotate_master(&passphrase(FIRST)).unwrap();
    assert!(here.kept.lock().unwrap().is_empty(), "nothing is left in a keyring that isn't used any more");
    assert_eq!(value(&Vault::unlock(dir.path(), &by(FIRST), now).unwrap(), "a").unwrap(), "a good value");
}

#[test]
fn without_a_session_the_system_keyring_says_so() {
    const CHILD: &str = "LAZARET_TEST_NO_BUS";
    if std::env::var_os(CHILD).is_some() {
        let dir = dir();
        for _ in 0..2 {
            let refused = Vault::init(dir.path(), &Source::Keyring(Arc::new(SystemKeyring)), now).map(drop);
            let Err(VaultError::NoKeyring { why }) = refused else { panic!("{refused:?}") };
            println!("said: {why}");
            assert_eq!(Vault::status(dir.path()), Ok(None), "no vault without its key");
        }
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "without_a_session_the_system_keyring_says_so"])
        .env(CHILD, "1")
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus")
        .env_remove("XDG_RUNTIME_DIR")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("said: "), "{said}{}", String::from_utf8_lossy(&child.stderr));
}

/// `dbus-run-session -- sh -c 'echo x | gnome-keyring-daemon --unlock --components=secrets && cargo test -p lazaret-store
/// --test vault_keys -- --ignored'`
#[test]
#[ignore = "needs a session with a Secret Service"]
fn the_system_keyring_keeps_a_key() {
    let dir = dir();
    let keyring = || Arc::new(SystemKeyring);
    let vault = Vault::init(dir.path(), &Source::Keyring(keyring()), now).unwrap();
    set(&vault, "a", "a good value");
    let id = vault.facts().unwrap().id;
    let vault = Vault::unlock(dir.path(), &Unlock::Keyring(keyring()), now).unwrap();
    assert_eq!(value(&vault, "a").unwrap(), "a good value");
    vault.rotate_master(&Source::Keyring(keyring())).unwrap();
    assert_eq!(SystemKeyring.get(&format!("{id} 1")), Ok(None), "the old one is gone");
    let vault = Vault::unlock(dir.path(), &Unlock::Keyring(keyring()), now).unwrap();
    assert_eq!(value(&vault, "a").unwrap(), "a good value");
    vault.rotate_master(&passphrase(FIRST)).unwrap();
    assert_eq!(SystemKeyring.get(&format!("{id} 2")), Ok(None), "and so is the next");
}

#[test]
fn another_master_key_shuts_the_old_one_out_and_keeps_every_value() {
    let dir = dir();
    let vault = init(dir.path());
    for n in 0..50 {
        set(&vault, &format!("secret-{n}"), &format!("value number {n}"));
    }
    vault.bind(&binding("agent:clerk", "key", "secret-7")).unwrap();
    let (listed, before) = (vault.list().unwrap(), vault.mark().unwrap());
    vault.rotate_master(&passphrase(FIRST)).unwrap();
    assert_eq!(vault.list().unwrap(), listed, "versions and times are of values, not of keys");
    vault.mark().unwrap().follows(&before).unwrap();
    assert!(matches!(unlock(dir.path()).map(drop), Err(VaultError::OtherKind { .. })));
    let vault = Vault::unlock(dir.path(), &by(FIRST), now).unwrap();
    assert_eq!(
        (0..50).filter(|n| value(&vault, &format!("secret-{n}")).unwrap() == format!("value number {n}")).count(),
        50
    );
    assert_eq!(vault.rotate_master(&passphrase(FIRST)), Err(VaultError::SameKey(Kind::Passphrase)));
    vault.rotate_master(&passphrase(SECOND)).unwrap();
    assert_eq!(
        Vault::unlock(dir.path(), &by(FIRST), now).map(drop),
        Err(VaultError::WrongKey { kind: Kind::Passphrase })
    );
    vault.rotate_master(&key_file(dir.path())).unwrap();
    let same = vault.rotate_master(&key_file(dir.path()));
    assert_eq!(same, Err(VaultError::SameKey(Kind::KeyFile { path: key_path(dir.path()) })));
    let vault = unlock(dir.path()).unwrap();
    assert_eq!(vault.facts().unwrap().epoch, 4);
    assert_eq!(vault.audit().unwrap().opened, 50);
}

//! Forgeries that need the vault's own keys: what is inside the seal is checked too.
#![allow(clippy::disallowed_methods, reason = "tests touch the disk")]

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn now() -> u64 {
    1_790_000_000_000
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::new(text.into())
}

/// A vault with two secrets of the same length, and the directory that it is in.
fn vault() -> (tempfile::TempDir, Vault) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let source = Source::KeyFile { path: dir.path().join("key") };
    let vault = Vault::init(dir.path(), &source, now).unwrap();
    vault.set(&name("one"), &Scope::Global, &secret("value number 1")).unwrap();
    vault.set(&name("two"), &Scope::Global, &secret("value number 2")).unwrap();
    (dir, vault)
}

/// Does something to the index under the right keys, and says what reading `one` gives.
fn forged(vault: &Vault, forge: impl FnOnce(&mut Index)) -> Result<Secret, VaultError> {
    vault
        .change(|_, next| {
            forge(&mut next.index);
            Ok(())
        })
        .unwrap();
    vault.get(&name("one"))
}

#[test]
fn an_entry_opens_only_where_it_was_sealed() {
    type Forgery = fn(&mut Index);
    let forgeries: [(&str, Forgery); 6] = [
        ("two entries swapped under their names", |index| {
            let names = [index.entries[0].name.clone(), index.entries[1].name.clone()];
            index.entries.swap(0, 1);
            index.entries.iter_mut().zip(names).for_each(|(entry, name)| entry.name = name);
        }),
        ("another scope", |index| index.entries[0].scope = "agent:mallory".parse().unwrap()),
        ("another version", |index| index.entries[0].version += 1),
        ("another generation", |index| index.entries[0].sealed += 1),
        ("another's data key", |index| {
            let (one, rest) = index.entries.split_at_mut(1);
            one[0].lend_key(&rest[0]);
        }),
        ("another's value", |index| {
            let (one, rest) = index.entries.split_at_mut(1);
            one[0].lend_value(&rest[0]);
        }),
    ];
    for (what, forge) in forgeries {
        let (_dir, vault) = vault();
        match forged(&vault, forge) {
            Err(VaultError::Tampered { .. }) => {}
            Err(why) => panic!("{what}: {why}"),
            Ok(_) => panic!("{what}: it opened"),
        }
        assert!(matches!(vault.audit(), Err(VaultError::Tampered { .. })), "{what}");
    }
}

#[test]
fn an_old_value_is_not_taken_for_the_new_one() {
    let (_dir, vault) = vault();
    let old = vault.hold().index.entries[0].clone();
    vault.rotate(&name("one"), &secret("a new value")).unwrap();
    let replayed = forged(&vault, |index| {
        index.entries[0].lend_key(&old);
        index.entries[0].lend_value(&old);
    });
    assert!(matches!(replayed, Err(VaultError::Tampered { .. })));
    // Nor after it was removed and set again, as version 1 once more.
    vault.remove(&name("one")).unwrap();
    vault.set(&name("one"), &Scope::Global, &secret("another value")).unwrap();
    let replayed = forged(&vault, |index| {
        index.entries[0].lend_key(&old);
        index.entries[0].lend_value(&old);
    });
    assert!(matches!(replayed, Err(VaultError::Tampered { .. })));
}

#[test]
fn an_index_that_we_would_not_write_is_not_read() {
    type Forgery = fn(&mut Index);
    let forgeries: [(&str, Forgery); 3] = [
        ("out of order", |index| index.entries.swap(0, 1)),
        ("twice the same", |index| {
            let entry = index.entries[0].clone();
            index.entries.insert(0, entry);
        }),
        ("a binding without its secret", |index| {
            index.bindings.push(Binding {
                holder: "agent:a".parse().unwrap(),
                slot: name("slot"),
                secret: name("three"),
                hosts: vec!["api.example.org".parse().unwrap()],
                form: Form::Query { name: "key".into() },
                methods: Vec::new(),
                paths: Vec::new(),
            });
        }),
    ];
    for (what, forge) in forgeries {
        let (dir, vault) = vault();
        let _ = forged(&vault, forge);
        let unlock = Unlock::KeyFile { path: dir.path().join("key") };
        let again = Vault::unlock(dir.path(), &unlock, now).map(drop);
        assert!(matches!(again, Err(VaultError::Tampered { .. })), "{what}: {again:?}");
    }
}

#[test]
fn a_full_vault_says_so_and_stays_as_it_is() {
    let (_dir, vault) = vault();
    let before = vault.mark().unwrap();
    let entry = vault.hold().index.entries[0].clone();
    let full = vault.change(|_, next| {
        next.index.entries = vec![entry; crate::limits::MAX_SECRETS + 1];
        Ok(())
    });
    assert_eq!(full, Err(VaultError::Full));
    assert_eq!(vault.mark(), Ok(before));
}

//! Damage and forgery: every cut, every flipped byte and every splice is an error with a name, never another value.
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
use std::path::Path;

use common::dir;
use lazaret_gate::Digest;
use lazaret_store::vault::{Vault, VaultError};
use vaults::*;

/// Makes a vault with some content, and gives the file's bytes.
fn vault(root: &Path) -> Vec<u8> {
    let vault = init(root);
    set(&vault, "one", "value number one");
    set(&vault, "two", "value number two");
    vault.bind(&binding("agent:clerk", "key", "one")).unwrap();
    fs::read(file(root)).unwrap()
}

/// Puts the digest behind bytes that somebody who has no key made.
fn closed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &Digest::of(bytes).0].concat()
}

/// What this file gives: an error with a name. Whatever opens must be what was sealed.
fn refusal(root: &Path, bytes: &[u8]) -> VaultError {
    fs::write(file(root), bytes).unwrap();
    match unlock(root) {
        Err(why) => why,
        Ok(vault) => panic!("it opened: {:?}", vault.list()),
    }
}

#[test]
fn a_cut_at_every_length() {
    let dir = dir();
    let bytes = vault(dir.path());
    for len in 0..bytes.len() {
        let why = refusal(dir.path(), &bytes[..len]);
        assert!(matches!(why, VaultError::Damaged { .. }), "{len}: {why}");
        let status = Vault::status(dir.path());
        assert!(matches!(status, Err(VaultError::Damaged { .. })), "{len}: {status:?}");
        if len == bytes.len() - 32 {
            continue;
        }
        // The same by somebody who knows what the end should look like.
        let why = refusal(dir.path(), &closed(&bytes[..len]));
        assert!(
            matches!(why, VaultError::Damaged { .. } | VaultError::Tampered { .. } | VaultError::Newer { .. }),
            "{len}: {why}"
        );
    }
    let why = refusal(dir.path(), &[&bytes[..], b"x"].concat());
    assert!(matches!(why, VaultError::Damaged { .. }), "{why}");
    fs::write(file(dir.path()), &bytes).unwrap();
    assert_eq!(value(&unlock(dir.path()).unwrap(), "one").unwrap(), "value number one");
    println!("vault: cut at {} lengths, twice each: 0 opened", bytes.len());
}

#[test]
fn every_byte_flipped() {
    let dir = dir();
    let bytes = vault(dir.path());
    let mut named = std::collections::BTreeMap::new();
    let mut count = 0;
    for at in 0..bytes.len() {
        for bits in [0x01, 0x20, 0x80, 0xff] {
            let mut flipped = bytes.clone();
            flipped[at] ^= bits;
            let why = refusal(dir.path(), &flipped);
            assert!(matches!(why, VaultError::Damaged { .. }), "{at}: {why}");
            count += 1;
            if at < bytes.len() - 32 {
                let why = refusal(dir.path(), &closed(&flipped[..bytes.len() - 32]));
                let word = match why {
                    VaultError::Damaged { .. } => "damaged",
                    VaultError::Tampered { .. } => "tampered",
                    VaultError::WrongKey { .. } => "wrong key",
                    VaultError::OtherKind { .. } => "other kind",
                    VaultError::Newer { .. } => "newer",
                    why => panic!("{at}: {why}"),
                };
                *named.entry(word).or_insert(0) += 1;
                count += 1;
            }
        }
    }
    println!("vault: {count} flips of {} bytes: 0 opened; with a new digest: {named:?}", bytes.len());
    assert!(named.contains_key("tampered") && named.contains_key("wrong key"));
}

#[test]
fn parts_of_two_states_dont_make_a_third() {
    let dir = dir();
    let old = vault(dir.path());
    let vault = unlock(dir.path()).unwrap();
    vault.rotate(&name("one"), &secret("another value")).unwrap();
    vault.rotate(&name("two"), &secret("another value")).unwrap();
    let new = fs::read(file(dir.path())).unwrap();
    let split = |bytes: &[u8]| {
        let ends: Vec<usize> =
            bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at).take(2).collect();
        (bytes[..=ends[1]].to_vec(), bytes[ends[1] + 1..bytes.len() - 32].to_vec())
    };
    let ((old_head, old_body), (new_head, new_body)) = (split(&old), split(&new));
    for (head, body) in [(&old_head, &new_body), (&new_head, &old_body)] {
        let why = refusal(dir.path(), &closed(&[head.as_slice(), body].concat()));
        assert!(matches!(why, VaultError::Tampered { .. }), "{why}");
    }
    // A head that claims a later generation.
    let text = String::from_utf8(new_head.clone()).unwrap().replace("\"generation\":6", "\"generation\":9");
    assert_ne!(text.as_bytes(), new_head);
    let why = refusal(dir.path(), &closed(&[text.as_bytes(), &new_body].concat()));
    assert!(matches!(why, VaultError::Tampered { .. }), "{why}");
    // Another vault's body under the same key file.
    let other = common::dir();
    drop(Vault::init(other.path(), &key_file(dir.path()), now).unwrap());
    let (_, body) = split(&fs::read(file(other.path())).unwrap());
    let why = refusal(dir.path(), &closed(&[new_head.as_slice(), &body].concat()));
    assert!(matches!(why, VaultError::Tampered { .. }), "{why}");
}

#[test]
fn what_is_no_vault_is_told_from_one_of_a_later_release() {
    let dir = dir();
    let bytes = vault(dir.path());
    let body = &bytes[b"lazaret-vault/1".len()..bytes.len() - 32];
    let why = refusal(dir.path(), &closed(&[b"lazaret-vault/2", body].concat()));
    assert_eq!(why, VaultError::Newer { found: "lazaret-vault/2".into(), known: "lazaret-vault/1" });
    for text in
        ["", "\n", "{}", "lazaret-vault/1\n", "lazaret-vault/1\n{}\n", "lazaret-vault/1\n\n", "SQLite format 3\n"]
    {
        let why = refusal(dir.path(), &closed(text.as_bytes()));
        assert!(matches!(why, VaultError::Damaged { .. }), "{text:?}: {why}");
    }
    let long = format!("lazaret-vault/1\n{{\"id\":\"{}\"}}\n", "0".repeat(1 << 20));
    assert!(matches!(refusal(dir.path(), &closed(long.as_bytes())), VaultError::Damaged { .. }));
    // Spelled otherwise, with the same meaning.
    let spaced = String::from_utf8_lossy(&bytes[..bytes.len() - 32]).contains("\"epoch\":1");
    assert!(spaced);
    let at = bytes.windows(9).position(|part| part == b"\"epoch\":1").unwrap();
    let respelled = [&bytes[..at + 8], b" ", &bytes[at + 8..bytes.len() - 32]].concat();
    assert!(matches!(refusal(dir.path(), &closed(&respelled)), VaultError::Damaged { .. }));
}

#[test]
fn a_huge_file_is_not_read() {
    let dir = dir();
    drop(init(dir.path()));
    fs::OpenOptions::new().write(true).open(file(dir.path())).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(unlock(dir.path()).map(drop), Err(VaultError::Damaged { .. })));
}

//! What the vault's tests share: names, values, and a keyring in memory.
#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests touch the disk, and stop where they fail")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lazaret_store::vault::{
    Binding, Cost, Form, Holder, Keychain, Name, Scope, Secret, Source, Unlock, Vault, VaultError,
};
use zeroize::Zeroizing;

pub(crate) fn now() -> u64 {
    1_790_000_000_000
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(crate) fn holder(text: &str) -> Holder {
    text.parse().unwrap()
}

pub(crate) fn secret(text: &str) -> Secret {
    Secret::new(text.into())
}

/// The least that is allowed: tests unlock often.
pub(crate) fn cheap() -> Cost {
    Cost::new(19 << 10, 2, 1).unwrap()
}

pub(crate) fn passphrase(text: &str) -> Source {
    Source::Passphrase { passphrase: secret(text), cost: cheap() }
}

pub(crate) fn key_path(root: &Path) -> PathBuf {
    root.join("key")
}

pub(crate) fn key_file(root: &Path) -> Source {
    Source::KeyFile { path: key_path(root) }
}

pub(crate) fn by_key_file(root: &Path) -> Unlock {
    Unlock::KeyFile { path: key_path(root) }
}

/// A vault with a key file beside it.
pub(crate) fn init(root: &Path) -> Vault {
    Vault::init(root, &key_file(root), now).unwrap()
}

pub(crate) fn unlock(root: &Path) -> Result<Vault, VaultError> {
    Vault::unlock(root, &by_key_file(root), now)
}

pub(crate) fn set(vault: &Vault, key: &str, value: &str) {
    vault.set(&name(key), &Scope::Global, &secret(value)).unwrap();
}

/// The value as text, for a comparison whose failure may print it.
pub(crate) fn value(vault: &Vault, key: &str) -> Result<String, VaultError> {
    vault.get(&name(key)).map(|value| String::from_utf8_lossy(value.expose()).into_owned())
}

pub(crate) fn binding(whose: &str, slot: &str, what: &str) -> Binding {
    Binding {
        holder: holder(whose),
        slot: name(slot),
        secret: name(what),
        hosts: vec!["api.example.org".parse().unwrap()],
        form: Form::Header { name: "authorization".into(), prefix: "Bearer ".into() },
        methods: vec!["GET".parse().unwrap()],
        paths: vec!["/v1".parse().unwrap()],
    }
}

pub(crate) fn file(root: &Path) -> PathBuf {
    root.join("vault/secrets.sealed")
}

/// A keyring that forgets when the test ends. `broken`: it answers with an error.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) kept: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(crate) broken: Mutex<bool>,
}

impl Memory {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn check(&self) -> Result<(), VaultError> {
        let broken = *self.broken.lock().unwrap();
        if broken { Err(VaultError::NoKeyring { why: "it is broken".into() }) } else { Ok(()) }
    }
}

impl Keychain for Memory {
    fn get(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, VaultError> {
        self.check()?;
        Ok(self.kept.lock().unwrap().get(name).cloned().map(Zeroizing::new))
    }

    fn set(&self, name: &str, key: &[u8]) -> Result<(), VaultError> {
        self.check()?;
        self.kept.lock().unwrap().insert(name.into(), key.into());
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<(), VaultError> {
        self.check()?;
        self.kept.lock().unwrap().remove(name);
        Ok(())
    }
}

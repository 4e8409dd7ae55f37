//! Where the master key comes from. It is chosen when a vault is made, and said again when it is unlocked.

#![expect(clippy::disallowed_types, reason = "a key file lies where its owner says")]

use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use lazaret_gate::Digest;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use crate::error::StoreError;
use crate::limits::{
    MAX_KDF_LANES, MAX_KDF_MEMORY, MAX_KDF_PASSES, MAX_PASSPHRASE, MIN_KDF_MEMORY, MIN_KDF_PASSES, MIN_PASSPHRASE,
};

use super::disk::{closed_file, sync_parent};
use super::error::VaultError;
use super::keychain::Keychain;
use super::seal::Key;
use super::secret::Secret;

/// What a new master key is made from.
pub enum Source {
    /// Derived from what a person remembers.
    Passphrase {
        /// At least [`MIN_PASSPHRASE`] characters.
        passphrase: Secret,
        /// How much work each attempt is.
        cost: Cost,
    },
    /// 32 bytes in a file that only its owner may read. It is made if there is none.
    KeyFile {
        /// Where. Absolute.
        path: PathBuf,
    },
    /// 32 bytes that the operating system keeps.
    Keyring(Arc<dyn Keychain>),
}

/// What opens a vault.
pub enum Unlock {
    /// The passphrase.
    Passphrase(Secret),
    /// The key file.
    KeyFile {
        /// Where it lies now.
        path: PathBuf,
    },
    /// The keyring.
    Keyring(Arc<dyn Keychain>),
}

/// How a vault is unlocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By a passphrase.
    Passphrase,
    /// By a key file.
    KeyFile {
        /// Where it was when the vault was given this key.
        path: PathBuf,
    },
    /// By the operating system's keyring.
    Keyring,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passphrase => f.write_str("a passphrase"),
            Self::KeyFile { path } => write!(f, "the key file `{}`", path.display()),
            Self::Keyring => f.write_str("the system's keyring"),
        }
    }
}

impl Source {
    /// How a vault with this key is unlocked.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Passphrase { .. } => Kind::Passphrase,
            Self::KeyFile { path } => Kind::KeyFile { path: path.clone() },
            Self::Keyring(_) => Kind::Keyring,
        }
    }

    pub(super) fn keychain(&self) -> Option<Arc<dyn Keychain>> {
        match self {
            Self::Keyring(chain) => Some(Arc::clone(chain)),
            Self::Passphrase { .. } | Self::KeyFile { .. } => None,
        }
    }
}

impl Unlock {
    /// How it unlocks.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Passphrase(_) => Kind::Passphrase,
            Self::KeyFile { path } => Kind::KeyFile { path: path.clone() },
            Self::Keyring(_) => Kind::Keyring,
        }
    }
}

/// How much work and memory one attempt at a passphrase takes (argon2id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    memory: u32,
    passes: u32,
    lanes: u32,
}

impl Default for Cost {
    /// About half a second of one processor: `cargo bench -p lazaret-store --bench vault` says how much it is here.
    fn default() -> Self {
        Self { memory: 128 << 10, passes: 3, lanes: 1 }
    }
}

impl Cost {
    /// Memory in KiB, passes over it, and lanes. What is too little or too much is refused.
    pub fn new(memory: u32, passes: u32, lanes: u32) -> Result<Self, VaultError> {
        Self { memory, passes, lanes }.checked()
    }

    /// Also for what was read from a file that nothing has proved yet.
    pub(super) fn checked(self) -> Result<Self, VaultError> {
        let Self { memory, passes, lanes } = self;
        let lawful = (MIN_KDF_MEMORY..=MAX_KDF_MEMORY).contains(&memory)
            && (MIN_KDF_PASSES..=MAX_KDF_PASSES).contains(&passes)
            && (1..=MAX_KDF_LANES).contains(&lanes);
        if lawful { Ok(self) } else { Err(VaultError::Cost { memory, passes, lanes }) }
    }

    /// Whether an attempt takes less work or less memory.
    pub(super) fn is_less_than(self, other: Self) -> bool {
        let work = |cost: Self| u64::from(cost.memory) * u64::from(cost.passes);
        work(self) < work(other) || self.memory < other.memory
    }

    fn derive(self, passphrase: &Secret, salt: &[u8; 32]) -> Result<Key, VaultError> {
        let Self { memory, passes, lanes } = self.checked()?;
        let unlawful = |_| VaultError::Cost { memory, passes, lanes };
        let params = Params::new(memory, passes, lanes, Some(32)).map_err(unlawful)?;
        let mut blocks: Vec<Block> = Vec::new();
        blocks.try_reserve_exact(params.block_count()).map_err(|_| VaultError::NoMemory { memory })?;
        blocks.resize(params.block_count(), Block::default());
        let mut key = Key::from_slice(&[0; 32]).ok_or(VaultError::Passphrase)?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let derived = argon2.hash_password_into_with_memory(passphrase.expose(), salt, key.room(), &mut blocks);
        // The key can be computed from what is left there.
        blocks.iter_mut().for_each(|block| block.zeroize());
        derived.map_err(unlawful)?;
        Ok(key)
    }
}

/// What the head of a vault says about its master key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Origin {
    Passphrase(Cost),
    KeyFile { path: String },
    Keyring {},
}

impl Origin {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Passphrase(_) => Kind::Passphrase,
            Self::KeyFile { path } => Kind::KeyFile { path: path.into() },
            Self::Keyring {} => Kind::Keyring,
        }
    }
}

/// One master key among all that there were: which vault, the how manieth, and what makes its keys its own.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) id: &'a str,
    pub(super) epoch: u64,
    pub(super) salt: &'a [u8; 32],
}

impl Place<'_> {
    /// What the key is called in a keyring.
    pub(super) fn account(&self) -> String {
        account(self.id, self.epoch)
    }
}

pub(super) fn account(id: &str, epoch: u64) -> String {
    format!("{id} {epoch}")
}

impl Source {
    /// Makes the key, keeps it where it is to be kept, and says what the head of the vault must say about it.
    pub(super) fn make(&self, place: Place<'_>) -> Result<(Key, Origin), VaultError> {
        match self {
            Self::Passphrase { passphrase, cost } => {
                let letters = String::from_utf8_lossy(passphrase.expose()).chars().count();
                if letters < MIN_PASSPHRASE || passphrase.len() > MAX_PASSPHRASE {
                    return Err(VaultError::Passphrase);
                }
                Ok((cost.derive(passphrase, place.salt)?, Origin::Passphrase(*cost)))
            }
            Self::KeyFile { path } => {
                let name = nameable(path)?;
                let key = match read_key_file(path) {
                    Err(VaultError::KeyFileMissing { .. }) => make_key_file(path)?,
                    found => found?,
                };
                Ok((key, Origin::KeyFile { path: name }))
            }
            Self::Keyring(chain) => {
                let key = Key::random()?;
                chain.set(&place.account(), key.bytes())?;
                Ok((key, Origin::Keyring {}))
            }
        }
    }

    /// The key that this source would give for a vault as it is now; none if that vault has another kind.
    pub(super) fn present(&self, origin: &Origin, place: Place<'_>) -> Result<Option<Key>, VaultError> {
        match (self, origin) {
            (Self::Passphrase { passphrase, .. }, Origin::Passphrase(cost)) => {
                cost.derive(passphrase, place.salt).map(Some)
            }
            (Self::KeyFile { path }, Origin::KeyFile { .. }) => match read_key_file(path) {
                Err(VaultError::KeyFileMissing { .. }) => Ok(None),
                found => found.map(Some),
            },
            // A keyring gives a new one each time.
            _ => Ok(None),
        }
    }
}

impl Unlock {
    /// The key, from where it is kept.
    pub(super) fn key(&self, origin: &Origin, place: Place<'_>) -> Result<Key, VaultError> {
        match (self, origin) {
            (Self::Passphrase(passphrase), Origin::Passphrase(cost)) => {
                if passphrase.len() > MAX_PASSPHRASE {
                    return Err(VaultError::WrongKey { kind: Kind::Passphrase });
                }
                cost.derive(passphrase, place.salt)
            }
            (Self::KeyFile { path }, Origin::KeyFile { .. }) => read_key_file(path),
            (Self::Keyring(chain), Origin::Keyring {}) => {
                let vault = || place.id.to_owned();
                let kept = chain.get(&place.account())?;
                let kept = kept.ok_or_else(|| VaultError::KeyringMissing { vault: vault() })?;
                Key::from_slice(&kept).ok_or_else(|| VaultError::KeyringBad { vault: vault(), len: kept.len() })
            }
            _ => Err(VaultError::OtherKind { vault: origin.kind(), given: self.kind() }),
        }
    }

    pub(super) fn keychain(&self) -> Option<Arc<dyn Keychain>> {
        match self {
            Self::Keyring(chain) => Some(Arc::clone(chain)),
            Self::Passphrase(_) | Self::KeyFile { .. } => None,
        }
    }
}

/// A path that can be written into the head of a vault and found again from anywhere.
fn nameable(path: &Path) -> Result<String, VaultError> {
    const LONGEST: usize = 4_096;
    let bad = |why: &str| VaultError::KeyFileBad { path: path.to_owned(), why: why.to_owned() };
    let text = path.to_str().ok_or_else(|| bad("its path is not UTF-8"))?;
    if !path.is_absolute() {
        return Err(bad("its path must be absolute, so that it is found from anywhere"));
    }
    if text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(bad("its path is too long or has control characters"));
    }
    Ok(text.to_owned())
}

fn read_key_file(path: &Path) -> Result<Key, VaultError> {
    let bad = |why: String| VaultError::KeyFileBad { path: path.to_owned(), why };
    // A pipe would wait for ever.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => {
            return Err(VaultError::KeyFileMissing { path: path.to_owned() });
        }
        Err(why) => return Err(StoreError::io("opening", path, &why).into()),
    };
    closed_file(&file, path).map_err(|why| match why {
        VaultError::Damaged { why, .. } => bad(why),
        why => why,
    })?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(64));
    let read = file.take(33).read_to_end(&mut bytes);
    read.map_err(|why| StoreError::io("reading", path, &why))?;
    let key = Key::from_slice(&bytes).ok_or_else(|| match bytes.len() {
        0 => VaultError::KeyFileMissing { path: path.to_owned() },
        33 => bad("it is longer than 32 bytes".to_owned()),
        len => bad(format!("it has {len} bytes, not 32")),
    })?;
    // What some file systems leave of a file that was being written when the power went.
    if key.is(&[0; 32]) { Err(bad("it is all zeros".to_owned())) } else { Ok(key) }
}

/// An empty file, which a crash may have left here, counts as none.
fn make_key_file(path: &Path) -> Result<Key, VaultError> {
    let failed = |why: std::io::Error| StoreError::io("writing", path, &why);
    let key = Key::random()?;
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    closed_file(&file, path)?;
    file.write_all(key.bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    sync_parent(path)?;
    // Two who make one file at the same moment would each believe in their own.
    let written = read_key_file(path)?;
    let same = written.is(key.bytes());
    if same { Ok(key) } else { Err(VaultError::Busy) }
}

/// The keys that a vault is worked with, from what the source gave.
pub(super) struct Keys {
    /// Wraps the data keys.
    pub(super) wrap: Key,
    /// Seals the index.
    pub(super) index: Key,
    /// Says whether this is the right master key, and nothing about it.
    pub(super) check: Digest,
}

impl Keys {
    pub(super) fn new(master: &Key, place: Place<'_>) -> Self {
        let mut of = place.salt.to_vec();
        of.extend_from_slice(&place.epoch.to_le_bytes());
        of.extend_from_slice(place.id.as_bytes());
        Self {
            wrap: master.derive("lazaret 2026-11 vault: wrap data keys", &of),
            index: master.derive("lazaret 2026-11 vault: seal the index", &of),
            check: Digest(*master.derive("lazaret 2026-11 vault: check the master key", &of).bytes()),
        }
    }
}

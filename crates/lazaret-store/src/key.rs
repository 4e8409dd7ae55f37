//! The host's key: 32 bytes from which everything that proves this host is derived.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the key lies in the data root")]

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use ed25519_dalek::SigningKey;
use lazaret_gate::checkpoint::Verifier;

use crate::error::StoreError;
use crate::root::{Root, closed_to_others};

/// Signs checkpoints, and gives other parts secrets of their own.
pub(crate) struct HostKey {
    signing: SigningKey,
    verifier: Verifier,
}

impl HostKey {
    fn from_seed(seed: &[u8; 32]) -> Self {
        let signing = SigningKey::from_bytes(seed);
        Self { verifier: Verifier::of_host(signing.verifying_key()), signing }
    }

    /// Reads the key; `None` if there is none.
    pub(crate) fn read(root: &Root) -> Result<Option<Self>, StoreError> {
        let path = root.key();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(StoreError::io("opening", &path, &why)),
        };
        let mut seed = Vec::with_capacity(33);
        file.take(33).read_to_end(&mut seed).map_err(|why| StoreError::io("reading", &path, &why))?;
        let seed: [u8; 32] = seed.as_slice().try_into().map_err(|_| StoreError::KeyBad {
            path,
            why: match seed.len() {
                33 => "it is longer than 32 bytes".to_owned(),
                len => format!("it has {len} bytes, not 32"),
            },
        })?;
        Ok(Some(Self::from_seed(&seed)))
    }

    /// Reads the key, insisting that nobody else can, or makes one if nothing was ever signed.
    pub(crate) fn read_or_make(root: &Root, journal_is_empty: bool) -> Result<Self, StoreError> {
        match Self::read(root)? {
            Some(key) => {
                closed_to_others(&root.key())?;
                Ok(key)
            }
            None if journal_is_empty => Self::make(root),
            None => Err(StoreError::KeyMissing { path: root.key() }),
        }
    }

    /// Written aside and renamed, so that a crash leaves a whole key or none.
    fn make(root: &Root) -> Result<Self, StoreError> {
        let path = root.key();
        let failed = |why: std::io::Error| StoreError::io("writing", &path, &why);
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|why| StoreError::Io { what: "drawing random bytes".into(), why: why.to_string() })?;
        let aside = path.with_extension("key.new");
        // The lock is held, so one that is there already was left by a crash.
        match fs::remove_file(&aside) {
            Err(why) if why.kind() != ErrorKind::NotFound => return Err(failed(why)),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside).map_err(failed)?;
        file.write_all(&seed).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&aside, &path).map_err(failed)?;
        root.sync()?;
        Ok(Self::from_seed(&seed))
    }

    pub(crate) fn signing(&self) -> &SigningKey {
        &self.signing
    }

    pub(crate) fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// What closes the redo log's frames.
    pub(crate) fn of_the_log(&self) -> [u8; 32] {
        self.secret("redo log")
    }

    /// A secret for one purpose, from which neither the key nor another purpose's secret can be computed.
    pub(crate) fn secret(&self, purpose: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("lazaret 2026-11 host key to secret");
        hasher.update(self.signing.as_bytes());
        hasher.update(purpose.as_bytes());
        *hasher.finalize().as_bytes()
    }
}

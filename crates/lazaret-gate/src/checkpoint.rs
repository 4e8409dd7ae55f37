//! Signed checkpoints: the journal's size and root, in the C2SP signed-note form that transparency logs use.
//!
//! ```text
//! lazaret.invalid/3f9c2a10d4e6b788
//! 42
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
//!
//! — lazaret.invalid/3f9c2a10d4e6b788 Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use crate::merkle::Hash;

/// The C2SP signature type of Ed25519.
const ED25519: u8 = 1;

/// Whoever can check a journal's signatures: a name and an Ed25519 key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    name: String,
    key: VerifyingKey,
}

/// A checkpoint's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Entries covered.
    pub size: u64,
    /// Merkle root over them.
    pub root: Hash,
}

/// A checkpoint or key that can't be believed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadCheckpoint {
    /// Not a verifier key.
    #[error("`{0}` is not a verifier key (name+hash+base64)")]
    Key(String),
    /// Not a signed note of the expected shape.
    #[error("the checkpoint is not a signed note: {0}")]
    Form(&'static str),
    /// Another log's.
    #[error("the checkpoint is of `{found}`, not of `{expected}`")]
    Origin {
        /// Whose it is.
        found: String,
        /// Whose it should be.
        expected: String,
    },
    /// The signature is wrong.
    #[error("the checkpoint's signature is wrong")]
    Signature,
}

/// Whether the y coordinate is below the field's prime 2^255 - 19. Libraries differ on those that aren't, so there is one
/// spelling of each key.
fn is_reduced(key: &[u8; 32]) -> bool {
    key[0] < 0xed || key[1..31].iter().any(|byte| *byte != 0xff) || key[31] & 0x7f != 0x7f
}

impl Verifier {
    /// The verifier of a host: its name is made of its key.
    pub fn of_host(key: VerifyingKey) -> Self {
        let id = blake3::hash(key.as_bytes()).to_hex();
        Self { name: format!("lazaret.invalid/{}", &id[..16]), key }
    }

    /// The log's name, the first line of its checkpoints.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn key_hash(&self) -> [u8; 4] {
        let mut hash = Sha256::new();
        hash.update(self.name.as_bytes());
        hash.update([b'\n', ED25519]);
        hash.update(self.key.as_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// As a C2SP verifier key: `name+hash+base64`.
    pub fn to_text(&self) -> String {
        let mut key = vec![ED25519];
        key.extend_from_slice(self.key.as_bytes());
        format!("{}+{:08x}+{}", self.name, u32::from_be_bytes(self.key_hash()), STANDARD.encode(key))
    }

    /// Reads a C2SP verifier key in the one spelling that [`Verifier::to_text`] gives.
    pub fn parse(text: &str) -> Result<Self, BadCheckpoint> {
        let bad = || BadCheckpoint::Key(text.chars().take(200).collect());
        let mut parts = text.splitn(3, '+');
        let name = parts.next().ok_or_else(bad)?;
        let key = STANDARD.decode(parts.nth(1).ok_or_else(bad)?).map_err(|_| bad())?;
        let key: [u8; 33] = key.try_into().map_err(|_| bad())?;
        let (kind, key) = key.split_first_chunk::<1>().ok_or_else(bad)?;
        let key: [u8; 32] = key.try_into().map_err(|_| bad())?;
        if !is_reduced(&key) {
            return Err(bad());
        }
        let key = VerifyingKey::from_bytes(&key).map_err(|_| bad())?;
        let verifier = Self { name: name.to_owned(), key };
        let well_formed = kind == &[ED25519] && !name.is_empty() && !name.contains(char::is_whitespace);
        if well_formed && verifier.to_text() == text { Ok(verifier) } else { Err(bad()) }
    }

    /// Signs a checkpoint. The key must be the verifier's own.
    pub fn sign(&self, checkpoint: &Checkpoint, key: &SigningKey) -> String {
        let text = self.note_text(checkpoint);
        let mut signature = self.key_hash().to_vec();
        signature.extend_from_slice(&key.sign(text.as_bytes()).to_bytes());
        format!("{text}\n— {} {}\n", self.name, STANDARD.encode(signature))
    }

    fn note_text(&self, checkpoint: &Checkpoint) -> String {
        format!("{}\n{}\n{}\n", self.name, checkpoint.size, STANDARD.encode(checkpoint.root))
    }

    /// Checks a note's form, origin and signature. Exactly one signature, no extension lines: what isn't checked
    /// isn't carried.
    pub fn check(&self, note: &str) -> Result<Checkpoint, BadCheckpoint> {
        let form = BadCheckpoint::Form;
        let (text, signatures) = note.split_once("\n\n").ok_or(form("no blank line before the signature"))?;
        let mut lines = text.split('\n');
        let origin = lines.next().unwrap_or_default();
        if origin != self.name {
            let found = origin.chars().take(200).collect();
            return Err(BadCheckpoint::Origin { found, expected: self.name.clone() });
        }
        let size = lines.next().ok_or(form("no size"))?;
        let root = lines.next().ok_or(form("no root"))?;
        let size = size.parse().map_err(|_| form("the size is not a number"))?;
        let root =
            STANDARD.decode(root).ok().and_then(|root| root.try_into().ok()).ok_or(form("the root is not a hash"))?;
        let checkpoint = Checkpoint { size, root };
        let text = self.note_text(&checkpoint);
        let line =
            signatures.strip_prefix("— ").and_then(|line| line.strip_suffix('\n')).ok_or(form("no signature"))?;
        let (name, signature) = line.split_once(' ').ok_or(form("no signature"))?;
        let signature = STANDARD.decode(signature).map_err(|_| form("the signature is not base64"))?;
        let (hash, signature) = signature.split_first_chunk::<4>().ok_or(form("the signature is cut short"))?;
        let signature: [u8; 64] = signature.try_into().map_err(|_| form("the signature has another length"))?;
        let verified = self.key.verify_strict(text.as_bytes(), &Signature::from_bytes(&signature)).is_ok();
        // What was signed is re-written from what was read, and must be all that stands before the signature: no second
        // spelling and no extension line can pass.
        let whole = note.strip_prefix(&text).and_then(|rest| rest.strip_prefix('\n')) == Some(signatures);
        if verified && whole && name == self.name && *hash == self.key_hash() {
            Ok(checkpoint)
        } else {
            Err(BadCheckpoint::Signature)
        }
    }
}

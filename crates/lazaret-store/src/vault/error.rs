//! What can go wrong with a vault. No message has a value in it, and none has a passphrase.

use std::path::PathBuf;

use crate::error::StoreError;
use crate::limits::{
    MAX_BINDINGS, MAX_KDF_LANES, MAX_KDF_MEMORY, MAX_KDF_PASSES, MAX_PASSPHRASE, MAX_SECRET, MAX_SECRETS, MAX_VAULT,
    MIN_KDF_MEMORY, MIN_KDF_PASSES, MIN_PASSPHRASE, MIN_SECRET,
};

use super::binding::BadBinding;
use super::name::{BadName, Name};
use super::source::Kind;

/// Why the vault didn't do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The data root or the disk.
    #[error(transparent)]
    Disk(#[from] StoreError),
    /// No vault yet.
    #[error("there is no vault in `{}`; `lazaret vault init` makes one", path.display())]
    Missing {
        /// The data root.
        path: PathBuf,
    },
    /// One is enough.
    #[error("there is a vault at `{}` already; to give it another master key, use `lazaret vault rotate-master`", path.display())]
    Exists {
        /// Its file.
        path: PathBuf,
    },
    /// Another process writes, and goes on doing so.
    #[error("another process is writing the vault; wait for it to end, or stop it")]
    Busy,
    /// Bits fell over, or the file was cut. Nothing in it is believed.
    #[error("`{}` is damaged: {why}; restore it from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that is seen.
        why: String,
    },
    /// It is whole and the key fits, but somebody else wrote it.
    #[error("`{}` was changed by something else than this vault's key: {why}; restore it from a backup", path.display())]
    Tampered {
        /// The file.
        path: PathBuf,
        /// What doesn't fit.
        why: String,
    },
    /// Made by a later release.
    #[error(
        "the vault has format `{found}`, and this release knows `{known}`; use the release that wrote it, or a later one"
    )]
    Newer {
        /// Its format.
        found: String,
        /// The one that is known here.
        known: &'static str,
    },
    /// The vault is older than what is on record.
    #[error(
        "the vault is at generation {found}, but generation {known} is on record: an older copy was put in its place; restore the newest one"
    )]
    RolledBack {
        /// Its generation.
        found: u64,
        /// The one on record.
        known: u64,
    },
    /// The same count, and another content.
    #[error(
        "the vault at generation {generation} is not the one that is on record; restore the one with digest {known}"
    )]
    Forked {
        /// Its generation.
        generation: u64,
        /// The digest on record.
        known: lazaret_gate::Digest,
    },
    /// The passphrase, key file or keyring entry isn't the one of this vault.
    #[error("{}", wrong_key(kind))]
    WrongKey {
        /// What the key came from.
        kind: Kind,
    },
    /// It was unlocked in another way than it was made.
    #[error("this vault is unlocked by {vault}, not by {given}")]
    OtherKind {
        /// How it was made.
        vault: Kind,
        /// How somebody tried.
        given: Kind,
    },
    /// Another process gave it another master key.
    #[error("the vault's master key was rotated meanwhile; unlock it again with the new one")]
    Rotated,
    /// Rotating to what it was is no rotation.
    #[error("{0} has the vault's present master key; rotating needs another one")]
    SameKey(Kind),
    /// Too easy to find by trying.
    #[error(
        "a passphrase has at least {MIN_PASSPHRASE} characters and at most {MAX_PASSPHRASE} bytes; six random words are a good one"
    )]
    Passphrase,
    /// Too little work for somebody who tries, or more than can be asked of a machine.
    #[error(
        "deriving a key can't cost {memory} KiB, {passes} passes and {lanes} lanes; allowed are {MIN_KDF_MEMORY} to {MAX_KDF_MEMORY} KiB, {MIN_KDF_PASSES} to {MAX_KDF_PASSES} passes and 1 to {MAX_KDF_LANES} lanes"
    )]
    Cost {
        /// KiB.
        memory: u32,
        /// Passes.
        passes: u32,
        /// Lanes.
        lanes: u32,
    },
    /// The memory that deriving needs isn't there.
    #[error("deriving the key needs {memory} KiB of memory, and this machine did not give it; free some and try again")]
    NoMemory {
        /// KiB.
        memory: u32,
    },
    /// No such key file.
    #[error("there is no key file at `{}`; put it back from a backup: without it the vault can't be opened", path.display())]
    KeyFileMissing {
        /// Where.
        path: PathBuf,
    },
    /// Not a key.
    #[error("`{}` can't be a key file: {why}", path.display())]
    KeyFileBad {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The keyring can't be reached.
    #[error(
        "the system's keyring can't be used: {why}; log in to a session that has one (on Linux, a Secret Service on the session bus), or make the vault with a passphrase or a key file"
    )]
    NoKeyring {
        /// What it said.
        why: String,
    },
    /// The keyring has nothing for this vault.
    #[error(
        "the system's keyring has no key for vault {vault}: it was made on another machine or by another user; unlock it there, and rotate its master key to a passphrase before you move it"
    )]
    KeyringMissing {
        /// Which vault.
        vault: String,
    },
    /// What the keyring has is no key.
    #[error(
        "what the system's keyring keeps for vault {vault} has {len} bytes, and a key has 32; something else wrote it"
    )]
    KeyringBad {
        /// Which vault.
        vault: String,
        /// How long it is.
        len: usize,
    },
    /// No random bytes.
    #[error("the system gives no random bytes: {why}")]
    Random {
        /// What it said.
        why: String,
    },
    /// The value couldn't be read.
    #[error("reading the value failed: {why}")]
    Unread {
        /// What the system said.
        why: String,
    },
    /// A value that would be found everywhere.
    #[error(
        "a secret has at least {MIN_SECRET} bytes: a shorter one can't be told from other text when it has to be found and taken out"
    )]
    ValueShort,
    /// A value that isn't a credential.
    #[error("a secret has at most {MAX_SECRET} bytes")]
    ValueLong,
    /// A value that can't be sent as it is bound.
    #[error(
        "`{secret}` is bound to a header, and a header holds printable ASCII without spaces at its ends; the value has something else in it (often a line break)"
    )]
    NotForHeader {
        /// Which.
        secret: Name,
    },
    /// Not a name.
    #[error(transparent)]
    Name(#[from] BadName),
    /// Not a binding.
    #[error(transparent)]
    Binding(#[from] BadBinding),
    /// No such secret.
    #[error("there is no secret `{secret}`; `lazaret secret list` shows those there are")]
    NoSuchSecret {
        /// Which.
        secret: Name,
    },
    /// A secret keeps its scope.
    #[error("`{secret}` has scope {scope}, which a new value can't change; remove it first, or use another name")]
    OtherScope {
        /// Which.
        secret: Name,
        /// Its scope.
        scope: String,
    },
    /// The holder is outside of the secret's scope.
    #[error(
        "`{secret}` has scope {scope}, so it can't be bound to {holder}; set it under another name with a wider scope"
    )]
    OutOfScope {
        /// Which.
        secret: Name,
        /// Its scope.
        scope: String,
        /// Whose it was to be.
        holder: String,
    },
    /// Something depends on it.
    #[error("`{secret}` is bound to {}; unbind it first", holders.join(", "))]
    StillBound {
        /// Which.
        secret: Name,
        /// Slots, as people write them.
        holders: Vec<String>,
    },
    /// Nothing is bound there.
    #[error("nothing is bound to slot `{slot}` of {holder}")]
    NotBound {
        /// Whose.
        holder: String,
        /// Which.
        slot: Name,
    },
    /// No room.
    #[error(
        "a vault holds at most {MAX_SECRETS} secrets, {MAX_BINDINGS} bindings and {MAX_VAULT} bytes; remove what isn't used"
    )]
    Full,
}

/// What to say about a key that doesn't fit.
fn wrong_key(kind: &Kind) -> String {
    match kind {
        Kind::Passphrase => "that is not this vault's passphrase".to_owned(),
        Kind::KeyFile { path } => {
            format!(
                "the key file is not the one that this vault was made with; it expects a copy of `{}`",
                path.display()
            )
        }
        Kind::Keyring => "the key in the system's keyring is not this vault's; something else wrote it".to_owned(),
    }
}

impl VaultError {
    pub(super) fn random(why: getrandom::Error) -> Self {
        Self::Random { why: why.to_string() }
    }
}

//! What happened to a vault, as the journal tells it: everything but values.

use serde::{Deserialize, Serialize};

use crate::canonical::Digest;

/// A vault was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VaultChanged {
    /// How.
    pub what: VaultChange,
    /// The vault's own id: another one in its place is another vault.
    pub vault: String,
    /// The secret's name.
    pub name: Option<String>,
    /// Whose slot: `agent:NAME` or `app:NAME`.
    pub holder: Option<String>,
    /// Which slot.
    pub slot: Option<String>,
    /// Where the secret may go from that slot.
    pub hosts: Vec<String>,
    /// The secret's version now.
    pub version: Option<u64>,
    /// One more with every write of the vault.
    pub generation: u64,
    /// Of the vault's file, sealed as it is.
    pub digest: Digest,
    /// Who did it.
    pub by: String,
}

/// What was done to a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VaultChange {
    /// It was made.
    Init,
    /// A secret was set.
    Set,
    /// A secret has another value.
    Rotate,
    /// A secret is gone.
    Remove,
    /// A slot is filled.
    Bind,
    /// A slot is empty.
    Unbind,
    /// It has another master key.
    RotateMaster,
    /// It was written by this vault's key, and nobody said so: the power went in between, or a copy was written elsewhere.
    Found,
}

impl VaultChange {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "made",
            Self::Set => "set",
            Self::Rotate => "rotated",
            Self::Remove => "removed",
            Self::Bind => "bound",
            Self::Unbind => "unbound",
            Self::RotateMaster => "master key rotated",
            Self::Found => "found changed",
        }
    }
}

//! What can be asked about secrets. Answers never have a value in them: no reply has a field for one.

use serde::{Deserialize, Serialize};

use crate::hidden::Hidden;

/// About the vault as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum VaultRequest {
    /// How it stands.
    Status,
    /// Make one.
    Init {
        /// Where its master key comes from.
        source: KeySource,
        /// Who does it.
        by: String,
    },
    /// Forget the keys.
    Lock,
    /// Have the keys at hand.
    Unlock {
        /// Its passphrase; none if its key lies in a file or a keyring.
        passphrase: Option<Hidden>,
    },
    /// Give it another master key.
    RotateMaster {
        /// Where that one comes from.
        source: KeySource,
        /// Who does it.
        by: String,
    },
}

/// Where a new master key comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum KeySource {
    /// What a person remembers.
    Passphrase(Hidden),
    /// A file, by its absolute path; it is made if there is none.
    KeyFile(String),
    /// The operating system's keyring.
    Keyring,
}

/// About single secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SecretRequest {
    /// Keep a value under a name, in place of what was there.
    Set {
        /// Its name.
        name: String,
        /// `global`, `app:NAME`, `agent:NAME` or `device:NAME`; none is what it has, or global.
        #[serde(default)]
        scope: Option<String>,
        /// The value.
        value: Hidden,
        /// Who does it.
        by: String,
    },
    /// Replace the value of one that there is.
    Rotate {
        /// Which.
        name: String,
        /// The new value.
        value: Hidden,
        /// Who does it.
        by: String,
    },
    /// All there are.
    List,
    /// One.
    Show {
        /// Which.
        name: String,
    },
    /// Fill a slot.
    Bind {
        /// With what, and where it may go.
        binding: Box<Bound>,
        /// Who does it.
        by: String,
    },
    /// Empty a slot.
    Unbind {
        /// Whose: `agent:NAME` or `app:NAME`.
        holder: String,
        /// Which.
        slot: String,
        /// Who does it.
        by: String,
    },
    /// Forget one.
    Remove {
        /// Which.
        name: String,
        /// Who does it.
        by: String,
    },
    /// Open everything once and say what could be better.
    Audit,
    /// Which slots an agent declares, and whether they are bound.
    Slots {
        /// Whose.
        agent: lazaret_gate::AgentId,
    },
}

/// Where a secret may go from a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Whose slot: `agent:NAME` or `app:NAME`.
    pub holder: String,
    /// Which slot.
    pub slot: String,
    /// The secret's name.
    pub secret: String,
    /// `HOST` or `HOST:PORT`, or a loopback address with `http://` before it.
    pub hosts: Vec<String>,
    /// How it stands in a request.
    pub form: BoundForm,
    /// The only methods; none means any.
    #[serde(default)]
    pub methods: Vec<String>,
    /// What paths begin with; none means any.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// How a secret stands in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum BoundForm {
    /// In a header.
    Header {
        /// Which, in lower case.
        name: String,
        /// What stands before it there.
        #[serde(default)]
        prefix: String,
    },
    /// In the query.
    Query {
        /// The parameter.
        name: String,
    },
    /// As the password of basic authentication.
    Basic {
        /// The user.
        user: String,
    },
}

impl VaultRequest {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Status => "vault.status",
            Self::Init { .. } => "vault.init",
            Self::Lock => "vault.lock",
            Self::Unlock { .. } => "vault.unlock",
            Self::RotateMaster { .. } => "vault.rotate-master",
        }
    }
}

impl SecretRequest {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Set { .. } => "secret.set",
            Self::Rotate { .. } => "secret.rotate",
            Self::List => "secret.list",
            Self::Show { .. } => "secret.show",
            Self::Bind { .. } => "secret.bind",
            Self::Unbind { .. } => "secret.unbind",
            Self::Remove { .. } => "secret.remove",
            Self::Audit => "secret.audit",
            Self::Slots { .. } => "secret.slots",
        }
    }
}

/// A vault as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VaultView {
    /// Its own, for ever.
    pub id: String,
    /// `passphrase`, `key-file` or `keyring`.
    pub kind: String,
    /// Where the key file was when the vault was given this key.
    pub key_file: Option<String>,
    /// Whether the process that answers has the keys.
    pub unlocked: bool,
    /// How many master keys it has had.
    pub epoch: u64,
    /// One more with every write.
    pub generation: u64,
    /// Of the sealed file.
    pub digest: lazaret_gate::Digest,
    /// How many secrets it holds.
    pub secrets: u64,
    /// How many slots they fill.
    pub bindings: u64,
}

/// What there is to know of a secret but its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretView {
    /// Its name.
    pub name: String,
    /// How far it reaches.
    pub scope: String,
    /// 1, and one more with every new value.
    pub version: u64,
    /// When it was first set, in milliseconds since 1970, UTC.
    pub created: u64,
    /// When its value was last set.
    pub rotated: u64,
    /// It has at most so many bytes. How many exactly isn't said.
    pub at_most: u64,
    /// The slots that it fills.
    pub bindings: Vec<Bound>,
}

/// What opening everything once said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretAudit {
    /// The vault.
    pub vault: VaultView,
    /// Values that were opened and are what was sealed: all of them.
    pub opened: u64,
    /// What isn't wrong, and could be better.
    pub remarks: Vec<String>,
    /// How often each slot was used, as the journal has it.
    pub uses: Vec<SlotUses>,
    /// Required slots that nothing is bound to: their agents take no turn.
    #[serde(default)]
    pub unbound: Vec<SlotWanted>,
}

/// A required slot that nothing is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotWanted {
    /// Which agent.
    pub agent: String,
    /// Which slot.
    pub slot: String,
    /// What it is for, as the agent's author says.
    pub purpose: String,
}

/// A slot that an agent's author declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotView {
    /// Which.
    pub slot: String,
    /// What it is for, as the author says.
    pub purpose: String,
    /// The only hosts that it is meant for; none if the author names none.
    pub hosts: Vec<String>,
    /// Whether no turn begins without it.
    pub required: bool,
    /// Whether a secret is bound to it that may go to one of these hosts; none if that can't be told.
    pub bound: Option<bool>,
    /// Why it can't be told.
    pub unknown: Option<String>,
}

/// How often an agent used a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotUses {
    /// Which agent.
    pub agent: String,
    /// Which slot.
    pub slot: String,
    /// Uses that were let pass.
    pub uses: u64,
    /// Uses that were refused.
    pub refused: u64,
    /// When it last asked, in milliseconds since 1970.
    pub last: u64,
}

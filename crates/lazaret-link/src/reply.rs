//! How a keeper answers.

use lazaret_gate::ledger::{Caps, Switches};
use lazaret_gate::record::{Divergence, World};
use lazaret_gate::{AgentId, Budget, Bytes, Digest, Grants, Labels, Rulings, Slots, TurnRecord};
use serde::{Deserialize, Serialize};

use crate::vault::{SecretAudit, SecretView, SlotView, VaultView};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Somebody is there.
    Pong,
    /// How the keeper is.
    Health(Health),
    /// The language that is spoken from here on.
    Hello {
        /// Its version.
        version: u32,
        /// Who speaks.
        program: String,
    },
    /// It is done, and there is no more to say.
    Done,
    /// What is going on.
    Status(Box<Status>),
    /// What is wrong with the operator's files.
    Problems(Vec<String>),
    /// An agent.
    Agent(Box<AgentView>),
    /// Agents.
    Agents(Vec<AgentView>),
    /// A turn that is on record.
    Taken(Box<Taken>),
    /// An agent that was made from another.
    Forked {
        /// After which of its turns; 0 is before the first.
        turn: u64,
        /// Hash of the entry that says what it was like then.
        entry: Digest,
    },
    /// Whether there was anything of it in memory.
    LetGo(bool),
    /// A message is on disk.
    Posted {
        /// Its number.
        message: u64,
    },
    /// A schedule was made.
    Scheduled {
        /// When it is due first, in milliseconds since 1970, UTC; none if never.
        next: Option<u64>,
    },
    /// Turns that answered what was in mailboxes.
    Delivered(Vec<Taken>),
    /// What became of turns that were cut off.
    Recovered(Box<Recovered>),
    /// What an agent may spend now.
    Caps(Box<Caps>),
    /// How the kill switches stand now.
    Switches(Switches),
    /// The newest signed checkpoint.
    Checkpoint(Checkpoint),
    /// A bundle.
    Bundle(Bytes),
    /// Records, each with its place in the journal.
    Turns(Vec<(u64, TurnRecord)>),
    /// What running them again said.
    Replayed(Vec<Replayed>),
    /// The vault.
    Vault(Box<VaultView>),
    /// Whether there were keys to forget.
    Locked(bool),
    /// A secret, but its value.
    Secret(Box<SecretView>),
    /// Secrets, but their values.
    Secrets(Vec<SecretView>),
    /// What opening everything once said.
    Audit(Box<SecretAudit>),
    /// The slots that an agent's author declares, and whether they are bound.
    Slots(Vec<SlotView>),
    /// The keeper ends.
    Stopping {
        /// Requests that are finished before.
        under_way: u64,
    },
}

/// How a keeper is. Says nothing of what it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It takes work.
    Ok,
    /// It finishes what is under way and takes no more.
    Stopping,
}

/// What is going on in a keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Who answers.
    pub program: String,
    /// Its process.
    pub pid: u32,
    /// Since when it runs, in milliseconds since 1970, UTC.
    pub since: u64,
    /// How it is.
    pub health: Health,
    /// Agents, without removed ones.
    pub agents: u64,
    /// Of these, how many wait for a person to settle an effect.
    pub in_doubt: u64,
    /// Messages that wait in mailboxes.
    pub mail: u64,
    /// Requests that are being answered.
    pub under_way: u64,
    /// Entries of the journal.
    pub journal: u64,
    /// The kill switches.
    pub switches: Switches,
    /// Who is revoked in this keeper though the file can't be made to say so.
    #[serde(default)]
    pub held: Vec<AgentId>,
    /// Questions that wait for an answer.
    pub questions: u64,
    /// What is wrong with the files in the policy folder.
    pub problems: Vec<String>,
    /// Why the last commit could not be written; none if it could.
    #[serde(default)]
    pub unwritten: Option<String>,
    /// How many agents want a turn and can't have it.
    #[serde(default)]
    pub troubled: u64,
    /// The first of them.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
}

/// Why an agent that wants a turn can't have it, though nobody has stopped it: the disk is full, a secret is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Which.
    pub agent: AgentId,
    /// What is the matter.
    pub why: String,
    /// In how many milliseconds it is tried again.
    pub again_ms: u64,
}

/// An agent as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentView {
    /// Its name.
    pub agent: AgentId,
    /// How it lives.
    pub world: World,
    /// What it is doing.
    pub state: String,
    /// Why it can't have the turn that it wants; none if it can, or wants none.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Turns taken.
    pub turn: u64,
    /// Messages that wait for it.
    pub mailbox: u64,
    /// What it runs.
    pub component: Digest,
    /// The engine's configuration, by digest.
    pub engine: Digest,
    /// What it may ask for.
    pub grants: Grants,
    /// What each turn may cost.
    pub budget: Budget,
    /// What it may spend beyond one turn.
    pub caps: Caps,
    /// The slots that its author declares. Whether they are bound is the vault's to say.
    #[serde(default, skip_serializing_if = "Slots::is_empty")]
    pub slots: Slots,
    /// The image it will wake from; none if stateless.
    pub image: Option<Digest>,
    /// A turn that has effects on disk and isn't over.
    pub unfinished: Option<u64>,
    /// What it has seen.
    #[serde(default)]
    pub labels: Labels,
}

/// A turn that is on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its place in the journal.
    pub seq: u64,
    /// The record's hash.
    pub hash: Digest,
    /// The record.
    pub record: TurnRecord,
    /// Pages that it changed.
    pub pages: u64,
    /// How its asks were judged.
    pub rulings: Rulings,
    /// Budgets that the turn itself had brought near a cap when it was over.
    pub warnings: Vec<String>,
}

/// What became of turns that were cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// Taken up and finished.
    pub finished: Vec<Taken>,
    /// A person has to settle them.
    pub in_doubt: Vec<AgentId>,
    /// Could not be taken up, and why.
    pub failed: Vec<(AgentId, String)>,
}

/// The newest signed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Entries that it covers.
    pub size: u64,
    /// The tree's root.
    pub root: Bytes,
    /// The signed text.
    pub note: String,
}

/// What running a turn again said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// Its place in the journal.
    pub entry: u64,
    /// Whose.
    pub agent: AgentId,
    /// Which.
    pub turn: u64,
    /// What it said.
    pub result: Verdict,
    /// Why that could not be held against the agent; none if it was, or need not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
}

/// What a replay says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict")]
pub enum Verdict {
    /// The same, byte for byte.
    Match,
    /// Something differs, first here.
    Mismatch(Divergence),
    /// It can't be told.
    Unverifiable {
        /// What is missing.
        missing: String,
    },
}

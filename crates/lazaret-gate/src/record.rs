//! What the journal says: the bodies of its entries, and the turn record above all.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::canonical::{Bytes, Digest};
use crate::custody::VaultChanged;
use crate::effect::Effect;
use crate::grant::Grants;
use crate::id::AgentId;
use crate::labels::Labels;
use crate::ledger::{Account, Caps, SwitchEvent};
use crate::outcome::Outcome;
use crate::ruling::Rulings;
use crate::slots::Slots;
use crate::trust::TrustEvent;

pub use crate::lineage::{AgentForked, AgentQuarantined, AgentRolledBack, AgentWoken};
use crate::schedule::{ScheduleAdded, ScheduleFired, ScheduleRemoved};

/// One journal entry's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// The first entry: whose journal this is.
    Genesis(Genesis),
    /// A component was inspected and may be run.
    ComponentAdmitted(ComponentAdmitted),
    /// An agent was made from an admitted component.
    AgentCreated(AgentCreated),
    /// An agent was made from another one, as that one was after a turn.
    AgentForked(Box<AgentForked>),
    /// An agent was put back to where one of its turns had left it.
    AgentRolledBack(AgentRolledBack),
    /// An agent takes no turn until somebody wakes it.
    AgentQuarantined(AgentQuarantined),
    /// An agent may take turns again.
    AgentWoken(AgentWoken),
    /// An agent is gone; its name is not used again.
    AgentRemoved(AgentRemoved),
    /// The operator's rules changed.
    RulebookInForce(RulebookInForce),
    /// A kill switch was thrown or lifted.
    SwitchChanged(SwitchEvent),
    /// An agent was revoked or restored, its base score was set, or a replay of it differs.
    TrustChanged(TrustEvent),
    /// What an agent may spend was changed.
    CapsSet(CapsSet),
    /// A secret, a slot or the vault's key is another than before.
    VaultChanged(Box<VaultChanged>),
    /// An agent is to be woken at times.
    ScheduleAdded(Box<ScheduleAdded>),
    /// It isn't any more.
    ScheduleRemoved(ScheduleRemoved),
    /// It was, or will be as soon as it can: the message is in its mailbox.
    ScheduleFired(ScheduleFired),
    /// A turn that isn't over, on disk because an effect is about to leave the host.
    EffectOpened(Box<EffectOpened>),
    /// That effect came back.
    EffectClosed(Box<EffectClosed>),
    /// It is not known whether an opened effect happened. The agent takes no turn until that is settled.
    InDoubt(InDoubt),
    /// A person said how an effect in doubt ended.
    Settled(Box<EffectClosed>),
    /// A turn, whole.
    Turn(Box<TurnRecord>),
}

impl Body {
    /// The kind's name, as the JSON spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Genesis(_) => "genesis",
            Self::ComponentAdmitted(_) => "component-admitted",
            Self::AgentCreated(_) => "agent-created",
            Self::AgentForked(_) => "agent-forked",
            Self::AgentRolledBack(_) => "agent-rolled-back",
            Self::AgentQuarantined(_) => "agent-quarantined",
            Self::AgentWoken(_) => "agent-woken",
            Self::AgentRemoved(_) => "agent-removed",
            Self::RulebookInForce(_) => "rulebook-in-force",
            Self::SwitchChanged(_) => "switch-changed",
            Self::TrustChanged(_) => "trust-changed",
            Self::CapsSet(_) => "caps-set",
            Self::VaultChanged(_) => "vault-changed",
            Self::ScheduleAdded(_) => "schedule-added",
            Self::ScheduleRemoved(_) => "schedule-removed",
            Self::ScheduleFired(_) => "schedule-fired",
            Self::EffectOpened(_) => "effect-opened",
            Self::EffectClosed(_) => "effect-closed",
            Self::InDoubt(_) => "in-doubt",
            Self::Settled(_) => "settled",
            Self::Turn(_) => "turn",
        }
    }

    /// The agent it is about.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Genesis(_) | Self::ComponentAdmitted(_) | Self::RulebookInForce(_) => None,
            Self::SwitchChanged(_) | Self::VaultChanged(_) => None,
            Self::TrustChanged(body) => Some(&body.agent),
            Self::CapsSet(body) => Some(&body.agent),
            Self::ScheduleAdded(body) => Some(&body.agent),
            Self::ScheduleRemoved(body) => Some(&body.agent),
            Self::ScheduleFired(body) => Some(&body.agent),
            Self::AgentCreated(body) => Some(&body.agent),
            Self::AgentForked(body) => Some(&body.agent),
            Self::AgentRolledBack(body) => Some(&body.agent),
            Self::AgentQuarantined(body) => Some(&body.agent),
            Self::AgentWoken(body) => Some(&body.agent),
            Self::AgentRemoved(body) => Some(&body.agent),
            Self::EffectOpened(body) => Some(&body.agent),
            Self::EffectClosed(body) | Self::Settled(body) => Some(&body.agent),
            Self::InDoubt(body) => Some(&body.agent),
            Self::Turn(body) => Some(&body.agent),
        }
    }
}

/// The journal format's name, in the first entry.
pub const JOURNAL_FORMAT: &str = "lazaret-journal/1";

/// Whose journal this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    /// [`JOURNAL_FORMAT`].
    pub format: String,
    /// The key that signs its checkpoints, as a C2SP verifier key.
    pub key: String,
}

/// How a component lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// Its memory is kept from turn to turn.
    Durable,
    /// An ordinary WASI component: every turn starts anew.
    Stateless,
}

impl World {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Stateless => "stateless",
        }
    }
}

/// A component was inspected and may be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentAdmitted {
    /// Digest of its bytes.
    pub component: Digest,
    /// How many.
    pub size: u64,
    /// How it lives.
    pub world: World,
    /// The engine's configuration, by digest.
    pub engine: Digest,
}

/// An agent was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCreated {
    /// Its name.
    pub agent: AgentId,
    /// What it runs.
    pub component: Digest,
    /// How it lives.
    pub world: World,
    /// The engine's configuration, by digest.
    pub engine: Digest,
    /// What it may ask for.
    pub grants: Grants,
    /// What each turn may cost.
    pub budget: Budget,
    /// What it may spend beyond one turn.
    pub caps: Caps,
    /// The slots that its author declares; each is among the grants.
    #[serde(default, skip_serializing_if = "Slots::is_empty")]
    pub slots: Slots,
    /// Its first image; none if stateless.
    pub image: Option<Digest>,
}

/// An agent is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRemoved {
    /// Which.
    pub agent: AgentId,
}

/// From here on, asks are judged by these rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulebookInForce {
    /// The rulebook, by digest.
    pub rulebook: Digest,
    /// The files it is made of.
    pub files: Vec<String>,
}

/// What an agent may spend was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapsSet {
    /// Whose.
    pub agent: AgentId,
    /// What it may spend now, beyond one turn.
    pub caps: Caps,
}

/// What wakes an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// May be empty.
    pub body: Bytes,
    /// What the body is.
    pub content_type: String,
    /// What its sender had seen when it sent this. Nothing that came from outside has any.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The agent that sent it, if one did.
    pub sender: Option<AgentId>,
}

impl Message {
    /// One that no agent sent.
    pub fn outside(content_type: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { sender: None, content_type: content_type.into(), body: body.into(), labels: Labels::new() }
    }
}

/// What a turn answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// May be empty.
    pub body: Bytes,
    /// What the body is.
    pub content_type: String,
}

/// One ask and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeEntry {
    /// What was asked.
    pub effect: Effect,
    /// How it ended; the gate's verdict is in it.
    pub outcome: Outcome,
    /// Which of the turn's rulings it was judged by; none if it was refused before any rule was read.
    pub ruling: Option<u32>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// It answered. Its changes are kept.
    Replied(Reply),
    /// The agent said that it failed. Nothing of the turn is kept but this record.
    Failed(Failure),
    /// The host stopped it. Nothing of the turn is kept but this record.
    Stopped(Stop),
}

impl Ending {
    /// Bytes that it gives back.
    pub fn output_bytes(&self) -> u64 {
        match self {
            Self::Replied(reply) => reply.body.0.len() as u64,
            Self::Failed(Failure::BadInput(text) | Failure::Failed(text)) => text.len() as u64,
            Self::Stopped(_) => 0,
        }
    }
}

/// An agent's own error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The message made no sense to it.
    BadInput(String),
    /// Something else.
    Failed(String),
}

/// What the host stopped a turn for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// For programs.
    pub cause: Cause,
    /// For people.
    pub detail: String,
}

/// Why the host stopped a turn, stable for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Out of fuel.
    Fuel,
    /// More memory than the budget's.
    Memory,
    /// Longer than the budget's wall time. Not reproducible: where it struck depends on the machine.
    WallClock,
    /// An operator stopped everything. Not reproducible: where it struck depends on the operator.
    Killed,
    /// An operator revoked the agent. Not reproducible either, unless a refusal ended it.
    Revoked,
    /// A WebAssembly trap: unreachable, division by zero, out of bounds, stack overflow.
    Trap,
    /// A refusal that ends the turn.
    Refused,
    /// A value from the agent was malformed or too large.
    BadValue,
}

impl Cause {
    /// The name, as records spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fuel => "fuel",
            Self::Memory => "memory",
            Self::WallClock => "wall-clock",
            Self::Killed => "killed",
            Self::Revoked => "revoked",
            Self::Trap => "trap",
            Self::Refused => "refused",
            Self::BadValue => "bad-value",
        }
    }
}

/// A turn, whole: everything that is needed to run it again, and everything that must then come out the same.
///
/// Its fields, and those of all that is written with every turn, stand in the order in which canonical JSON has them: then
/// nothing has to be put in order when it is written, nor when it is read and compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Whose turn.
    pub agent: AgentId,
    /// What it was allowed to cost.
    pub budget: Budget,
    /// What ran.
    pub component: Digest,
    /// How it ended.
    pub ending: Ending,
    /// The engine's configuration, by digest.
    pub engine: Digest,
    /// Fuel used, exactly.
    pub fuel: u64,
    /// What it was granted.
    pub grants: Grants,
    /// The image it left; the one before if nothing was kept.
    pub image_after: Option<Digest>,
    /// The image it woke from; none if stateless.
    pub image_before: Option<Digest>,
    /// What it was asked.
    pub input: Message,
    /// How its asks were judged: the digest of a [`Judged`], which is kept as a blob.
    pub judged: Digest,
    /// Hash of this agent's previous turn or rollback entry, or of its first entry.
    pub previous: Digest,
    /// What it asked, and got.
    pub tape: Vec<TapeEntry>,
    /// Counts from 1.
    pub turn: u64,
}

/// How a turn's asks were judged: all that deciding them again takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// What the agent may spend beyond one turn.
    pub caps: Caps,
    /// The day that its spending is booked on: days since 1970, UTC.
    pub day: u32,
    /// What the agent had seen before this one; none in a record from before anybody counted, whose asks were judged as if
    /// it had seen nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// Each ask's, shared by asks that were judged alike.
    pub rulings: Rulings,
    /// What it had spent before this one.
    pub spending: Account,
}

/// A turn in the middle, before an effect leaves the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectOpened {
    /// Whose turn.
    pub agent: AgentId,
    /// Which.
    pub turn: u64,
    /// The mailbox message being answered.
    pub message: u64,
    /// What it was asked, with the first effect of a turn that is opened.
    pub input: Option<Message>,
    /// Place of the opened effect in the turn.
    pub number: u32,
    /// What was asked and got since the last one was closed.
    pub tape: Vec<TapeEntry>,
    /// The rulings that are new since then: the digest of a [`Rulings`], which is kept as a blob.
    pub judged: Digest,
    /// What is about to be done.
    pub effect: Effect,
    /// Which ruling it is judged by.
    pub ruling: Option<u32>,
}

/// An opened effect came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectClosed {
    /// Whose turn.
    pub agent: AgentId,
    /// Which.
    pub turn: u64,
    /// Place of the effect in the turn.
    pub number: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// It is not known whether an effect happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InDoubt {
    /// Whose turn.
    pub agent: AgentId,
    /// Which.
    pub turn: u64,
    /// Place of the effect in the turn.
    pub number: u32,
}

/// The first thing in a replay that differs from the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// Where: `effect 3`, `output`, `fuel`, `image: memory 0, page 17`, …
    pub place: String,
    /// What the record says.
    pub expected: String,
    /// What the replay gave.
    pub actual: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} differs: expected {}, got {}", self.place, self.expected, self.actual)
    }
}

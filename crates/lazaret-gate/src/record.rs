//! What the journal says: the bodies of its entries, and the turn record above all.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::canonical::{Bytes, Digest};
use crate::effect::Effect;
use crate::grant::Grants;
use crate::id::AgentId;
use crate::outcome::Outcome;

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
    /// An agent is gone; its name is not used again.
    AgentRemoved(AgentRemoved),
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
            Self::AgentRemoved(_) => "agent-removed",
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
            Self::Genesis(_) | Self::ComponentAdmitted(_) => None,
            Self::AgentCreated(body) => Some(&body.agent),
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
    /// Its first image; none if stateless.
    pub image: Option<Digest>,
}

/// An agent is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRemoved {
    /// Which.
    pub agent: AgentId,
}

/// What wakes an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The agent that sent it, if one did.
    pub sender: Option<AgentId>,
    /// What the body is.
    pub content_type: String,
    /// May be empty.
    pub body: Bytes,
}

/// What a turn answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// What the body is.
    pub content_type: String,
    /// May be empty.
    pub body: Bytes,
}

/// One ask and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeEntry {
    /// What was asked.
    pub effect: Effect,
    /// How it ended; the gate's verdict is in it.
    pub outcome: Outcome,
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
            Self::Trap => "trap",
            Self::Refused => "refused",
            Self::BadValue => "bad-value",
        }
    }
}

/// A turn, whole: everything that is needed to run it again, and everything that must then come out the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Whose turn.
    pub agent: AgentId,
    /// Counts from 1.
    pub turn: u64,
    /// Hash of this agent's previous turn entry, or of the entry that created it.
    pub previous: Digest,
    /// What ran.
    pub component: Digest,
    /// The engine's configuration, by digest.
    pub engine: Digest,
    /// What it was granted.
    pub grants: Grants,
    /// What it was allowed to cost.
    pub budget: Budget,
    /// The image it woke from; none if stateless.
    pub image_before: Option<Digest>,
    /// What it was asked.
    pub input: Message,
    /// What it asked, and got.
    pub tape: Vec<TapeEntry>,
    /// How it ended.
    pub ending: Ending,
    /// Fuel used, exactly.
    pub fuel: u64,
    /// The image it left; the one before if nothing was kept.
    pub image_after: Option<Digest>,
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
    /// What is about to be done.
    pub effect: Effect,
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

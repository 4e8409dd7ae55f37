//! Where agents come from and what operators did with them: forks, rollbacks, quarantine.

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::canonical::Digest;
use crate::grant::Grants;
use crate::id::AgentId;
use crate::ledger::Caps;
use crate::record::{Body, World};
use crate::slots::Slots;

/// An agent was made from another one, as that one was after a turn. It is the new agent's first entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentForked {
    /// The new agent's name.
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
    /// What it may spend beyond one turn. It begins with nothing spent.
    pub caps: Caps,
    /// The slots that its author declares: those of the agent it was made from.
    #[serde(default, skip_serializing_if = "Slots::is_empty")]
    pub slots: Slots,
    /// Its first image: the source's after that turn, bound to the new name and to turn 0; none if stateless.
    pub image: Option<Digest>,
    /// The agent it was made from.
    pub from: AgentId,
    /// After this turn of that one; 0 is before its first.
    pub turn: u64,
    /// Hash of that turn's entry, or of the source's own first entry for turn 0.
    pub entry: Digest,
}

/// An agent was put back to where one of its turns had left it: image and storage. Turn numbers go on, and mail stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRolledBack {
    /// Which.
    pub agent: AgentId,
    /// Who did it.
    pub by: String,
    /// The turn it was put back to; 0 is before its first.
    pub to: u64,
    /// Hash of that turn's entry, or of the agent's first entry for turn 0.
    pub entry: Digest,
    /// The image that turn left, and that the next one wakes from.
    pub image: Digest,
    /// Turns that it had taken by then: the next one's number is one more.
    pub taken: u64,
    /// Hash of the entry before this one in the agent's chain: its last turn, its last rollback, or its first entry.
    pub previous: Digest,
}

/// An agent takes no turn until somebody wakes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentQuarantined {
    /// Which.
    pub agent: AgentId,
    /// Who did it.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// An agent may take turns again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentWoken {
    /// Which.
    pub agent: AgentId,
    /// Who did it.
    pub by: String,
}

/// What an agent's first entry says of it, however it was made.
#[derive(Clone, Copy, Debug)]
pub struct Birth<'a> {
    /// Its name.
    pub agent: &'a AgentId,
    /// What it runs.
    pub component: Digest,
    /// How it lives.
    pub world: World,
    /// The engine's configuration, by digest.
    pub engine: Digest,
    /// What it may ask for.
    pub grants: &'a Grants,
    /// What each turn may cost.
    pub budget: &'a Budget,
    /// What it may spend beyond one turn.
    pub caps: &'a Caps,
    /// The slots that its author declares.
    pub slots: &'a Slots,
    /// Its first image; none if stateless.
    pub image: Option<Digest>,
}

/// The kinds of entries that make up an agent's chain: each names the one before it, and its row names the last.
pub const CHAINED: [&str; 4] = ["agent-created", "agent-forked", "turn", "agent-rolled-back"];

/// The kinds of an agent's first entry.
pub const BIRTHS: [&str; 2] = ["agent-created", "agent-forked"];

impl Body {
    /// What it says of a new agent, if it is one's first entry.
    pub fn birth(&self) -> Option<Birth<'_>> {
        Some(match self {
            Self::AgentCreated(it) => Birth {
                agent: &it.agent,
                component: it.component,
                world: it.world,
                engine: it.engine,
                grants: &it.grants,
                budget: &it.budget,
                caps: &it.caps,
                slots: &it.slots,
                image: it.image,
            },
            Self::AgentForked(it) => Birth {
                agent: &it.agent,
                component: it.component,
                world: it.world,
                engine: it.engine,
                grants: &it.grants,
                budget: &it.budget,
                caps: &it.caps,
                slots: &it.slots,
                image: it.image,
            },
            _ => return None,
        })
    }
}

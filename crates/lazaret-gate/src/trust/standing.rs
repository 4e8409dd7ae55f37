//! An operator's word on an agent: a base score, revocation, restoration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::score::Score;
use crate::id::AgentId;
use crate::ledger::utc;
use crate::refusal::{Code, Layer, Refusal};

/// That an agent was revoked: who, when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoked {
    /// Who did it.
    #[serde(default = "somebody")]
    pub by: String,
    /// Milliseconds since 1970, UTC.
    #[serde(default)]
    pub at: u64,
    /// Why, in their own words; may be empty.
    #[serde(default)]
    pub reason: String,
}

/// Who revokes everybody when nobody can tell who is meant. Only the words for it depend on this.
const HOST: &str = "the host";

/// Whoever wrote an agent's name into the file by hand and no more.
fn somebody() -> String {
    "somebody".to_owned()
}

impl Revoked {
    /// Everybody, because the file that names the revoked can't be understood.
    pub fn by_host(reason: String) -> Self {
        Self { by: HOST.to_owned(), at: 0, reason }
    }

    /// What an operator could do about it.
    pub fn remedy(&self, agent: &AgentId) -> String {
        match self.by == HOST && self.at == 0 {
            true => "mending or removing that file lets agents go on".to_owned(),
            false => format!("`lazaret trust restore {agent}` lets it go on"),
        }
    }

    /// Who has revoked whom, when and why.
    pub fn say(&self, agent: &AgentId) -> String {
        let Self { by, at, reason } = self;
        let when = if *at == 0 { String::new() } else { format!(" at {}", utc(*at)) };
        let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        format!("{by} has revoked `{agent}`{when}{why}")
    }
}

/// What happened to an agent's trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustChange {
    /// An operator gave it a base score.
    Set,
    /// It was revoked.
    Revoked,
    /// It was let go on.
    Restored,
    /// A replay found that one of its turns is not as recorded.
    Mismatch,
}

impl TrustChange {
    /// The name, as records spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Revoked => "revoked",
            Self::Restored => "restored",
            Self::Mismatch => "mismatch",
        }
    }
}

/// A change of an agent's trust, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustEvent {
    /// Whose.
    pub agent: AgentId,
    /// What happened.
    pub change: TrustChange,
    /// For `set`, the base score. Else what the score was after it, as whoever did it saw it.
    pub score: Score,
    /// Who did it.
    pub by: String,
    /// Milliseconds since 1970, UTC.
    pub at: u64,
    /// Why, in their own words, or what differs; may be empty.
    pub reason: String,
    /// For `mismatch`: which turn.
    pub turn: Option<u64>,
}

impl TrustEvent {
    /// That an agent is revoked, as a record of it says.
    pub fn revoked(agent: &AgentId, revoked: &Revoked) -> Self {
        let Revoked { by, at, reason } = revoked.clone();
        let agent = agent.clone();
        Self { agent, change: TrustChange::Revoked, score: Score::NONE, by, at, reason, turn: None }
    }
}

/// Who is revoked, and which bases were set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Revocations {
    /// Who must not do anything.
    pub revoked: BTreeMap<AgentId, Revoked>,
    /// What operators have set, in hundredths.
    pub bases: BTreeMap<AgentId, Score>,
}

impl Revocations {
    /// Does what was recorded. Whoever is revoked already stays so as before: the first word stands.
    pub fn apply(&mut self, event: &TrustEvent) {
        let TrustEvent { agent, change, score, by, at, reason, turn: _ } = event;
        match change {
            TrustChange::Set => {
                self.bases.insert(agent.clone(), *score);
            }
            TrustChange::Revoked => {
                let revoked = || Revoked { by: by.clone(), at: *at, reason: reason.clone() };
                self.revoked.entry(agent.clone()).or_insert_with(revoked);
            }
            TrustChange::Restored => {
                self.revoked.remove(agent);
            }
            TrustChange::Mismatch => {}
        }
    }
}

/// That an ask was stopped because its agent is revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokedAgent {
    /// Who asked.
    pub agent: AgentId,
    /// The kind of effect that was stopped.
    pub kind: &'static str,
    /// Who revoked it, when and why.
    pub revoked: Revoked,
}

impl RevokedAgent {
    /// Before it was let pass.
    pub fn refusal(&self) -> Refusal {
        let reason = format!("asked for `{}`, but {}", self.kind, self.revoked.say(&self.agent));
        Refusal { code: Code::Revoked, layer: Layer::Trust, reason, remedy: self.remedy() }
    }

    /// After it was let pass. `begun`: nobody can call back what has left the host.
    pub fn in_flight(&self, begun: bool) -> Refusal {
        let (kind, said) = (self.kind, self.revoked.say(&self.agent));
        let reason = match begun {
            true => format!("`{kind}` was under way and is cut off: {said}, and what was sent may have arrived"),
            false => format!("`{kind}` was permitted and not begun: {said}"),
        };
        Refusal { code: Code::Revoked, layer: Layer::Executor, reason, remedy: self.remedy() }
    }

    fn remedy(&self) -> String {
        self.revoked.remedy(&self.agent)
    }
}

/// That a message was sent to an agent that is revoked. Who did that and why is not the sender's to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxClosed {
    /// For whom it was.
    pub to: AgentId,
}

impl MailboxClosed {
    /// What the sender is told.
    pub fn refusal(&self) -> Refusal {
        Refusal {
            code: Code::MailboxClosed,
            layer: Layer::Executor,
            reason: format!("agent `{}` is revoked and its mailbox is closed", self.to),
            remedy: format!("`lazaret trust restore {}` opens it again", self.to),
        }
    }
}

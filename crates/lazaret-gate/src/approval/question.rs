//! What is asked: everything an approver needs, and everything that must still be so when the answer is used.

use serde::{Deserialize, Serialize};

use super::limits::{MAX_LABELS, MAX_NAME, MAX_PATIENCE_MS, MAX_REASON};
use crate::canonical::{self, Bytes, Digest, NotCanonical};
use crate::effect::Effect;
use crate::id::AgentId;
use crate::risk::Risk;

/// Who asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requester {
    /// An agent, on its own account.
    Agent(AgentId),
    /// Whoever holds this key: a device, a client, an operator.
    Key(Digest),
}

/// A reading of the two clocks of one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Milliseconds since 1970, UTC. May jump either way.
    pub wall_ms: u64,
    /// Milliseconds since some moment of this boot. Never goes back.
    pub monotonic_ms: u64,
}

impl Moment {
    /// So many milliseconds later on both clocks.
    pub fn after(self, ms: u64) -> Self {
        Self { wall_ms: self.wall_ms.saturating_add(ms), monotonic_ms: self.monotonic_ms.saturating_add(ms) }
    }
}

/// The time, as whoever calls this crate reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Now {
    /// Both clocks.
    pub moment: Moment,
    /// Which boot of the machine this is: a monotonic reading means nothing in another.
    pub boot: String,
}

impl Now {
    /// Whether a deadline set in a boot has passed. The strictest clock wins: either one being past it is enough, and
    /// so is another boot, or a monotonic clock that stands before where it already was.
    pub fn is_past(&self, since: Moment, deadline: Moment, boot: &str) -> bool {
        self.boot != boot
            || self.moment.wall_ms >= deadline.wall_ms
            || self.moment.monotonic_ms >= deadline.monotonic_ms
            || self.moment.monotonic_ms < since.monotonic_ms
    }
}

/// One question, complete. It never changes; what becomes of it is a [`State`](super::State).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Its name on this host.
    pub id: String,
    /// Whose effect it is.
    pub agent: AgentId,
    /// In which run.
    pub run: String,
    /// The effect, verbatim.
    pub effect: Effect,
    /// BLAKE3 over the effect's canonical form.
    pub arguments: Digest,
    /// The policy set that asked.
    pub policy: Digest,
    /// The rule that asked.
    pub rule: String,
    /// Why that rule asks, in its author's words.
    pub reason: String,
    /// How much harm it could do.
    pub risk: Risk,
    /// What the agent has seen.
    pub labels: Vec<String>,
    /// When it was asked.
    pub created: Moment,
    /// When silence becomes denial.
    pub expires: Moment,
    /// In which boot both hold.
    pub boot: String,
    /// Makes two equal questions two.
    pub nonce: Bytes,
    /// Who asked, and so can't answer.
    pub requester: Requester,
}

/// What a question is made from; times and digests are added by [`Question::ask`].
#[derive(Clone, Debug)]
pub struct Draft {
    /// See [`Question::id`].
    pub id: String,
    /// See [`Question::agent`].
    pub agent: AgentId,
    /// See [`Question::run`].
    pub run: String,
    /// See [`Question::effect`].
    pub effect: Effect,
    /// See [`Question::policy`].
    pub policy: Digest,
    /// See [`Question::rule`].
    pub rule: String,
    /// See [`Question::reason`].
    pub reason: String,
    /// See [`Question::risk`].
    pub risk: Risk,
    /// See [`Question::labels`].
    pub labels: Vec<String>,
    /// See [`Question::nonce`].
    pub nonce: Bytes,
    /// See [`Question::requester`].
    pub requester: Requester,
}

/// A question that can't be asked or believed.
#[derive(Debug, thiserror::Error)]
pub enum BadQuestion {
    /// A part is empty or too long.
    #[error("the question's {part} must have 1 to {limit} bytes, not {found}")]
    Size {
        /// Which part.
        part: &'static str,
        /// The most.
        limit: usize,
        /// What it has.
        found: usize,
    },
    /// Too many labels.
    #[error("a question carries at most {MAX_LABELS} labels, not {0}")]
    Labels(usize),
    /// It would wait too long, or not at all.
    #[error("a question waits 1 to {MAX_PATIENCE_MS} ms, not {0}")]
    Patience(u64),
    /// Its digest isn't its effect's.
    #[error("the question's digest {found} is not that of its effect, {expected}")]
    Arguments {
        /// What it says.
        found: Digest,
        /// What it should say.
        expected: Digest,
    },
    /// It has no canonical form.
    #[error("the question {0}")]
    Form(#[from] NotCanonical),
}

impl Question {
    /// Asks, now, for so many milliseconds.
    pub fn ask(draft: Draft, now: &Now, patience_ms: u64) -> Result<Self, BadQuestion> {
        let question = Self {
            arguments: Digest::of_value(&draft.effect)?,
            created: now.moment,
            expires: now.moment.after(patience_ms),
            boot: now.boot.clone(),
            id: draft.id,
            agent: draft.agent,
            run: draft.run,
            effect: draft.effect,
            policy: draft.policy,
            rule: draft.rule,
            reason: draft.reason,
            risk: draft.risk,
            labels: draft.labels,
            nonce: draft.nonce,
            requester: draft.requester,
        };
        question.check()?;
        question.digest()?;
        Ok(question)
    }

    /// Reads a recorded question: canonical bytes, every part within its limit, the digest the effect's own.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadQuestion> {
        let question: Self = canonical::decode(bytes)?;
        question.check()?;
        Ok(question)
    }

    /// Its canonical bytes.
    pub fn encode(&self) -> Result<Vec<u8>, NotCanonical> {
        canonical::encode(self)
    }

    /// BLAKE3 over its canonical bytes: what a decision speaks of.
    pub fn digest(&self) -> Result<Digest, NotCanonical> {
        Digest::of_value(self)
    }

    /// Whether it waits no more.
    pub fn is_past(&self, now: &Now) -> bool {
        now.is_past(self.created, self.expires, &self.boot)
    }

    /// Whether the effect is of the kind for which only "once" can be said: high risk, and it leaves the host.
    pub fn is_once_only(&self) -> bool {
        self.risk.is_once_only(&self.effect)
    }

    fn check(&self) -> Result<(), BadQuestion> {
        size("id", &self.id, MAX_NAME)?;
        size("run", &self.run, MAX_NAME)?;
        size("rule", &self.rule, MAX_NAME)?;
        size("reason", &self.reason, MAX_REASON)?;
        size("boot id", &self.boot, MAX_NAME)?;
        sized("nonce", self.nonce.0.len(), MAX_NAME)?;
        if self.labels.len() > MAX_LABELS {
            return Err(BadQuestion::Labels(self.labels.len()));
        }
        self.labels.iter().try_for_each(|label| size("label", label, MAX_NAME))?;
        let patience = self.expires.wall_ms.saturating_sub(self.created.wall_ms);
        let lawful = (1..=MAX_PATIENCE_MS).contains(&patience) && self.expires == self.created.after(patience);
        if !lawful {
            return Err(BadQuestion::Patience(patience));
        }
        let expected = Digest::of_value(&self.effect)?;
        if self.arguments == expected {
            Ok(())
        } else {
            Err(BadQuestion::Arguments { found: self.arguments, expected })
        }
    }
}

fn size(part: &'static str, text: &str, limit: usize) -> Result<(), BadQuestion> {
    sized(part, text.len(), limit)
}

fn sized(part: &'static str, found: usize, limit: usize) -> Result<(), BadQuestion> {
    if (1..=limit).contains(&found) { Ok(()) } else { Err(BadQuestion::Size { part, limit, found }) }
}

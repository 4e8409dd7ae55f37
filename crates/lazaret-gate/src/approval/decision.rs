//! An approver's answer: a signature over the question, the scope and what was shown.

use std::collections::BTreeMap;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::limits::{MAX_SKEW_MS, MAX_UNTIL_MS};
use super::pattern::Pattern;
use super::question::{Question, Requester};
use crate::canonical::{self, Bytes, Digest, NotCanonical};
use crate::id::AgentId;
use crate::shown;

/// Before the signed bytes: a signature made for anything else is no decision.
const DOMAIN: &[u8] = b"lazaret decision 1\n";

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may happen.
    Approve,
    /// It may not.
    Deny,
}

/// How far a yes reaches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Scope {
    /// This effect, once.
    Once,
    /// What the pattern covers, as long as the run lasts.
    Run {
        /// Which effects.
        pattern: Pattern,
        /// How many past effects it would have covered, as the approver was told.
        matched: u64,
    },
    /// What the pattern covers, of this agent in any run, until a time.
    Until {
        /// Which effects.
        pattern: Pattern,
        /// How many past effects it would have covered, as the approver was told.
        matched: u64,
        /// Milliseconds since 1970, UTC.
        wall_ms: u64,
    },
}

impl Scope {
    /// The pattern, if it is wider than once.
    pub fn pattern(&self) -> Option<&Pattern> {
        match self {
            Self::Once => None,
            Self::Run { pattern, .. } | Self::Until { pattern, .. } => Some(pattern),
        }
    }

    /// Whether this scope can be offered for a question when it is decided at this time.
    pub fn check(&self, question: &Question, at: u64) -> Result<(), BadDecision> {
        let Some(pattern) = self.pattern() else { return Ok(()) };
        if question.is_once_only() {
            return Err(BadDecision::OnceOnly);
        }
        if !pattern.matches(&question.effect) {
            return Err(BadDecision::PatternMisses(pattern.to_string()));
        }
        match self {
            Self::Until { wall_ms, .. } if *wall_ms <= at || *wall_ms - at > MAX_UNTIL_MS => {
                Err(BadDecision::Until { until: *wall_ms, at })
            }
            _ => Ok(()),
        }
    }
}

/// One answer to one question, signed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Which question, by its digest.
    pub question: Digest,
    /// Yes or no.
    pub verdict: Verdict,
    /// How far a yes reaches; a no is always about this one effect.
    pub scope: Scope,
    /// The digest of the lines that the approver was shown.
    pub shown: Digest,
    /// The approver's key, by its digest.
    pub by: Digest,
    /// When, on the approver's clock: milliseconds since 1970, UTC.
    pub at: u64,
    /// Ed25519.
    pub signature: Bytes,
}

/// What is signed, in canonical form behind [`DOMAIN`]: the question whole, not only its digest.
#[derive(Serialize)]
struct Statement<'a> {
    question: &'a Question,
    verdict: Verdict,
    scope: &'a Scope,
    shown: &'a Digest,
    by: &'a Digest,
    at: u64,
}

/// A decision that can't be made or believed.
#[derive(Debug, thiserror::Error)]
pub enum BadDecision {
    /// It answers something else.
    #[error("the decision is about question {found}, not {expected}")]
    OtherQuestion {
        /// What it answers.
        found: Digest,
        /// What was asked.
        expected: Digest,
    },
    /// The approver was shown something else.
    #[error("the approver was shown something else than this question: show it again and decide again")]
    OtherShown,
    /// Part of the question isn't shown.
    #[error("part of the question is not shown, so it can't be approved; it can be denied")]
    Hidden,
    /// Nobody knows that key.
    #[error("no approver has the key {0}: the operator adds approvers")]
    UnknownKey(Digest),
    /// The key was revoked.
    #[error("the approver's key {0} is revoked: decide with another")]
    RevokedKey(Digest),
    /// The signature isn't that key's over this.
    #[error("the decision's signature is wrong: it was not made by the key {0} over this question, scope and view")]
    Signature(Digest),
    /// Whoever asked answered.
    #[error("whoever asks can't approve: another approver must decide")]
    Requester,
    /// Wider than once isn't to be had.
    #[error("this effect is of high risk and leaves the host: it can be approved once, not as a pattern")]
    OnceOnly,
    /// The pattern doesn't even cover what was asked.
    #[error("the pattern `{0}` does not cover the effect in question")]
    PatternMisses(String),
    /// A time that has passed, or too far off.
    #[error(
        "an approval at {at} can't last until {until}: choose a later time, at most {} hours off",
        MAX_UNTIL_MS / 3_600_000
    )]
    Until {
        /// Until when.
        until: u64,
        /// Decided when.
        at: u64,
    },
    /// A no with a pattern.
    #[error("a denial is about this one effect: to deny more, write a policy")]
    WideDenial,
    /// It was made before the question, or too late.
    #[error("the decision was made at {at}, outside of the question's time {from} to {to}")]
    Time {
        /// On the approver's clock.
        at: u64,
        /// The earliest.
        from: u64,
        /// The end of patience.
        to: u64,
    },
    /// It has no canonical form.
    #[error("the decision {0}")]
    Form(#[from] NotCanonical),
}

/// Somebody who may decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approver {
    key: VerifyingKey,
    agent: Option<AgentId>,
    revoked: bool,
}

impl Approver {
    /// A person's key.
    pub fn new(key: VerifyingKey) -> Self {
        Self { key, agent: None, revoked: false }
    }

    /// A key that an agent holds: it can't decide on what that agent asks.
    pub fn of_agent(key: VerifyingKey, agent: AgentId) -> Self {
        Self { key, agent: Some(agent), revoked: false }
    }

    /// The name of its key.
    pub fn id(&self) -> Digest {
        key_id(&self.key)
    }

    /// Whether the two are one: by key, or because the agent holds it.
    fn is_requester(&self, question: &Question) -> bool {
        let by_key = matches!(&question.requester, Requester::Key(key) if *key == self.id());
        let asks = |agent: &AgentId| {
            *agent == question.agent || matches!(&question.requester, Requester::Agent(id) if id == agent)
        };
        by_key || self.agent.as_ref().is_some_and(asks)
    }
}

fn key_id(key: &VerifyingKey) -> Digest {
    Digest::of(key.as_bytes())
}

/// Everybody who may decide, and who no longer may.
#[derive(Clone, Debug, Default)]
pub struct Approvers(BTreeMap<Digest, Approver>);

impl Approvers {
    /// Adds one. A revoked key stays revoked.
    pub fn add(&mut self, approver: Approver) {
        self.0.entry(approver.id()).or_insert(approver);
    }

    /// Revokes a key, for good. `false` if nobody has it.
    pub fn revoke(&mut self, key: &Digest) -> bool {
        self.0.get_mut(key).map(|approver| approver.revoked = true).is_some()
    }

    fn find(&self, key: &Digest) -> Result<&Approver, BadDecision> {
        match self.0.get(key) {
            None => Err(BadDecision::UnknownKey(*key)),
            Some(approver) if approver.revoked => Err(BadDecision::RevokedKey(*key)),
            Some(approver) => Ok(approver),
        }
    }
}

impl FromIterator<Approver> for Approvers {
    fn from_iter<I: IntoIterator<Item = Approver>>(approvers: I) -> Self {
        let mut all = Self::default();
        approvers.into_iter().for_each(|approver| all.add(approver));
        all
    }
}

/// A decision whose signature, key, view and scope were checked against its question. The machine takes nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Verified(Decision);

impl Verified {
    /// What was decided.
    pub fn decision(&self) -> &Decision {
        &self.0
    }
}

impl Decision {
    /// Decides, as the holder of this key, on what [`shown::decision`] shows.
    pub fn sign(
        question: &Question,
        verdict: Verdict,
        scope: Scope,
        at: u64,
        key: &SigningKey,
    ) -> Result<Self, BadDecision> {
        let mut decision = Self {
            question: question.digest()?,
            verdict,
            shown: shown::decision(question, &scope).digest()?,
            scope,
            by: key_id(&key.verifying_key()),
            at,
            signature: Bytes::default(),
        };
        decision.check(question)?;
        decision.signature = Bytes(key.sign(&decision.signed_bytes(question)?).to_bytes().to_vec());
        Ok(decision)
    }

    /// Checks everything about it but the clock of the keeper and the state of the question.
    pub fn verify(self, question: &Question, approvers: &Approvers) -> Result<Verified, BadDecision> {
        let approver = approvers.find(&self.by)?;
        if approver.is_requester(question) {
            return Err(BadDecision::Requester);
        }
        let expected = question.digest()?;
        if self.question != expected {
            return Err(BadDecision::OtherQuestion { found: self.question, expected });
        }
        if self.shown != shown::decision(question, &self.scope).digest()? {
            return Err(BadDecision::OtherShown);
        }
        self.check(question)?;
        let wrong = || BadDecision::Signature(self.by);
        let signature: [u8; 64] = self.signature.0.as_slice().try_into().map_err(|_| wrong())?;
        let bytes = self.signed_bytes(question)?;
        approver.key.verify_strict(&bytes, &Signature::from_bytes(&signature)).map_err(|_| wrong())?;
        Ok(Verified(self))
    }

    /// What holds of every lawful decision, whoever signs it.
    fn check(&self, question: &Question) -> Result<(), BadDecision> {
        let (from, to) = (question.created.wall_ms.saturating_sub(MAX_SKEW_MS), question.expires.wall_ms);
        if !(from..to).contains(&self.at) {
            return Err(BadDecision::Time { at: self.at, from, to });
        }
        match self.verdict {
            Verdict::Deny if self.scope != Scope::Once => Err(BadDecision::WideDenial),
            Verdict::Deny => Ok(()),
            Verdict::Approve if shown::question(question).hidden => Err(BadDecision::Hidden),
            Verdict::Approve => self.scope.check(question, self.at),
        }
    }

    fn signed_bytes(&self, question: &Question) -> Result<Vec<u8>, NotCanonical> {
        let statement = Statement {
            question,
            verdict: self.verdict,
            scope: &self.scope,
            shown: &self.shown,
            by: &self.by,
            at: self.at,
        };
        Ok([DOMAIN, &canonical::encode(&statement)?].concat())
    }
}

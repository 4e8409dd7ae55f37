//! What may become of a question. Pure: the clock, the decision and the effect are handed in, the next state comes out.
//!
//! ```text
//! Pending ──▶ Approved ──▶ Used         (once)
//!    │           │  ↺ use               (this run, until a time)
//!    ├──▶ Denied │
//!    ├──▶ Expired ◀─┤
//!    └──▶ Withdrawn ◀┘
//! ```
//!
//! Whoever keeps the state must replace the old one by the new one only if it is still the old one.

use serde::{Deserialize, Serialize};

use super::decision::{Scope, Verdict, Verified};
use super::limits::{MAX_RUN_MS, MAX_UNTIL_MS};
use super::question::{Moment, Now, Question};
use crate::canonical::Digest;
use crate::effect::Effect;
use crate::id::AgentId;
use crate::labels::Labels;
use crate::risk::Risk;

/// Where a question stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum State {
    /// Nobody has answered.
    Pending,
    /// Yes, and it can still be used.
    Approved {
        /// How far the yes reaches.
        scope: Scope,
        /// Whose yes, by key.
        by: Digest,
        /// Since when.
        since: Moment,
        /// And until when, on both clocks of the question's boot.
        until: Moment,
        /// How often it was used.
        uses: u64,
    },
    /// No.
    Denied {
        /// Whose no, by key.
        by: Digest,
    },
    /// Nobody answered in time, or the yes was not used in time: a denial.
    Expired,
    /// Taken back before it was used up.
    Withdrawn,
    /// Yes, and used up.
    Used {
        /// Whose yes, by key.
        by: Digest,
    },
}

impl State {
    /// The name, as records and messages spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved { .. } => "approved",
            Self::Denied { .. } => "denied",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
            Self::Used { .. } => "used",
        }
    }

    /// Whether nothing can become of it any more.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Pending | Self::Approved { .. })
    }

    /// Whether its time is over, so that [`Event::Expire`] would end it.
    pub fn is_past(&self, question: &Question, now: &Now) -> bool {
        match self {
            Self::Pending => question.is_past(now),
            Self::Approved { since, until, .. } => now.is_past(*since, *until, &question.boot),
            _ => false,
        }
    }
}

/// An effect that wants to go out on an approval, with everything read anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Whose it is.
    pub agent: AgentId,
    /// In which run.
    pub run: String,
    /// What is about to be done; its digest is taken here, not believed.
    pub effect: Effect,
    /// The policy set in force now.
    pub policy: Digest,
    /// Its risk, weighed now.
    pub risk: Risk,
    /// What the agent has seen by now.
    pub labels: Labels,
}

/// What can happen to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An approver answers.
    Decide(Verified),
    /// Its time is over.
    Expire,
    /// The agent, its turn or the operator takes it back.
    Withdraw,
    /// Its run is over.
    EndRun,
    /// An approver's key is revoked.
    Revoke(Digest),
    /// An effect wants to go out on it.
    Use(Box<Attempt>),
}

/// A step that isn't there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It was answered, or ended, before.
    #[error("the question is {0} and can't be decided again: ask anew")]
    Decided(&'static str),
    /// It can't be used as it stands.
    #[error("the question is {0}, so nothing may be done on it: ask anew")]
    NotApproved(&'static str),
    /// It is over already.
    #[error("the question is {0} already")]
    Over(&'static str),
    /// The time has passed.
    #[error("the question's time is over, and silence is denial: ask anew")]
    Expired,
    /// The time has not passed.
    #[error("the question still has time: only a clock past its end, or another boot, ends it")]
    NotYet,
    /// The decision is about something else.
    #[error("the decision is about question {found}, not {expected}")]
    OtherQuestion {
        /// What it answers.
        found: Digest,
        /// What was asked.
        expected: Digest,
    },
    /// The time up to which it was approved has passed already.
    #[error("the approval was to last until {0}, which is past")]
    UntilPast(u64),
    /// Another agent's effect.
    #[error("the approval is for agent `{approved}`, not for `{found}`")]
    OtherAgent {
        /// Whose question it was.
        approved: AgentId,
        /// Who wants to use the answer.
        found: AgentId,
    },
    /// Another run's effect.
    #[error("the approval is for run `{approved}`, not for `{found}`: ask anew in this run")]
    OtherRun {
        /// In which run it was asked.
        approved: String,
        /// In which run it would be used.
        found: String,
    },
    /// The policy changed in between.
    #[error("the policy changed from {approved} to {found} after the question was asked: ask anew")]
    OtherPolicy {
        /// The set that asked.
        approved: Digest,
        /// The set in force.
        found: Digest,
    },
    /// The agent has seen something since that the approver was not told of.
    #[error("the agent has seen something `{0}` after the question was asked: ask anew")]
    NewLabel(String),
    /// The effect changed in between.
    #[error("the effect has the digest {found}; what was approved has {approved}: ask anew")]
    OtherArguments {
        /// What was approved.
        approved: Digest,
        /// What wants to go out.
        found: Digest,
    },
    /// The effect isn't covered.
    #[error("the approval covers `{0}` and not this effect: ask anew")]
    OutOfPattern(String),
    /// No pattern reaches so far.
    #[error("this effect is of high risk and leaves the host: it needs an approval of its own")]
    OnceOnly,
    /// Nothing hangs on that key.
    #[error("the question was not approved with the key {0}")]
    NotBy(Digest),
    /// The approval outlasts runs.
    #[error("the approval lasts until its time, not only for this run")]
    OutlastsRun,
    /// Something has no canonical form, so no digest.
    #[error("{0}")]
    Form(String),
}

/// The state after an event, or why there is none: the state then stays as it is.
pub fn step(question: &Question, state: &State, event: &Event, now: &Now) -> Result<State, Refused> {
    match event {
        Event::Decide(verified) => decide(question, state, verified, now),
        Event::Use(attempt) => use_up(question, state, attempt, now),
        _ if state.is_final() => Err(Refused::Over(state.name())),
        Event::Expire if state.is_past(question, now) => Ok(State::Expired),
        Event::Expire => Err(Refused::NotYet),
        Event::Withdraw => Ok(State::Withdrawn),
        Event::EndRun if matches!(state, State::Approved { scope: Scope::Until { .. }, .. }) => {
            Err(Refused::OutlastsRun)
        }
        Event::EndRun => Ok(State::Withdrawn),
        Event::Revoke(key) => match state {
            State::Approved { by, .. } if by == key => Ok(State::Withdrawn),
            _ => Err(Refused::NotBy(*key)),
        },
    }
}

fn decide(question: &Question, state: &State, verified: &Verified, now: &Now) -> Result<State, Refused> {
    if *state != State::Pending {
        return Err(Refused::Decided(state.name()));
    }
    if question.is_past(now) {
        return Err(Refused::Expired);
    }
    let decision = verified.decision();
    let expected = question.digest().map_err(|why| Refused::Form(why.to_string()))?;
    if decision.question != expected {
        return Err(Refused::OtherQuestion { found: decision.question, expected });
    }
    let by = decision.by;
    if decision.verdict == Verdict::Deny {
        return Ok(State::Denied { by });
    }
    let until = match &decision.scope {
        Scope::Once => question.expires,
        Scope::Run { .. } => now.moment.after(MAX_RUN_MS),
        Scope::Until { wall_ms, .. } => {
            // A wall clock that was set back must not stretch it.
            let left = wall_ms.saturating_sub(now.moment.wall_ms).min(MAX_UNTIL_MS);
            if left == 0 {
                return Err(Refused::UntilPast(*wall_ms));
            }
            now.moment.after(left)
        }
    };
    Ok(State::Approved { scope: decision.scope.clone(), by, since: now.moment, until, uses: 0 })
}

fn use_up(question: &Question, state: &State, attempt: &Attempt, now: &Now) -> Result<State, Refused> {
    let State::Approved { scope, by, since, until, uses } = state else {
        return Err(Refused::NotApproved(state.name()));
    };
    if now.is_past(*since, *until, &question.boot) {
        return Err(Refused::Expired);
    }
    if attempt.agent != question.agent {
        return Err(Refused::OtherAgent { approved: question.agent.clone(), found: attempt.agent.clone() });
    }
    if attempt.policy != question.policy {
        return Err(Refused::OtherPolicy { approved: question.policy, found: attempt.policy });
    }
    if !matches!(scope, Scope::Until { .. }) && attempt.run != question.run {
        return Err(Refused::OtherRun { approved: question.run.clone(), found: attempt.run.clone() });
    }
    if let Some(new) = attempt.labels.iter().find(|label| !question.labels.contains(label)) {
        return Err(Refused::NewLabel(new.clone()));
    }
    let Some(pattern) = scope.pattern() else {
        let found = Digest::of_value(&attempt.effect).map_err(|why| Refused::Form(why.to_string()))?;
        // The effect is compared as well as its digest: the record is what was approved.
        if found != question.arguments || attempt.effect != question.effect {
            return Err(Refused::OtherArguments { approved: question.arguments, found });
        }
        return Ok(State::Used { by: *by });
    };
    if attempt.risk.is_once_only(&attempt.effect) {
        return Err(Refused::OnceOnly);
    }
    if !pattern.matches(&attempt.effect) {
        return Err(Refused::OutOfPattern(pattern.to_string()));
    }
    Ok(State::Approved { scope: scope.clone(), by: *by, since: *since, until: *until, uses: uses.saturating_add(1) })
}

//! What is held against an agent and what speaks for it, and the sum of it.

use serde::{Deserialize, Serialize};

use super::score::Score;
use super::standing::{TrustChange, TrustEvent};
use crate::outcome::Outcome;
use crate::record::{Body, Cause, Ending, TurnRecord};
use crate::refusal::Code;

/// Recorded facts about one agent, counted. Each fact counts once, in one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conduct {
    /// Turns that replied and in which nothing below happened.
    pub clean_turns: u64,
    /// Asks that the gate refused because of what the agent asked.
    pub refusals: u64,
    /// Asks and turns beyond a budget.
    pub overruns: u64,
    /// Turns that the host stopped because the agent broke: traps, malformed values.
    pub stopped: u64,
    /// Asks that a person said no to.
    pub denied: u64,
    /// Turns that a replay found not to be as recorded.
    pub mismatches: u64,
}

/// What one fact is counted as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Refusal,
    Overrun,
    Denied,
    /// It is not the agent's doing.
    Nothing,
}

fn mark(code: Code) -> Mark {
    match code {
        Code::BadAsk
        | Code::NotGranted
        | Code::EgressDenied
        | Code::NoPermit
        | Code::Forbidden
        | Code::ApprovalInvalid
        | Code::RailNotAllowed
        | Code::SecretNotBound
        | Code::SecretLeak
        | Code::BadSpend => Mark::Refusal,
        Code::BudgetExceeded
        | Code::PerActionLimit
        | Code::NoBudget
        | Code::EffectsSpent
        | Code::BytesSpent
        | Code::TooManyOpen => Mark::Overrun,
        Code::ApprovalDenied => Mark::Denied,
        // Whoever stopped it, was silent, wrote a rule that can't be evaluated, forgot a price or answered at length is not
        // the agent.
        Code::Killed
        | Code::Revoked
        | Code::MailboxClosed
        | Code::ApprovalExpired
        | Code::PolicyError
        | Code::Unpriced
        | Code::VaultLocked
        | Code::ResponseTooLarge => Mark::Nothing,
    }
}

impl Conduct {
    /// What one turn adds. It is all in the record.
    pub fn of_turn(record: &TurnRecord) -> Self {
        let mut found = Self::default();
        for entry in &record.tape {
            let Outcome::Refused(refusal) = &entry.outcome else { continue };
            match mark(refusal.code) {
                Mark::Refusal => found.refusals += 1,
                Mark::Overrun => found.overruns += 1,
                Mark::Denied => found.denied += 1,
                Mark::Nothing => {}
            }
        }
        match &record.ending {
            Ending::Replied(_) => found.clean_turns = u64::from(found == Self::default()),
            // Its own word that it failed is neither good nor bad.
            Ending::Failed(_) => {}
            Ending::Stopped(stop) => match stop.cause {
                Cause::Fuel | Cause::Memory | Cause::WallClock => found.overruns += 1,
                Cause::Trap | Cause::BadValue => found.stopped += 1,
                // The refusal that ended it is on the tape, and was counted there.
                Cause::Refused | Cause::Killed | Cause::Revoked => {}
            },
        }
        found
    }

    /// What one journal entry adds, if it is about the agent.
    pub fn of_entry(body: &Body) -> Self {
        match body {
            Body::Turn(record) => Self::of_turn(record),
            Body::TrustChanged(event) => Self::of_event(event),
            _ => Self::default(),
        }
    }

    /// What an event adds.
    pub fn of_event(event: &TrustEvent) -> Self {
        Self { mismatches: u64::from(event.change == TrustChange::Mismatch), ..Self::default() }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            clean_turns: self.clean_turns.saturating_add(other.clean_turns),
            refusals: self.refusals.saturating_add(other.refusals),
            overruns: self.overruns.saturating_add(other.overruns),
            stopped: self.stopped.saturating_add(other.stopped),
            denied: self.denied.saturating_add(other.denied),
            mismatches: self.mismatches.saturating_add(other.mismatches),
        }
    }
}

/// How a counter moves the score.
#[derive(Debug)]
pub struct Weight {
    /// As `trust show` calls it.
    pub name: &'static str,
    /// Hundredths for each `per` facts: below zero for what is held against the agent.
    pub each: i64,
    /// How many facts that takes.
    pub per: u64,
    /// Hundredths that it moves the score at most, whichever way.
    pub most: i64,
    count: fn(&Conduct) -> u64,
}

/// The formula: the base, and these. Good conduct earns slowly and up to a limit; what is worse weighs more. A replay that
/// differs is the one thing that ends trust by itself: twice is 0.00 from anywhere.
pub const TERMS: [Weight; 6] = [
    Weight { name: "clean turns", each: 1, per: 10, most: 30, count: |conduct| conduct.clean_turns },
    Weight { name: "refusals", each: -1, per: 1, most: 20, count: |conduct| conduct.refusals },
    Weight { name: "budget overruns", each: -2, per: 1, most: 20, count: |conduct| conduct.overruns },
    Weight { name: "stopped turns", each: -3, per: 1, most: 30, count: |conduct| conduct.stopped },
    Weight { name: "approvals denied", each: -5, per: 1, most: 40, count: |conduct| conduct.denied },
    Weight { name: "replay mismatches", each: -65, per: 1, most: 130, count: |conduct| conduct.mismatches },
];

/// One part of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Term {
    /// What it is for.
    pub name: &'static str,
    /// How often that was; none for the base.
    pub count: Option<u64>,
    /// By how many hundredths it moves the score.
    pub points: i64,
}

/// The parts of a score, the base first. Their sum, kept between 0.00 and 1.00, is the score.
pub fn terms(conduct: &Conduct, base: Score) -> Vec<Term> {
    let first = Term { name: "base", count: None, points: i64::from(base.hundredths()) };
    let of = |weight: &Weight| {
        let count = (weight.count)(conduct);
        let times = i64::try_from(count / weight.per).unwrap_or(i64::MAX);
        let points = times.saturating_mul(weight.each).clamp(-weight.most, weight.most);
        Term { name: weight.name, count: Some(count), points }
    };
    std::iter::once(first).chain(TERMS.iter().map(of)).collect()
}

/// The score of an agent that has behaved so.
pub fn score(conduct: &Conduct, base: Score) -> Score {
    Score::clamped(terms(conduct, base).iter().map(|term| term.points).sum())
}

//! What the gate found when it decided on an ask: enough for a stranger to decide again.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::approval::{Decision, Now, Question};
use crate::canonical::{Bytes, Digest};
use crate::ledger::Switches;
use crate::policy::Facts;
use crate::risk::Risk;
use crate::trust::Revoked;

/// What holds in the moment in which the gate decides, and the ask itself doesn't tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circumstance {
    /// What rules can read besides the ask.
    pub facts: Facts,
    /// That the asking agent is revoked; none if it isn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
    /// The rulebook in force, by digest.
    pub rulebook: Digest,
    /// The kill switches.
    pub switches: Switches,
}

/// How an ask was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ruling {
    /// What a person was asked: by a rule, or because a budget doesn't reach.
    pub asked: Vec<Asked>,
    /// How much harm it could do.
    pub risk: Risk,
    /// The rules that decided; none if no rule permits it.
    pub rules: Vec<String>,
    /// Under which circumstances.
    pub under: Circumstance,
    /// Budgets that are nearly or wholly used up by it.
    pub warnings: Vec<String>,
}

/// A question that was put to a person, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// What was asked.
    pub question: Question,
    /// The answer; none if nobody answered in time.
    pub answer: Option<Answered>,
    /// When the wait was over.
    pub at: Now,
    /// The circumstances then, in which the rules are read again.
    pub then: Circumstance,
    /// Answers that came and don't count, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// An answer that came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// What was decided, signed.
    pub decision: Decision,
    /// The approver's key, so that a stranger can check the signature.
    pub key: Bytes,
    /// When it reached the host.
    pub at: Now,
}

/// A turn's rulings. Asks that were judged alike share one, so that a thousand reads cost the record one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rulings(Vec<Ruling>);

/// How far back an equal ruling is looked for.
const NEAR: usize = 8;

impl Rulings {
    /// The ruling at a place.
    pub fn get(&self, place: u32) -> Option<&Ruling> {
        self.0.get(place as usize)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was judged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Ruling> {
        self.0.iter()
    }

    /// The rulebooks that were in force.
    pub fn rulebooks(&self) -> BTreeSet<Digest> {
        let asked = |ruling: &Ruling| ruling.asked.iter().map(|asked| asked.then.rulebook).collect::<Vec<_>>();
        self.iter().flat_map(|ruling| std::iter::once(ruling.under.rulebook).chain(asked(ruling))).collect()
    }

    /// Those from a place on.
    pub fn since(&self, place: usize) -> Self {
        Self(self.0.get(place..).unwrap_or_default().to_vec())
    }

    /// Adds those of a later part of the turn.
    pub fn extend(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    /// Finds a place for a ruling: that of an equal one close by, or a new one.
    pub fn place(&mut self, ruling: Ruling) -> u32 {
        let from = self.0.len().saturating_sub(NEAR);
        let found = self.0[from..].iter().rposition(|near| *near == ruling).map(|at| from + at);
        let place = found.unwrap_or_else(|| {
            self.0.push(ruling);
            self.0.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }
}

//! One line of an account: a unit over a period, against its cap.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::limits::MAX_AMOUNT;
use super::money::whole;
use super::unit::{Scope, Unit};

/// What was used of one unit over one period. Zeros aren't written: there are many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Used {
    /// The cap of which it was said that it is used; 0 if never.
    #[serde(deserialize_with = "whole", skip_serializing_if = "is_zero")]
    full: u64,
    /// The cap of which it was said that it is nearly used; 0 if never. A raised cap is worth another warning.
    #[serde(deserialize_with = "whole", skip_serializing_if = "is_zero")]
    near: u64,
    /// The sum of the open reservations.
    #[serde(deserialize_with = "whole", skip_serializing_if = "is_zero")]
    pub(super) reserved: u64,
    /// The sum, or for a peak the highest.
    #[serde(deserialize_with = "whole", skip_serializing_if = "is_zero")]
    pub(super) spent: u64,
}

impl Used {
    /// Books an open reservation.
    pub(super) fn hold(&mut self, unit: Unit, amount: u64) {
        if !unit.is_peak() {
            self.reserved = self.reserved.saturating_add(amount).min(MAX_AMOUNT);
        }
    }

    /// Takes a reservation back.
    pub(super) fn free(&mut self, unit: Unit, amount: u64) {
        if !unit.is_peak() {
            self.reserved = self.reserved.saturating_sub(amount);
        }
    }

    /// Books what was used. At the largest number that can be counted it stays there.
    pub(super) fn spend(&mut self, unit: Unit, amount: u64) {
        let spent = if unit.is_peak() { self.spent.max(amount) } else { self.spent.saturating_add(amount) };
        self.spent = spent.min(MAX_AMOUNT);
    }

    /// What is no longer there for others.
    pub(super) fn taken(&self) -> u64 {
        self.spent.saturating_add(self.reserved)
    }

    /// The marks that `level` has reached and that were not reported of this cap.
    pub(super) fn cross(&mut self, cap: Option<u64>, level: u64) -> impl Iterator<Item = Mark> + use<> {
        let cap = cap.unwrap_or(0);
        let reached = |percent: u64| cap > 0 && u128::from(level) * 100 >= u128::from(cap) * u128::from(percent);
        let near = (reached(NEAR_PERCENT) && self.near != cap).then_some(Mark::Near);
        let full = (reached(100) && self.full != cap).then_some(Mark::Full);
        if near.is_some() {
            self.near = cap;
        }
        if full.is_some() {
            self.full = cap;
        }
        near.into_iter().chain(full)
    }
}

/// Where a warning is due.
const NEAR_PERCENT: u64 = 80;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Everything used over one period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cell {
    /// The last day on which something was booked here.
    pub(super) day: u32,
    /// By unit; what isn't here was never used.
    pub(super) used: Usage,
}

/// What was used, by unit: a map, in order. Units are few, and an account is copied several times in a turn, so it is a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage(Vec<(Unit, Used)>);

impl Usage {
    fn place(&self, unit: Unit) -> Result<usize, usize> {
        self.0.binary_search_by_key(&unit, |(unit, _)| *unit)
    }

    pub(super) fn get(&self, unit: Unit) -> Option<Used> {
        self.place(unit).ok().map(|at| self.0[at].1)
    }

    pub(super) fn set(&mut self, unit: Unit, used: Used) {
        match self.place(unit) {
            Ok(at) => self.0[at].1 = used,
            Err(at) => self.0.insert(at, (unit, used)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Unit, Used)> {
        self.0.iter().copied()
    }
}

impl Serialize for Usage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Units)
    }
}

struct Units;

impl<'de> serde::de::Visitor<'de> for Units {
    type Value = Usage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what was used, by unit")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Usage, A::Error> {
        let mut usage = Usage::default();
        while let Some((unit, used)) = map.next_entry()? {
            usage.set(unit, used);
        }
        Ok(usage)
    }
}

/// One line of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Whose, over how long.
    pub scope: Scope,
    /// Which turn or run, or the day's number; empty for the total.
    pub of: String,
    /// Of what.
    pub unit: Unit,
    /// The cap; `None` is no cap.
    pub cap: Option<u64>,
    /// What was spent. Of memory: the highest.
    pub spent: u64,
    /// What is reserved.
    pub reserved: u64,
}

impl Line {
    /// What of the cap is neither spent nor reserved.
    pub fn left(&self) -> Option<u64> {
        self.cap.map(|cap| cap.saturating_sub(self.taken()))
    }

    /// What was spent and reserved beyond the cap: something took more than was reserved for it, or the cap was lowered.
    pub fn overdrawn(&self) -> u64 {
        self.cap.map_or(0, |cap| self.taken().saturating_sub(cap))
    }

    fn taken(&self) -> u64 {
        self.spent.saturating_add(self.reserved)
    }
}

/// How much of a cap is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// 80 % or more: a warning is due.
    Near,
    /// All of it.
    Full,
}

/// A line that has reached a mark. Reported once for each line, period and cap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Which mark.
    pub mark: Mark,
    /// The line, as it stands now.
    pub line: Line,
}

impl fmt::Display for Crossing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { scope, unit, cap, .. } = &self.line;
        let percent = if self.mark == Mark::Near { NEAR_PERCENT } else { 100 };
        let (cap, taken) = (unit.say(cap.unwrap_or(MAX_AMOUNT)), unit.say(self.line.taken()));
        write!(f, "{} has used {percent} % of its {cap} {}: {taken} so far", scope.holder, scope.period.phrase())
    }
}

/// An account whose figures contradict each other. It can't come from here: somebody changed what was stored.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the account of {holder} doesn't balance: {what}")]
pub struct Unbalanced {
    pub(super) holder: String,
    pub(super) what: String,
}

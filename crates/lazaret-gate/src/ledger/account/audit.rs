//! Whether an account's figures agree with each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Account, Hold, Place};
use crate::ledger::amounts::Point;
use crate::ledger::caps::Caps;
use crate::ledger::limits::{MAX_AMOUNT, MAX_CELLS, MAX_HOSTS, MAX_OPEN};
use crate::ledger::line::{Cell, Line, Unbalanced};
use crate::ledger::unit::{Period, Unit};

impl Account {
    /// Every line, if they balance: what is reserved on a line is the sum of the open reservations that touch it, so
    /// that `spent + reserved + left == cap + overdrawn` speaks of real things.
    pub fn balance(&self, caps: &Caps) -> Result<Vec<Line>, Unbalanced> {
        self.audit()?;
        let mut lines = Vec::new();
        for (period, key, cell) in self.cells() {
            let at = Point { day: self.day, run: key.to_owned(), turn: key.to_owned() };
            for (unit, used) in cell.used.iter() {
                lines.push(self.line(&at, Place { period, unit, cap: caps.cap(period, unit) }, used));
            }
        }
        Ok(lines)
    }

    /// All cells, each with what tells it from others of its period.
    fn cells(&self) -> impl Iterator<Item = (Period, &str, &Cell)> {
        let turns = self.turns.iter().map(|(key, cell)| (Period::Turn, key.as_str(), cell));
        let runs = self.runs.iter().map(|(key, cell)| (Period::Run, key.as_str(), cell));
        turns.chain(runs).chain([(Period::Day, "", &self.today), (Period::Total, "", &self.total)])
    }

    fn audit(&self) -> Result<(), Unbalanced> {
        let bad = |what: String| Err(Unbalanced { holder: self.holder.to_string(), what });
        if self.next >= MAX_AMOUNT || self.open.len() > MAX_OPEN {
            return bad(format!("{} reservations are open and the next would be {}", self.open.len(), self.next));
        }
        if self.turns.len() > MAX_CELLS || self.runs.len() > MAX_CELLS {
            return bad(format!("it has {} turns and {} runs", self.turns.len(), self.runs.len()));
        }
        if self.hosts.len() > MAX_HOSTS {
            return bad(format!("it counts {} hosts", self.hosts.len()));
        }
        if let Some(pair) = self.open.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            return bad(format!("reservation {} follows {}", pair[1].id, pair[0].id));
        }
        if let Some(hold) = self.open.iter().find(|hold| hold.id >= self.next || !self.placed(hold)) {
            return bad(format!("reservation {} stands on no line", hold.id));
        }
        let mut held = self.held();
        for (period, key, cell) in self.cells() {
            for (unit, used) in cell.used.iter() {
                let open = held.remove(&(period, key, unit)).unwrap_or(0);
                if used.reserved != open {
                    let (period, reserved) = (period.phrase(), unit.say(used.reserved));
                    return bad(format!("{reserved} is reserved {period}, but {} is open", unit.say(open)));
                }
            }
        }
        match held.into_iter().find(|(_, amount)| *amount > 0) {
            Some(((period, _, unit), open)) => {
                bad(format!("nothing is reserved {}, but {} is open", period.phrase(), unit.say(open)))
            }
            None => Ok(()),
        }
    }

    /// Whether a reservation's turn and run are there, and its day isn't one to come.
    fn placed(&self, hold: &Hold) -> bool {
        self.turns.contains_key(&hold.at.turn) && self.runs.contains_key(&hold.at.run) && hold.at.day <= self.day
    }

    /// What the open reservations add up to on each line.
    fn held(&self) -> BTreeMap<(Period, &str, Unit), u64> {
        let mut sums = BTreeMap::new();
        for hold in &self.open {
            let periods = Period::ALL.into_iter().filter(|&period| self.cell(period, &hold.at, hold.at.day).is_some());
            for period in periods {
                for unit in hold.amounts.units().filter(|unit| !unit.is_peak()) {
                    let sum: &mut u64 = sums.entry((period, key_of(period, &hold.at), unit)).or_default();
                    *sum = sum.saturating_add(hold.amounts.of(unit));
                }
            }
        }
        sums
    }
}

/// What tells the cells of one period apart. There is one day and one total.
fn key_of(period: Period, at: &Point) -> &str {
    match period {
        Period::Turn => &at.turn,
        Period::Run => &at.run,
        Period::Day | Period::Total => "",
    }
}

// INVARIANT: an account that was read balances.
impl<'de> Deserialize<'de> for Account {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let account = Self::deserialize(deserializer)?;
        account.audit().map_err(serde::de::Error::custom)?;
        Ok(account)
    }
}

impl Serialize for Account {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

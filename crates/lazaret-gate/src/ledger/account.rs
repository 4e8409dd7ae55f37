//! An account: reserve before, settle after, release on refusal or failure.

mod audit;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::amounts::{Amounts, Ask, Point};
use super::caps::{AtCap, Caps};
use super::hosts::HostUse;
use super::limits::{MAX_AMOUNT, MAX_CELLS, MAX_OPEN, RUN_DAYS, TURN_DAYS};
use super::line::{Cell, Crossing, Line, Mark, Used};
use super::short::Short;
use super::unit::{Holder, Period, Scope, Unit};

/// What one agent or one app has spent and reserved. A plain value with one canonical form, open reservations included:
/// store it with the transaction that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Account {
    /// The latest day that was handed in. It never goes back: a clock that does gives no second budget.
    day: u32,
    holder: Holder,
    /// What hosts with caps were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) hosts: BTreeMap<String, HostUse>,
    /// The id of the next reservation. Ids are never used again, so that one can't be settled twice.
    next: u64,
    /// By id.
    open: Vec<Hold>,
    /// Runs and turns are kept apart by name, because those of an app's agents interleave.
    runs: BTreeMap<String, Cell>,
    today: Cell,
    total: Cell,
    turns: BTreeMap<String, Cell>,
}

/// An open reservation, as the account keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Which one.
    pub id: u64,
    /// The day, run and turn that it is booked on, whenever it is settled.
    pub at: Point,
    /// What is reserved.
    pub amounts: Amounts,
}

/// The right to settle or release, once. It can't be copied; after a crash, [`Account::reopen`] gives it back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is reserved stays so until it is settled or released"]
pub struct Reservation {
    id: u64,
    holder: Holder,
    crossings: Vec<Crossing>,
}

impl Reservation {
    /// Its name in the account.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The lines that reached a mark by this reservation.
    pub fn crossings(&self) -> &[Crossing] {
        &self.crossings
    }
}

/// What settling did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The lines that reached a mark by it.
    pub crossings: Vec<Crossing>,
    /// The lines that are beyond their caps now. Nothing can be reserved on them before they roll over or are raised.
    pub overdrawn: Vec<Line>,
}

/// There is no such open reservation.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{holder} has no open reservation {id}: it was settled or released before, or is another account's")]
pub struct NotOpen {
    holder: Holder,
    id: u64,
}

impl Account {
    /// An account in which nothing was ever spent.
    pub fn new(holder: Holder) -> Self {
        Self {
            holder,
            next: 1,
            day: 0,
            today: Cell::default(),
            total: Cell::default(),
            runs: BTreeMap::new(),
            turns: BTreeMap::new(),
            open: Vec::new(),
            hosts: BTreeMap::new(),
        }
    }

    /// What of a unit was spent and is reserved on this day.
    pub fn today(&self, unit: Unit, day: u32) -> u64 {
        let used = if day <= self.day { self.today.used.get(unit) } else { None };
        used.map_or(0, |used| used.taken())
    }

    /// Whose it is.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The latest day that it has seen.
    pub fn day(&self) -> u32 {
        self.day
    }

    /// Reserves what an effect can take at worst, on its turn, run and day and on the total, or on none of them.
    pub fn reserve(&mut self, caps: &Caps, ask: &Ask, at: &Point) -> Result<Reservation, Short> {
        self.admit(caps, ask, at)?;
        Ok(self.book(caps, ask, at))
    }

    /// Whether there is room, with nothing booked.
    pub(super) fn admit(&mut self, caps: &Caps, ask: &Ask, at: &Point) -> Result<(), Short> {
        self.roll(at.day);
        self.room_for_one_more(at)?;
        caps.admit_money(&self.holder, ask)?;
        for period in Period::ALL {
            let cell = self.cell(period, at, self.day);
            for unit in ask.amounts.units() {
                let (cap, asked) = (caps.cap(period, unit), ask.amounts.of(unit));
                if cap.is_some() || asked > 0 {
                    let used = cell.and_then(|cell| cell.used.get(unit)).unwrap_or_default();
                    self.check(caps.at_cap, Place { period, unit, cap }, used, asked)?;
                }
            }
        }
        Ok(())
    }

    fn room_for_one_more(&self, at: &Point) -> Result<(), Short> {
        let full = |what, most| Err(Short::TooManyOpen { holder: self.holder.clone(), what, most });
        let no_room = |cells: &BTreeMap<String, Cell>, key| cells.len() >= MAX_CELLS && !cells.contains_key(key);
        match () {
            () if self.open.len() >= MAX_OPEN => full("reservations", MAX_OPEN),
            () if no_room(&self.turns, &at.turn) => full("turns", MAX_CELLS),
            () if no_room(&self.runs, &at.run) => full("runs", MAX_CELLS),
            () => Ok(()),
        }
    }

    /// Whether one line reaches. A line that is overdrawn refuses even an ask for nothing of it, or what is known only
    /// afterwards could be taken for ever by asking for nothing. Money is always asked for before.
    fn check(&self, at_cap: AtCap, place: Place, used: Used, asked: u64) -> Result<(), Short> {
        let Place { period, unit, cap } = place;
        let Used { spent, reserved, .. } = used;
        let fits = match cap {
            _ if unit.is_money() && asked == 0 => true,
            Some(cap) if unit.is_peak() => asked.max(spent) <= cap,
            Some(cap) => spent.saturating_add(reserved).saturating_add(asked) <= cap,
            // Without a cap, what was spent doesn't matter; what is reserved must be countable, to be given back.
            None if unit.is_peak() => asked <= MAX_AMOUNT,
            None => reserved.saturating_add(asked) <= MAX_AMOUNT,
        };
        if fits {
            return Ok(());
        }
        Err(Short::BudgetExceeded {
            scope: Scope { holder: self.holder.clone(), period },
            unit,
            cap: cap.unwrap_or(MAX_AMOUNT),
            spent,
            reserved,
            asked,
            at_cap,
        })
    }

    /// Books what was admitted.
    pub(super) fn book(&mut self, caps: &Caps, ask: &Ask, at: &Point) -> Reservation {
        let at = Point { day: self.day, ..at.clone() };
        for (cells, key) in [(&mut self.runs, &at.run), (&mut self.turns, &at.turn)] {
            if !cells.contains_key(key) {
                cells.insert(key.clone(), Cell::default());
            }
        }
        let mut seen = Vec::new();
        let asked = |unit: &Unit| ask.amounts.of(*unit);
        self.change(caps, &at, ask.amounts.units().filter(|unit| asked(unit) > 0), |line, used| {
            used.hold(line.unit, asked(&line.unit));
            if line.unit.asked_exactly() {
                seen.extend(used.cross(line.cap, used.taken()).map(|mark| (mark, line, *used)));
            }
        });
        let crossings = self.crossings(&at, seen);
        let id = self.next;
        self.next += 1;
        self.open.push(Hold { id, at, amounts: ask.amounts.clone() });
        Reservation { id, holder: self.holder.clone(), crossings }
    }

    /// Books what was really used in the place of what was reserved: on the day, run and turn of the reservation. It may be
    /// more, of what is known only afterwards.
    pub fn settle(&mut self, caps: &Caps, reservation: Reservation, actual: &Amounts) -> Result<Settled, NotOpen> {
        let Hold { at, amounts: held, .. } = self.close(reservation)?;
        // What was paid in another currency than reserved was still paid.
        let other =
            actual.money.map(|money| Unit::Money(money.currency)).filter(|unit| !held.units().any(|u| u == *unit));
        let (mut seen, mut over) = (Vec::new(), Vec::new());
        let touched = |unit: &Unit| held.of(*unit) > 0 || actual.of(*unit) > 0;
        self.change(caps, &at, held.units().chain(other).filter(touched), |line, used| {
            used.free(line.unit, held.of(line.unit));
            used.spend(line.unit, actual.of(line.unit));
            let level = if line.unit.asked_exactly() { used.taken() } else { used.spent };
            seen.extend(used.cross(line.cap, level).map(|mark| (mark, line, *used)));
            if line.cap.is_some_and(|cap| used.taken() > cap) {
                over.push((line, *used));
            }
        });
        let overdrawn = over.into_iter().map(|(line, used)| self.line(&at, line, used)).collect();
        Ok(Settled { crossings: self.crossings(&at, seen), overdrawn })
    }

    /// Books what is known only afterwards and has nothing reserved for it: what a turn itself took.
    pub fn charge(&mut self, caps: &Caps, at: &Point, actual: &Amounts) -> Result<Settled, NotOpen> {
        self.roll(at.day);
        let nothing = self.book(caps, &Ask::default(), at);
        self.settle(caps, nothing, actual)
    }

    /// Gives back what was reserved: the effect was refused, or failed before it used anything.
    pub fn release(&mut self, reservation: Reservation) -> Result<(), NotOpen> {
        let hold = self.close(reservation)?;
        let held = |unit: &Unit| hold.amounts.of(*unit) > 0;
        self.change(&Caps::default(), &hold.at, hold.amounts.units().filter(held), |line, used| {
            used.free(line.unit, hold.amounts.of(line.unit));
        });
        Ok(())
    }

    /// What is open, oldest first. After a crash: all that must be settled or released.
    pub fn open(&self) -> &[Hold] {
        &self.open
    }

    /// The right to settle or release something that is open, for a host that lost it in a crash.
    pub fn reopen(&self, id: u64) -> Option<Reservation> {
        let index = self.open.binary_search_by_key(&id, |hold| hold.id).ok()?;
        Some(Reservation { id: self.open[index].id, holder: self.holder.clone(), crossings: Vec::new() })
    }

    fn close(&mut self, reservation: Reservation) -> Result<Hold, NotOpen> {
        let Reservation { id, holder, .. } = reservation;
        match self.open.binary_search_by_key(&id, |hold| hold.id) {
            Ok(index) if holder == self.holder => Ok(self.open.remove(index)),
            _ => Err(NotOpen { holder: self.holder.clone(), id }),
        }
    }

    /// Begins a new day if this is a later one, and forgets turns and runs that must be over. What is open stays so, on
    /// its own day.
    pub fn roll(&mut self, day: u32) {
        if day <= self.day {
            return;
        }
        self.day = day;
        self.today = Cell { day, ..Cell::default() };
        let turns: BTreeSet<&str> = self.open.iter().map(|hold| hold.at.turn.as_str()).collect();
        let runs: BTreeSet<&str> = self.open.iter().map(|hold| hold.at.run.as_str()).collect();
        let fresh = |cell: &Cell, days: u32| cell.day.saturating_add(days) > day;
        self.turns.retain(|key, cell| fresh(cell, TURN_DAYS) || turns.contains(key.as_str()));
        self.runs.retain(|key, cell| fresh(cell, RUN_DAYS) || runs.contains(key.as_str()));
    }

    /// Sets the day back after a wrong clock put it in the future: an operator's act. What was spent since counts for the
    /// new day, so nothing is gained by it.
    pub fn set_back(&mut self, day: u32) {
        // The day before the new one must exist, for what was reserved earlier.
        let (wrong, day) = (self.day, day.max(1));
        if day >= wrong {
            return;
        }
        self.day = day;
        let cells = self.turns.values_mut().chain(self.runs.values_mut()).chain([&mut self.today, &mut self.total]);
        cells.for_each(|cell| cell.day = cell.day.min(day));
        for hold in &mut self.open {
            // A reservation of an earlier day than the wrong one must not come to stand on today's lines.
            hold.at.day = if hold.at.day == wrong { day } else { hold.at.day.min(day - 1) };
        }
    }

    /// Forgets a turn that is over. `false` if something of it is still open: settle or release that first.
    pub fn end_turn(&mut self, turn: &str) -> bool {
        let over = self.open.iter().all(|hold| hold.at.turn != turn);
        if over {
            self.turns.remove(turn);
        }
        over
    }

    /// Forgets a run that is over. `false` if something of it is still open: settle or release that first.
    pub fn end_run(&mut self, run: &str) -> bool {
        let over = self.open.iter().all(|hold| hold.at.run != run);
        if over {
            self.runs.remove(run);
        }
        over
    }

    /// Where something of this turn, run and day is booked. A day that is over has no lines any more.
    fn cell(&self, period: Period, at: &Point, day: u32) -> Option<&Cell> {
        match period {
            Period::Turn => self.turns.get(&at.turn),
            Period::Run => self.runs.get(&at.run),
            Period::Day => (day == self.day).then_some(&self.today),
            Period::Total => Some(&self.total),
        }
    }

    fn cell_mut(&mut self, period: Period, at: &Point) -> Option<&mut Cell> {
        match period {
            Period::Turn => self.turns.get_mut(&at.turn),
            Period::Run => self.runs.get_mut(&at.run),
            Period::Day => (at.day == self.day).then_some(&mut self.today),
            Period::Total => Some(&mut self.total),
        }
    }

    /// Goes through the lines that a point and some units touch.
    fn change(
        &mut self,
        caps: &Caps,
        at: &Point,
        units: impl Iterator<Item = Unit> + Clone,
        mut change: impl FnMut(Place, &mut Used),
    ) {
        let day = self.day;
        for period in Period::ALL {
            let Some(cell) = self.cell_mut(period, at) else { continue };
            cell.day = day;
            for unit in units.clone() {
                let mut used = cell.used.get(unit).unwrap_or_default();
                let before = used;
                change(Place { period, unit, cap: caps.cap(period, unit) }, &mut used);
                if used != before {
                    cell.used.set(unit, used);
                }
            }
        }
    }

    fn line(&self, at: &Point, place: Place, used: Used) -> Line {
        let Place { period, unit, cap } = place;
        let of = match period {
            Period::Turn => at.turn.clone(),
            Period::Run => at.run.clone(),
            Period::Day => at.day.to_string(),
            Period::Total => String::new(),
        };
        let scope = Scope { holder: self.holder.clone(), period };
        Line { scope, of, unit, cap, spent: used.spent, reserved: used.reserved }
    }

    fn crossings(&self, at: &Point, seen: Vec<(Mark, Place, Used)>) -> Vec<Crossing> {
        seen.into_iter().map(|(mark, place, used)| Crossing { mark, line: self.line(at, place, used) }).collect()
    }
}

/// A line, before it is worth a text.
#[derive(Clone, Copy)]
struct Place {
    period: Period,
    unit: Unit,
    cap: Option<u64>,
}

//! What an operator allows.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::amounts::Ask;
use super::hosts::{self, HostCaps};
use super::limits::{MAX_AMOUNT, MAX_HOSTS, MAX_RAILS};
use super::money::{BadName, Currency, Money, Rail};
use super::short::Short;
use super::unit::{Holder, Period, Unit};

/// The caps of one agent or one app. What isn't capped isn't limited here, with one exception: without a cap on money
/// there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct Caps {
    /// What happens at a cap.
    pub at_cap: AtCap,
    /// The one currency that money may be spent in.
    pub currency: Option<Currency>,
    /// For each day, UTC.
    pub day: Limits,
    /// For single hosts that requests go to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostCaps>,
    /// The most that one effect may cost, in millionths of the currency's unit.
    pub per_action: Option<u64>,
    /// The rails that money may travel on.
    pub rails: BTreeSet<Rail>,
    /// For each run.
    pub run: Limits,
    /// For ever.
    pub total: Limits,
    /// For each turn.
    pub turn: Limits,
}

/// The caps of one period. `None` is no cap, and isn't written: most agents have few.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes that leave the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// Asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effects: Option<u64>,
    /// Deterministic work of guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Bytes of memory, at the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Millionths of the currency's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<u64>,
    /// Bytes of turns' outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Milliseconds by the clock on the wall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

/// What happens at a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtCap {
    /// The run waits and a person is asked.
    #[default]
    Pause,
    /// The effect is refused.
    Refuse,
}

/// Caps that can't be kept.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadCaps {
    /// Larger than what can be counted.
    #[error("`{key}` can be at most {MAX_AMOUNT}, not {value}")]
    TooLarge {
        /// Which cap.
        key: String,
        /// What was written.
        value: u64,
    },
    /// Money of no currency.
    #[error("`{key}` is an amount of money, but there is no `currency`; give one too, like EUR")]
    NoCurrency {
        /// Which cap.
        key: String,
    },
    /// More rails than anybody has.
    #[error("there can be at most {MAX_RAILS} rails, not {0}")]
    TooManyRails(usize),
    /// More hosts than are counted.
    #[error("there can be at most {MAX_HOSTS} hosts with caps, not {0}")]
    TooManyHosts(usize),
    /// Not a host as requests name it.
    #[error("`{0}` is not a host that requests go to: {1}")]
    BadHost(String, String),
    /// There is no such cap.
    #[error(
        "`{0}` is not a cap; write PERIOD.UNIT, with turn, run, day or total and fuel, memory, wall_ms, effects, bytes_out, \
         output_bytes or money; or host.NAME.requests_per_minute or host.NAME.bytes_per_day; or currency, per_action, rails or \
         at_cap"
    )]
    UnknownKey(String),
    /// The value isn't one.
    #[error("`{value}` is not a value for `{key}`: write {form}")]
    BadValue {
        /// Which cap.
        key: String,
        /// What was written.
        value: String,
        /// What could be.
        form: &'static str,
    },
    /// A name in it isn't one.
    #[error(transparent)]
    BadName(#[from] BadName),
}

impl Limits {
    fn cap(&self, unit: Unit) -> Option<u64> {
        match unit {
            Unit::Fuel => self.fuel,
            Unit::Memory => self.memory,
            Unit::WallMs => self.wall_ms,
            Unit::Effects => self.effects,
            Unit::BytesOut => self.bytes_out,
            Unit::OutputBytes => self.output_bytes,
            Unit::Money(_) => self.money,
        }
    }

    fn named(&mut self, unit: &str) -> Option<&mut Option<u64>> {
        Some(match unit {
            "fuel" => &mut self.fuel,
            "memory" => &mut self.memory,
            "wall_ms" => &mut self.wall_ms,
            "effects" => &mut self.effects,
            "bytes_out" => &mut self.bytes_out,
            "output_bytes" => &mut self.output_bytes,
            "money" => &mut self.money,
            _ => return None,
        })
    }
}

impl Caps {
    /// The caps of one period.
    pub fn limits(&self, period: Period) -> &Limits {
        match period {
            Period::Turn => &self.turn,
            Period::Run => &self.run,
            Period::Day => &self.day,
            Period::Total => &self.total,
        }
    }

    fn limits_mut(&mut self, period: Period) -> &mut Limits {
        match period {
            Period::Turn => &mut self.turn,
            Period::Run => &mut self.run,
            Period::Day => &mut self.day,
            Period::Total => &mut self.total,
        }
    }

    /// The cap of one line; `None` is no cap. A cap on money holds for its own currency only.
    pub fn cap(&self, period: Period, unit: Unit) -> Option<u64> {
        match unit {
            Unit::Money(currency) if self.currency != Some(currency) => None,
            _ => self.limits(period).cap(unit).map(|cap| cap.min(MAX_AMOUNT)),
        }
    }

    /// The currency in which there is a budget, if there is one.
    pub fn budgeted(&self) -> Option<Currency> {
        self.currency.filter(|_| Period::ALL.iter().any(|&period| self.limits(period).money.is_some()))
    }

    /// Whether these caps can be kept: whole amounts that can be counted, and money only of a named currency.
    pub fn check(&self) -> Result<(), BadCaps> {
        // Names are made for what doesn't fit only: this is asked whenever a record is read.
        let fits = |key: &dyn Fn() -> String, value: Option<u64>, money: bool| match value {
            Some(value) if value > MAX_AMOUNT => Err(BadCaps::TooLarge { key: key(), value }),
            Some(_) if money && self.currency.is_none() => Err(BadCaps::NoCurrency { key: key() }),
            _ => Ok(()),
        };
        for period in Period::ALL {
            let limits = self.limits(period);
            for unit in Unit::COUNTED {
                fits(&|| format!("{}.{}", period.name(), unit.name()), limits.cap(unit), false)?;
            }
            fits(&|| format!("{}.money", period.name()), limits.money, true)?;
        }
        fits(&|| "per_action".to_owned(), self.per_action, true)?;
        hosts::check(&self.hosts)?;
        if self.rails.len() > MAX_RAILS { Err(BadCaps::TooManyRails(self.rails.len())) } else { Ok(()) }
    }

    /// Changes one cap by its name, as `lazaret budget set` spells it. `none` takes a cap away, and of money that is the
    /// budget itself. If the caps could then not be kept, nothing changes.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BadCaps> {
        let bad = |form| BadCaps::BadValue { key: cut(key), value: cut(value), form };
        let amount = || match value {
            "none" => Ok(None),
            digits => digits.parse().map(Some).map_err(|_| bad("a whole number, or none")),
        };
        let mut draft = self.clone();
        match key {
            "at_cap" if value == "pause" => draft.at_cap = AtCap::Pause,
            "at_cap" if value == "refuse" => draft.at_cap = AtCap::Refuse,
            "at_cap" => return Err(bad("pause or refuse")),
            "currency" => draft.currency = if value == "none" { None } else { Some(value.parse()?) },
            "rails" if value == "none" => draft.rails.clear(),
            "rails" => draft.rails = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "per_action" => draft.per_action = amount()?,
            _ if key.starts_with("host.") => {
                let set = hosts::set(&mut draft.hosts, &key["host.".len()..], amount()?);
                set.ok_or_else(|| BadCaps::UnknownKey(cut(key)))?;
            }
            _ => {
                let unknown = || BadCaps::UnknownKey(cut(key));
                let (period, unit) = key.split_once('.').ok_or_else(unknown)?;
                let period = Period::ALL.into_iter().find(|known| known.name() == period).ok_or_else(unknown)?;
                *draft.limits_mut(period).named(unit).ok_or_else(unknown)? = amount()?;
            }
        }
        draft.check()?;
        *self = draft;
        Ok(())
    }

    /// The caps that would just let this pass: what a person says yes to when a run pauses. `None` if no cap is in the
    /// way, or none that could be raised so far.
    pub fn raised(&self, short: &Short) -> Option<Self> {
        let mut caps = self.clone();
        match short {
            Short::BudgetExceeded { scope, unit, spent, reserved, asked, .. } => {
                let used = if unit.is_peak() { 0 } else { spent.checked_add(*reserved)? };
                let cap = used.checked_add(*asked)?.max(if unit.is_peak() { *spent } else { 0 });
                *caps.limits_mut(scope.period).named(unit.name())? = Some(cap);
            }
            Short::PerActionLimit { asked, .. } => caps.per_action = Some(asked.micros),
            _ => return None,
        }
        caps.check().is_ok().then_some(caps)
    }

    /// What the caps say about money before anything is counted: whether there is a budget, on which rails, and how much
    /// at once.
    pub(super) fn admit_money(&self, holder: &Holder, ask: &Ask) -> Result<(), Short> {
        if !ask.has_money() {
            return Ok(());
        }
        let has = self.budgeted();
        let asked = ask.amounts.money;
        let Some(currency) = has.filter(|currency| asked.is_none_or(|money| money.currency == *currency)) else {
            return Err(Short::NoBudget { holder: holder.clone(), asked, has });
        };
        if let Some(rail) = ask.rail.as_ref().filter(|rail| !self.rails.contains(rail)) {
            let allowed = self.rails.iter().cloned().collect();
            return Err(Short::RailNotAllowed { holder: holder.clone(), rail: rail.clone(), allowed });
        }
        match (self.per_action, asked) {
            (Some(limit), Some(asked)) if asked.micros > limit => Err(Short::PerActionLimit {
                holder: holder.clone(),
                limit: Money { micros: limit, currency },
                asked,
                at_cap: self.at_cap,
            }),
            _ => Ok(()),
        }
    }
}

/// What a message quotes of what somebody wrote.
fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

// INVARIANT: caps that were read are caps that can be kept.
impl<'de> Deserialize<'de> for Caps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let caps = Self::deserialize(deserializer)?;
        caps.check().map_err(serde::de::Error::custom)?;
        Ok(caps)
    }
}

impl Serialize for Caps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

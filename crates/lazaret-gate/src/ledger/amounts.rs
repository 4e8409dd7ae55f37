//! What is asked for, and when.

use serde::{Deserialize, Serialize};

use super::money::{Money, Rail, whole};
use super::prices::Prices;
use super::short::Short;
use super::spend::{Spend, spend_of};
use super::unit::Unit;
use crate::effect::Effect;

/// So much of each unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Amounts {
    /// Deterministic work of a guest.
    #[serde(deserialize_with = "whole")]
    pub fuel: u64,
    /// Bytes of memory, at the peak.
    #[serde(deserialize_with = "whole")]
    pub memory: u64,
    /// Milliseconds by the clock on the wall.
    #[serde(deserialize_with = "whole")]
    pub wall_ms: u64,
    /// Asks.
    #[serde(deserialize_with = "whole")]
    pub effects: u64,
    /// Bytes that leave the host.
    #[serde(deserialize_with = "whole")]
    pub bytes_out: u64,
    /// Bytes of the turn's output.
    #[serde(deserialize_with = "whole")]
    pub output_bytes: u64,
    /// Money, in one currency.
    pub money: Option<Money>,
}

impl Amounts {
    /// How much of this unit.
    pub fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Fuel => self.fuel,
            Unit::Memory => self.memory,
            Unit::WallMs => self.wall_ms,
            Unit::Effects => self.effects,
            Unit::BytesOut => self.bytes_out,
            Unit::OutputBytes => self.output_bytes,
            Unit::Money(currency) => self.money.filter(|money| money.currency == currency).map_or(0, |m| m.micros),
        }
    }

    /// Every unit that is counted, and money in the currency that this names, if any.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + Clone + use<> {
        Unit::COUNTED.into_iter().chain(self.money.map(|money| Unit::Money(money.currency)))
    }
}

/// What is to be reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The most that it can take.
    pub amounts: Amounts,
    /// The rail that its money travels on. Model calls are billed by their provider and have none.
    pub rail: Option<Rail>,
}

impl From<Amounts> for Ask {
    fn from(amounts: Amounts) -> Self {
        Self { amounts, rail: None }
    }
}

impl Ask {
    /// What an effect can take at worst of the units that the gate counts: one effect, the bytes that leave the host, and
    /// the money that its arguments name or that its model costs. What can't be known to be free is an error.
    pub fn of(effect: &Effect, prices: &Prices) -> Result<Self, Short> {
        let bytes_out = if effect.leaves_host() { effect.weight() } else { 0 };
        let mut ask = Self::from(Amounts { effects: 1, bytes_out, ..Amounts::default() });
        if let Some(Spend { amount, rail, .. }) = spend_of(effect)? {
            ask.amounts.money = Some(amount);
            ask.rail = Some(rail);
        }
        if let Effect::ModelGenerate(prompt) = effect {
            let worst = prices.worst_case(prompt).ok_or_else(|| Short::Unpriced { model: prompt.model.clone() })?;
            ask.amounts.money = (worst.micros > 0).then_some(worst);
        }
        Ok(ask)
    }

    /// Whether money is involved, even none of it.
    pub fn has_money(&self) -> bool {
        self.rail.is_some() || self.amounts.money.is_some_and(|money| money.micros > 0)
    }
}

/// When: the day, run and turn that something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Days since 1970-01-01, UTC.
    pub day: u32,
    /// Which run. Unique among all runs that the account sees.
    pub run: String,
    /// Which turn. Unique among all turns that the account sees: for an app, that is more than a number.
    pub turn: String,
}

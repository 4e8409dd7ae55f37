//! Amounts of money, the currencies they are in, and the rails they travel on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use super::limits::{MAX_AMOUNT, MAX_NAME};
use crate::canonical::spelled;

/// A text that can't be the name of what it should name.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` can't name {what}: write {form}")]
pub struct BadName {
    pub(super) text: String,
    pub(super) what: &'static str,
    pub(super) form: &'static str,
}

impl BadName {
    pub(super) fn new(text: &str, what: &'static str, form: &'static str) -> Self {
        Self { text: text.chars().take(2 * MAX_NAME).collect(), what, form }
    }
}

/// A currency by its ISO 4217 code. Amounts in different ones are never added, compared or converted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl FromStr for Currency {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        match *text.as_bytes() {
            [a, b, c] if [a, b, c].iter().all(u8::is_ascii_uppercase) => Ok(Self([a, b, c])),
            _ => Err(BadName::new(text, "a currency", "the three capital letters of its ISO 4217 code, like EUR")),
        }
    }
}

spelled!(Currency);

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&letter| fmt::Write::write_char(f, char::from(letter)))
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An amount of money, whole: a millionth of the currency's unit is the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Money {
    /// Millionths of the currency's unit.
    #[serde(deserialize_with = "whole")]
    pub micros: u64,
    /// Which currency.
    pub currency: Currency,
}

impl fmt::Display for Money {
    /// `1.25 EUR`: at least two places, and as many more as the amount needs; never rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, rest) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let places = format!("{rest:06}");
        let tail = places[2..].trim_end_matches('0');
        write!(f, "{units}.{}{tail} {}", &places[..2], self.currency)
    }
}

/// How money travels: `card`, `transfer`, … The names are the operator's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rail(String);

impl Rail {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Rail {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if lawful_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName::new(text, "a rail", "1 to 64 lower-case letters, digits and `-`, starting with a letter"))
        }
    }
}

spelled!(Rail);

impl fmt::Display for Rail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The alphabet of names that are safe to print and to put on a command line.
pub(super) fn lawful_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Reads an amount; one that could not be written back exactly is refused.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let amount = u64::deserialize(deserializer)?;
    if amount <= MAX_AMOUNT { Ok(amount) } else { Err(serde::de::Error::custom(too_large(amount))) }
}

pub(super) fn too_large(amount: u64) -> String {
    format!("an amount can be at most {MAX_AMOUNT}, not {amount}")
}

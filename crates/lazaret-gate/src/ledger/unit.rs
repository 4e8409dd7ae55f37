//! What is counted, for whom, and over how long.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::money::{BadName, Currency, Money, lawful_name};
use crate::canonical::spelled;
use crate::id::AgentId;

/// One thing that is counted. In the order of their names: a map by unit is then written as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Bytes that left the host.
    BytesOut,
    /// Asks.
    Effects,
    /// Deterministic work of a guest.
    Fuel,
    /// Bytes of memory. A peak, never a sum: only its cap means something.
    Memory,
    /// Millionths of one currency's unit. Each currency is a unit of its own.
    Money(Currency),
    /// Bytes of turns' outputs.
    OutputBytes,
    /// Milliseconds by the clock on the wall.
    WallMs,
}

impl Unit {
    /// All but money, which is as many units as there are currencies.
    pub const COUNTED: [Self; 6] =
        [Self::Fuel, Self::Memory, Self::WallMs, Self::Effects, Self::BytesOut, Self::OutputBytes];

    /// The name of its cap, as in a set of caps and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fuel => "fuel",
            Self::Memory => "memory",
            Self::WallMs => "wall_ms",
            Self::Effects => "effects",
            Self::BytesOut => "bytes_out",
            Self::OutputBytes => "output_bytes",
            Self::Money(_) => "money",
        }
    }

    /// An amount of it, in words.
    pub fn say(self, amount: u64) -> String {
        match self {
            Self::Fuel => format!("{amount} fuel"),
            Self::Memory => format!("{amount} bytes of memory"),
            Self::WallMs => format!("{amount} ms of wall time"),
            Self::Effects if amount == 1 => "1 effect".to_owned(),
            Self::Effects => format!("{amount} effects"),
            Self::BytesOut => format!("{amount} bytes out"),
            Self::OutputBytes => format!("{amount} bytes of output"),
            Self::Money(currency) => Money { micros: amount, currency }.to_string(),
        }
    }

    /// An amount of it where the unit was said before.
    pub(super) fn figure(self, amount: u64) -> String {
        if self.is_money() { self.say(amount) } else { amount.to_string() }
    }

    /// Whether the highest counts and not the sum, so that there is nothing to reserve.
    pub fn is_peak(self) -> bool {
        self == Self::Memory
    }

    /// Whether it is money.
    pub fn is_money(self) -> bool {
        matches!(self, Self::Money(_))
    }

    /// Whether an ask says what will be used and not only a ceiling. A turn reserves all the fuel it may burn: a warning
    /// about that would come with every turn, and mean nothing.
    pub(super) fn asked_exactly(self) -> bool {
        matches!(self, Self::Effects | Self::BytesOut | Self::Money(_))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Money(currency) => write!(f, "money:{currency}"),
            other => f.write_str(other.name()),
        }
    }
}

impl FromStr for Unit {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if let Some(code) = text.strip_prefix("money:") {
            return code.parse().map(Self::Money);
        }
        const FORM: &str = "fuel, memory, wall_ms, effects, bytes_out, output_bytes or money:CURRENCY";
        let named = Self::COUNTED.into_iter().find(|unit| unit.name() == text);
        named.ok_or_else(|| BadName::new(text, "a unit", FORM))
    }
}

spelled!(Unit);

/// Over how long a cap holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// One turn.
    Turn,
    /// One run.
    Run,
    /// One day, UTC.
    Day,
    /// For ever.
    Total,
}

impl Period {
    /// All of them, shortest first: the first cap that doesn't reach is the one that is named.
    pub const ALL: [Self; 4] = [Self::Turn, Self::Run, Self::Day, Self::Total];

    /// The name, as in a set of caps and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Run => "run",
            Self::Day => "day",
            Self::Total => "total",
        }
    }

    /// `per day`, `in total`.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Turn => "per turn",
            Self::Run => "per run",
            Self::Day => "per day",
            Self::Total => "in total",
        }
    }
}

/// Whose account it is. Written `agent:NAME` or `app:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// One agent.
    Agent(AgentId),
    /// One app: all of its agents together.
    App(String),
}

impl Holder {
    /// As `lazaret budget` takes it: an agent's name needs nothing before it.
    pub fn typed(&self) -> String {
        match self {
            Self::Agent(name) => name.to_string(),
            Self::App(_) => self.to_string(),
        }
    }
}

impl FromStr for Holder {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        const FORM: &str = "agent:NAME or app:NAME, a name being 1 to 64 lower-case letters, digits and `-`, starting \
                            with a letter";
        let bad = || BadName::new(text, "who has a budget", FORM);
        match text.split_once(':') {
            Some(("agent", name)) => name.parse().map(Self::Agent).map_err(|_| bad()),
            Some(("app", name)) if lawful_name(name) => Ok(Self::App(name.to_owned())),
            _ => Err(bad()),
        }
    }
}

spelled!(Holder);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::App(name) => write!(f, "app:{name}"),
        }
    }
}

/// Whose cap, over how long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Whose.
    pub holder: Holder,
    /// Over how long.
    pub period: Period,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.holder, self.period.phrase())
    }
}

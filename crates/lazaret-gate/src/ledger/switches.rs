//! The kill switches: no more money, or nothing at all.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::spend::spend_of;
use crate::effect::Effect;

/// Which switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// No effect that can cost money.
    Spend,
    /// No effect.
    All,
}

impl Switch {
    /// The name, as on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spend => "spend",
            Self::All => "all",
        }
    }
}

/// That a switch was thrown: who, when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thrown {
    /// Who did it.
    pub by: String,
    /// Milliseconds since 1970, UTC.
    pub at: u64,
    /// Why, in their own words; may be empty.
    pub reason: String,
}

impl Thrown {
    /// Who has stopped what, when and why.
    pub fn say(&self, switch: Switch) -> String {
        let Self { by, at, reason } = self;
        let what = match switch {
            Switch::Spend => "all spending",
            Switch::All => "everything",
        };
        let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        format!("{by} has stopped {what} at {}{why}", utc(*at))
    }
}

/// What happened to a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It was thrown.
    Thrown,
    /// It was lifted.
    Lifted,
}

/// A switch that was thrown or lifted, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchEvent {
    /// Which switch.
    pub switch: Switch,
    /// What happened to it.
    pub change: Change,
    /// Who did it.
    pub by: String,
    /// Milliseconds since 1970, UTC.
    pub at: u64,
    /// Why, in their own words; may be empty.
    pub reason: String,
}

/// Both switches as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switches {
    /// No effect, since.
    pub all: Option<Thrown>,
    /// No effect that can cost money, since.
    pub spend: Option<Thrown>,
}

impl Switches {
    /// Throws a switch. If it is thrown already, the first throw stands; the second is an event all the same.
    pub fn throw(&mut self, switch: Switch, thrown: Thrown) -> SwitchEvent {
        let Thrown { by, at, reason } = thrown;
        let event = SwitchEvent { switch, change: Change::Thrown, by, at, reason };
        self.apply(&event);
        event
    }

    /// Lifts a switch; `None` if it isn't thrown.
    pub fn lift(&mut self, switch: Switch, by: &str, at: u64, reason: &str) -> Option<SwitchEvent> {
        self.thrown(switch)?;
        let (by, reason) = (by.to_owned(), reason.to_owned());
        let event = SwitchEvent { switch, change: Change::Lifted, by, at, reason };
        self.apply(&event);
        Some(event)
    }

    /// Does what was recorded. All events in their order give the switches as they stand.
    pub fn apply(&mut self, event: &SwitchEvent) {
        let SwitchEvent { switch, change, by, at, reason } = event;
        let place = match switch {
            Switch::Spend => &mut self.spend,
            Switch::All => &mut self.all,
        };
        match change {
            Change::Thrown => {
                place.get_or_insert_with(|| Thrown { by: by.clone(), at: *at, reason: reason.clone() });
            }
            Change::Lifted => *place = None,
        }
    }

    /// Since when and by whom a switch is thrown.
    pub fn thrown(&self, switch: Switch) -> Option<&Thrown> {
        match switch {
            Switch::Spend => self.spend.as_ref(),
            Switch::All => self.all.as_ref(),
        }
    }

    /// Whether an effect may go on. `has_money`: whether it can cost any, a model without a price included. Money that
    /// the effect itself names, or could name, counts whatever the caller says.
    pub fn check(&self, effect: &Effect, has_money: bool) -> Result<(), Killed> {
        let costs = || has_money || !matches!(spend_of(effect), Ok(None));
        let switch = match self {
            Self { all: Some(_), .. } => Switch::All,
            Self { spend: Some(_), .. } if costs() => Switch::Spend,
            _ => return Ok(()),
        };
        match self.thrown(switch) {
            Some(thrown) => Err(Killed { switch, kind: effect.kind(), thrown: thrown.clone() }),
            None => Ok(()),
        }
    }
}

/// That an effect was stopped by a kill switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// Which switch.
    pub switch: Switch,
    /// The kind of effect that was stopped.
    pub kind: &'static str,
    /// Who threw it, when and why.
    pub thrown: Thrown,
}

impl Killed {
    /// What was stopped, by whom, when and why.
    pub fn reason(&self) -> String {
        format!("asked for `{}`, but {}", self.kind, self.thrown.say(self.switch))
    }

    /// The same of an effect that was under way. Nobody can call back what has left the host.
    pub fn in_flight(&self) -> String {
        let said = self.thrown.say(self.switch);
        format!("`{}` was under way and is cut off: {said}, and what was sent may have arrived", self.kind)
    }

    /// What an operator could do.
    pub fn remedy(&self) -> String {
        format!("`lazaret kill --lift {}` lets effects pass again", self.switch.name())
    }
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason(), self.remedy())
    }
}

impl std::error::Error for Killed {}

/// `2026-03-01T09:30:00Z`.
pub(crate) fn utc(millis: u64) -> String {
    let seconds = millis / 1000;
    let (mut year, mut day) = (1970, seconds / 86_400);
    // 400 years always have the same number of days, so that no clock makes this loop long.
    year += day / 146_097 * 400;
    day %= 146_097;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for days in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn days_have_their_dates() {
        let day = |number: u64| utc(number * 86_400_000);
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(1_772_357_400_999), "2026-03-01T09:30:00Z");
        assert_eq!(day(11_016), "2000-02-29T00:00:00Z");
        assert_eq!(day(11_017), "2000-03-01T00:00:00Z");
        assert_eq!(day(47_540), "2100-02-28T00:00:00Z");
        assert_eq!(day(47_541), "2100-03-01T00:00:00Z");
        assert_eq!(day(19_722), "2023-12-31T00:00:00Z");
        assert_eq!(utc(253_402_300_799_000), "9999-12-31T23:59:59Z");
        assert!(utc(u64::MAX).ends_with('Z'));
    }
}

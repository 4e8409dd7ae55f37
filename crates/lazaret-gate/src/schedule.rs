//! Schedules, as the journal has them: when an agent is to be woken, and with what.

use serde::{Deserialize, Serialize};

use crate::id::AgentId;
use crate::record::Message;

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum When {
    /// By a calendar.
    Cron {
        /// Five fields: minute, hour, day of the month, month, day of the week.
        expression: String,
        /// The time zone that they are meant in, by its name in the tz database.
        zone: String,
    },
    /// At every multiple of an interval.
    Every {
        /// Milliseconds since 1970 from which it is counted; the first is due one interval later.
        from: u64,
        /// How long it is, in milliseconds.
        interval: u64,
    },
}

/// What becomes of due times that pass while nobody could keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// They are passed over.
    Skip,
    /// However many there are, one message makes up for them.
    Once,
    /// Each is made up for, up to a limit; the oldest beyond it are passed over.
    All,
}

impl Missed {
    /// The name, as records spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Once => "once",
            Self::All => "all",
        }
    }
}

/// A schedule was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleAdded {
    /// Whom it wakes.
    pub agent: AgentId,
    /// Who made it.
    pub by: String,
    /// What it says then.
    pub message: Message,
    /// What becomes of due times that were missed.
    pub missed: Missed,
    /// Its name among the agent's schedules.
    pub schedule: String,
    /// When it is due.
    pub when: When,
}

/// A schedule is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRemoved {
    /// Whom it woke.
    pub agent: AgentId,
    /// Who removed it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Its name.
    pub schedule: String,
}

/// A schedule left its message in the agent's mailbox, in the same commit as this entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleFired {
    /// Whom it wakes.
    pub agent: AgentId,
    /// The due time that this is for, in milliseconds since 1970.
    pub due: u64,
    /// Due times that were passed over since it last fired; they are counted up to a limit.
    pub missed: u64,
    /// Its name.
    pub schedule: String,
}

//! The names of errors, for programs. They stay the same from release to release.

use lazaret_store::{StoreError, Unscheduled};

use crate::asking::Unanswerable;
use crate::error::HostError;

impl HostError {
    /// Which kind of error it is.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rules(_) => "rules",
            Self::Approvals(_) => "approvals",
            Self::Unanswerable(why) => match why {
                Unanswerable::Unknown(_) => "no-question",
                Unanswerable::Ambiguous { .. } => "ambiguous",
                Unanswerable::Expired(_) => "expired",
                Unanswerable::Answered { .. } => "answered",
                Unanswerable::Bad(_) => "bad-decision",
            },
            Self::Killed(_) => "killed",
            Self::StillActing { .. } => "still-acting",
            Self::NoEffect { .. } => "no-effect",
            Self::Caps(_) | Self::BadCap(_) => "bad-cap",
            Self::Store(why) => of_store(why),
            Self::Engine(_) => "engine",
            Self::Inadmissible(_) => "inadmissible",
            Self::Budget(_) => "bad-budget",
            Self::NoAgent(_) => "no-agent",
            Self::Removed(_) => "removed",
            Self::InDoubt { .. } => "in-doubt",
            Self::NotInDoubt(_) => "not-in-doubt",
            Self::InputTooLarge { .. } | Self::TooLong { .. } | Self::Wordy { .. } => "input-too-large",
            Self::Unwritten(_) => "unwritten",
            Self::Spent(_) => "spent",
            Self::Halted(_) => "halted",
            Self::Unresumable { .. } => "unresumable",
            Self::Image { .. } => "image",
            Self::Heap(_) => "heap",
            Self::Record(_) => "record",
            Self::OtherEngine { .. } => "other-engine",
            Self::Unvouched(_) => "unvouched",
            Self::NoTurn { .. } => "no-turn",
            Self::Selection(_) => "selection",
            Self::Bundle(_) => "bundle",
            Self::Unexportable(_) => "unexportable",
            Self::Unserved(_) => "unserved",
            Self::Stopping => "stopping",
            Self::Others(_) => "others",
            Self::File { .. } => "file",
            Self::Revoked { .. } => "revoked",
            Self::Revocations(_) => "revocations",
            Self::Quarantined { .. } => "quarantined",
            Self::NotQuarantined(_) => "not-quarantined",
            Self::Unfinished { .. } => "unfinished",
            Self::Stateless(_) => "stateless",
            Self::Gone { .. } => "gone",
            Self::MailboxFull { .. } => "mailbox-full",
            Self::Draining(_) => "stopping",
            Self::NotRunning { .. } => "not-running",
            Self::Schedule(_) => "bad-schedule",
            Self::Schedules(_) => "too-many-schedules",
        }
    }
}

fn of_store(why: &StoreError) -> &'static str {
    match why {
        StoreError::Busy { .. } => "busy",
        StoreError::DiskFull => "disk-full",
        StoreError::ReadOnly { .. } => "read-only",
        StoreError::NoStore { .. } => "no-data-root",
        StoreError::Newer { .. } => "newer",
        StoreError::NameTaken { .. } => "name-taken",
        StoreError::NoSuchAgent { .. } => "no-agent",
        StoreError::MailboxFull { .. } | StoreError::MailboxHeavy { .. } => "mailbox-full",
        StoreError::Schedule { why, .. } => match why {
            Unscheduled::Taken => "schedule-taken",
            Unscheduled::Full => "too-many-schedules",
            Unscheduled::Absent => "no-schedule",
            Unscheduled::Fired(_) => "store",
        },
        StoreError::NoSuchEntry { .. } => "no-entry",
        StoreError::Corrupt { .. } | StoreError::Damaged { .. } | StoreError::Broken { .. } => "damaged",
        _ => "store",
    }
}

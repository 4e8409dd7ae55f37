//! The names of errors, for programs. They stay the same from release to release.

use std::io::ErrorKind;

use lazaret_store::vault::VaultError;
use lazaret_store::{StoreError, Unscheduled};

use crate::asking::Unanswerable;
use crate::error::HostError;
use crate::keys::Locked;

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
            Self::Preflight { .. } => "preflight",
            Self::Store(why) => of_store(why),
            Self::Vault(why) => of_vault(why),
            Self::Locked(why) => of_locked(why),
            Self::SlotUnknown { why, .. } => of_locked(why),
            Self::VaultUnrecorded(_) => "unwritten",
            Self::HostUndeclared { .. } => "host-undeclared",
            Self::SlotEmpty { .. } => "slot-empty",
            Self::BadSecret(_) => "bad-secret",
            Self::Engine(_) => "engine",
            Self::Inadmissible(_) => "inadmissible",
            Self::Budget(_) => "bad-budget",
            Self::NoAgent(_) => "no-agent",
            Self::Removed(_) => "removed",
            Self::InDoubt { .. } => "in-doubt",
            Self::NotInDoubt(_) => "not-in-doubt",
            Self::InputTooLarge { .. } | Self::TooLong { .. } | Self::Wordy { .. } => "input-too-large",
            Self::Unwritten(_) => "unwritten",
            Self::Begun { .. } => "begun",
            Self::InMemory { .. } => "unsaved",
            Self::Unsaved { why, .. } if why.kind() == ErrorKind::StorageFull => "disk-full",
            Self::Unsaved { .. } => "file",
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
            Self::Delayed { .. } => "delayed",
            Self::NotRunning { .. } => "not-running",
            Self::Schedule(_) => "bad-schedule",
            Self::Schedules(_) => "too-many-schedules",
        }
    }
}

fn of_locked(why: &Locked) -> &'static str {
    match why {
        Locked::Missing => "no-vault",
        Locked::Shut => "vault-locked",
        Locked::Gone | Locked::Other { .. } => "vault-replaced",
        Locked::Vault(why) => of_vault(why),
        Locked::Unrecorded(_) => "unwritten",
    }
}

fn of_vault(why: &VaultError) -> &'static str {
    match why {
        VaultError::Disk(why) => of_store(why),
        VaultError::Missing { .. } => "no-vault",
        VaultError::Exists { .. } => "vault-exists",
        VaultError::Busy => "busy",
        VaultError::Damaged { .. } | VaultError::Tampered { .. } => "vault-damaged",
        VaultError::RolledBack { .. } | VaultError::Forked { .. } => "vault-replaced",
        VaultError::WrongKey { .. } => "wrong-key",
        VaultError::NoSuchSecret { .. } => "no-secret",
        VaultError::StillBound { .. } => "still-bound",
        VaultError::NotBound { .. } => "not-bound",
        _ => "vault",
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

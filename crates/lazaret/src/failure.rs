//! Failures as people see them, and the exit codes that programs see.

use std::path::Path;
use std::process::ExitCode;

use lazaret_guest::Inadmissible;
use lazaret_guest::state::Unwakeable;
use lazaret_host::{HostError, Locked, Unanswerable};
use lazaret_link::{BadToken, Fault, LinkError};
use lazaret_store::StoreError;
use lazaret_store::vault::VaultError;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Done = 0,
    Failed = 1,
    BadInput = 3,
    Mismatch = 4,
    Unverifiable = 5,
    TurnFailed = 6,
    Busy = 7,
    InDoubt = 8,
    Over = 9,
    Revoked = 10,
    Locked = 11,
}

impl Code {
    /// The code that another process means.
    fn of(exit: u8) -> Self {
        let all = [Self::Done, Self::BadInput, Self::Mismatch, Self::Unverifiable, Self::TurnFailed, Self::Busy];
        let mut all = all.into_iter().chain([Self::InDoubt, Self::Over, Self::Revoked, Self::Locked]);
        all.find(|code| *code as u8 == exit).unwrap_or(Self::Failed)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// A command that could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Token(#[from] BadToken),
    #[error("{what} `{path}`: {why}")]
    File { what: &'static str, path: String, why: std::io::Error },
    #[error("`{path}` is refused: {why}")]
    Component { path: String, why: Inadmissible },
    #[error("{0}")]
    Input(String),
    #[error("{0}")]
    Busy(String),
    #[error("{0}")]
    Failed(String),
    /// What was asked for is in force, and nobody has said that it is done.
    #[error("{0}")]
    Unconfirmed(String),
    #[error("{0}")]
    Mismatch(String),
}

impl Failure {
    /// A host's error about a component that the user named.
    pub(crate) fn of_component(path: &Path, why: HostError) -> Self {
        match why {
            HostError::Inadmissible(why) => Self::Component { path: path.display().to_string(), why },
            why => Self::Host(why),
        }
    }

    /// The same failure, if it is about a component that the user named.
    pub(crate) fn about_component(self, path: &Path) -> Self {
        match self {
            Self::Host(why) => Self::of_component(path, why),
            Self::Link(LinkError::Fault(fault)) if fault.code == "inadmissible" => {
                let message = format!("`{}` is refused: {}", path.display(), fault.message);
                Self::Link(LinkError::Fault(Fault { message, ..fault }))
            }
            other => other,
        }
    }

    /// Whether it says itself that what was asked for is in force, and what is the matter with that.
    pub(crate) fn is_in_force(&self) -> bool {
        match self {
            Self::Host(HostError::StillActing { .. } | HostError::InMemory { .. }) | Self::Unconfirmed(_) => true,
            Self::Link(LinkError::Fault(fault)) => matches!(&*fault.code, "still-acting" | "unsaved"),
            _ => false,
        }
    }

    /// As it is told to another process.
    pub(crate) fn fault(&self) -> Fault {
        let code = match self {
            Self::Host(why) => why.code(),
            Self::Link(LinkError::Fault(fault)) => return fault.clone(),
            _ => "failed",
        };
        Fault::new(code, &self.to_string(), self.code() as u8)
    }

    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Host(HostError::Store(why)) | Self::Store(why) => store_code(why),
            Self::Host(HostError::Inadmissible(_) | HostError::InputTooLarge { .. } | HostError::Budget(_)) => {
                Code::BadInput
            }
            Self::Host(HostError::Schedule(_) | HostError::BadSecret(_)) => Code::BadInput,
            Self::Host(HostError::Vault(why)) => vault_code(why),
            Self::Host(HostError::Locked(why)) => locked_code(why),
            Self::Host(HostError::SlotUnknown { why, .. }) => locked_code(why),
            Self::Host(HostError::HostUndeclared { .. }) => Code::BadInput,
            Self::Host(HostError::BadCap(_) | HostError::TooLong { .. }) => Code::BadInput,
            Self::Host(HostError::Stopping) | Self::Busy(_) => Code::Busy,
            Self::Link(LinkError::Fault(fault)) => Code::of(fault.exit),
            Self::Link(LinkError::TooLarge { .. }) => Code::BadInput,
            Self::Host(HostError::Selection(_)) | Self::Component { .. } | Self::Input(_) => Code::BadInput,
            Self::Host(HostError::Bundle(_) | HostError::Unvouched(_)) | Self::Mismatch(_) => Code::Mismatch,
            Self::Host(HostError::InDoubt { .. }) => Code::InDoubt,
            Self::Host(HostError::Revoked { .. }) => Code::Revoked,
            Self::Host(HostError::Gone { .. }) => Code::Mismatch,
            Self::Host(HostError::Wordy { .. }) => Code::BadInput,
            Self::Host(
                HostError::Killed(_)
                | HostError::Spent(_)
                | HostError::SlotEmpty { .. }
                | HostError::Quarantined { .. }
                | HostError::Delayed { .. }
                | HostError::NotRunning { .. },
            ) => Code::TurnFailed,
            Self::Host(HostError::Unanswerable(why)) => match why {
                Unanswerable::Expired(_) | Unanswerable::Answered { .. } => Code::Over,
                Unanswerable::Ambiguous { .. } | Unanswerable::Bad(_) => Code::BadInput,
                Unanswerable::Unknown(_) => Code::Failed,
            },
            Self::Host(HostError::Image { why: Unwakeable::Missing(_) | Unwakeable::Damaged(_), .. }) => Code::Mismatch,
            Self::Host(_) | Self::Link(_) | Self::Token(_) | Self::File { .. } => Code::Failed,
            Self::Failed(_) | Self::Unconfirmed(_) => Code::Failed,
        }
    }
}

fn locked_code(why: &Locked) -> Code {
    match why {
        Locked::Shut => Code::Locked,
        Locked::Gone | Locked::Other { .. } => Code::Mismatch,
        Locked::Vault(why) => vault_code(why),
        Locked::Missing | Locked::Unrecorded(_) => Code::Failed,
    }
}

fn vault_code(why: &VaultError) -> Code {
    match why {
        VaultError::Disk(why) => store_code(why),
        VaultError::Busy => Code::Busy,
        VaultError::Damaged { .. } | VaultError::Tampered { .. } => Code::Mismatch,
        VaultError::RolledBack { .. } | VaultError::Forked { .. } => Code::Mismatch,
        VaultError::Passphrase | VaultError::ValueShort | VaultError::ValueLong => Code::BadInput,
        VaultError::NotForHeader { .. } | VaultError::KeyFileBad { .. } => Code::BadInput,
        VaultError::Name(_) | VaultError::Binding(_) => Code::BadInput,
        _ => Code::Failed,
    }
}

fn store_code(why: &StoreError) -> Code {
    match why {
        StoreError::Busy { .. } => Code::Busy,
        StoreError::Corrupt { .. } | StoreError::Damaged { .. } | StoreError::Broken { .. } => Code::Mismatch,
        _ => Code::Failed,
    }
}

//! Failures as people see them, and the exit codes that programs see.

use std::process::ExitCode;

use lazaret_host::HostError;
use lazaret_store::StoreError;

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
    #[error("{what} `{path}`: {why}")]
    File { what: &'static str, path: String, why: std::io::Error },
    #[error("{0}")]
    Input(String),
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Mismatch(String),
}

impl Failure {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Host(HostError::Store(why)) | Self::Store(why) => store_code(why),
            Self::Host(HostError::Inadmissible(_) | HostError::InputTooLarge { .. } | HostError::Budget(_)) => Code::BadInput,
            Self::Host(HostError::Selection(_)) | Self::Input(_) => Code::BadInput,
            Self::Host(HostError::Bundle(_)) | Self::Mismatch(_) => Code::Mismatch,
            Self::Host(HostError::InDoubt { .. }) => Code::InDoubt,
            Self::Host(_) | Self::File { .. } | Self::Failed(_) => Code::Failed,
        }
    }
}

fn store_code(why: &StoreError) -> Code {
    match why {
        StoreError::Busy { .. } => Code::Busy,
        _ => Code::Failed,
    }
}

//! What the supervisor asks of the host about an agent's standing.

use lazaret_gate::AgentId;
use lazaret_store::{AgentRow, AgentState};

use crate::error::HostError;
use crate::host::Host;
use crate::life::Life;
use crate::supervisor::core::Standing;

/// How an agent stands on disk.
pub(super) fn standing(host: &Host, row: &AgentRow) -> Standing {
    let (mail, unfinished) = (!row.queued.is_empty(), row.unfinished.is_some());
    Standing { life: Life::on_disk(host, row), mail, unfinished, streak: row.streak }
}

impl Life {
    /// What an agent is, as far as the disk tells.
    pub(crate) fn on_disk(host: &Host, row: &AgentRow) -> Self {
        match row.state {
            AgentState::Removed => Self::Dead,
            _ if host.trusted(row).is_err() => Self::Revoked,
            AgentState::Quarantined => Self::Quarantined,
            AgentState::InDoubt => Self::InDoubt,
            AgentState::Asleep if row.turn == 0 => Self::New,
            AgentState::Asleep => Self::Asleep,
        }
    }
}

/// Takes an agent out of service because it was stopped too often in a row.
pub(super) fn quarantine(host: &Host, agent: &AgentId, reason: &str) -> Result<(), HostError> {
    match host.quarantine(agent, "the keeper", reason) {
        // Somebody else was faster.
        Err(HostError::Quarantined { .. }) => Ok(()),
        done => done,
    }
}

/// What an operator can do about an agent that takes no turns.
pub(super) fn help(agent: &AgentId, life: Life) -> String {
    match life {
        Life::Quarantined => format!("`lazaret agent wake {agent}` lets it go on"),
        Life::Revoked => format!("`lazaret trust restore {agent}` lets it go on"),
        Life::InDoubt => format!("look at it with `lazaret agent show {agent}` and settle it"),
        _ => "its records remain in the journal".to_owned(),
    }
}

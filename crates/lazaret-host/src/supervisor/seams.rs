//! What the supervisor asks of the host about an agent's standing.

use lazaret_gate::record::Ending;
use lazaret_gate::{AgentId, Effect, Outcome};
use lazaret_guest::state::Unwakeable;
use lazaret_store::{AgentRow, AgentState, StoreError};

use crate::error::HostError;
use crate::host::Host;
use crate::life::Life;
use crate::supervisor::core::{Ended, Standing};
use crate::turns::Turn;

/// How an agent stands on disk.
pub(super) fn standing(host: &Host, row: &AgentRow) -> Standing {
    let (mail, unfinished) = (!row.queued.is_empty(), row.unfinished.is_some());
    Standing { life: Life::on_disk(host, row), mail, unfinished, streak: row.streak }
}

impl Life {
    /// What an agent is, as far as the disk tells.
    pub(crate) fn on_disk(host: &Host, row: &AgentRow) -> Self {
        // One that is gone is asked nothing more.
        let revoked = row.state != AgentState::Removed && host.trusted(row).is_err();
        Self::of(row, revoked)
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

/// Whom a turn has written to.
pub(super) fn recipients(turn: &Turn) -> Vec<AgentId> {
    if !matches!(turn.record.ending, Ending::Replied(_)) {
        return Vec::new();
    }
    let sent = turn.record.tape.iter().filter(|entry| matches!(entry.outcome, Outcome::Done(_)));
    let sent = sent.filter_map(|entry| match &entry.effect {
        Effect::AgentsSend { to, .. } => to.parse().ok(),
        _ => None,
    });
    sent.collect()
}

/// What a turn that is not on record means for the next.
pub(super) fn failed(why: &HostError) -> Ended {
    match why {
        HostError::Killed(_) | HostError::Revoked { .. } | HostError::Quarantined { .. } => Ended::Cut,
        HostError::InDoubt { .. } => Ended::Doubt,
        HostError::Store(StoreError::NoSuchAgent { .. }) | HostError::NoAgent(_) | HostError::Removed(_) => {
            Ended::Nothing
        }
        HostError::Unresumable { .. }
        | HostError::Image { why: Unwakeable::Missing(_) | Unwakeable::Damaged(_), .. }
        | HostError::Unvouched(_)
        | HostError::Record(_)
        | HostError::Inadmissible(_) => Ended::Broken(why.to_string()),
        // A full disk, no memory, an overdrawn budget, another engine, a required slot that is empty: it passes, or somebody
        // mends it. Its mail waits, it is tried after ever longer pauses, and whoever binds a secret or unlocks the vault
        // has it looked at again.
        _ => Ended::Unable(why.to_string()),
    }
}

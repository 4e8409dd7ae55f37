//! Schedules in the row of their agent.

use crate::agents::{AgentRow, Standing};
use crate::error::StoreError;
use crate::limits::MAX_SCHEDULES;

/// Why a schedule can't be made, removed or fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unscheduled {
    /// The name is taken.
    #[error("there is one of that name; remove it first, or choose another name")]
    Taken,
    /// The agent has too many.
    #[error("it has {MAX_SCHEDULES}, which is the most; remove one first")]
    Full,
    /// It isn't there.
    #[error("there is none of that name")]
    Absent,
    /// It fired for this before.
    #[error("it fired for due times up to {0} before")]
    Fired(u64),
}

fn wrong(row: &AgentRow, name: &str, why: Unscheduled) -> StoreError {
    StoreError::Schedule { agent: row.agent.clone(), schedule: name.to_owned(), why }
}

pub(crate) fn add(row: &mut AgentRow, name: String, entry: u64, until: u64) -> Result<(), StoreError> {
    if row.schedules.iter().any(|standing| standing.name == name) {
        return Err(wrong(row, &name, Unscheduled::Taken));
    }
    if row.schedules.len() >= MAX_SCHEDULES {
        return Err(wrong(row, &name, Unscheduled::Full));
    }
    row.schedules.push(Standing { name, entry, until });
    Ok(())
}

pub(crate) fn remove(row: &mut AgentRow, name: &str) -> Result<(), StoreError> {
    let place = row.schedules.iter().position(|standing| standing.name == name);
    let place = place.ok_or_else(|| wrong(row, name, Unscheduled::Absent))?;
    row.schedules.remove(place);
    Ok(())
}

/// A due time is done with once: whoever comes later with the same one is told so.
pub(crate) fn fire(row: &mut AgentRow, name: &str, until: u64) -> Result<(), StoreError> {
    let Some(standing) = row.schedules.iter_mut().find(|standing| standing.name == name) else {
        return Err(wrong(row, name, Unscheduled::Absent));
    };
    if until <= standing.until {
        let done = standing.until;
        return Err(wrong(row, name, Unscheduled::Fired(done)));
    }
    standing.until = until;
    Ok(())
}

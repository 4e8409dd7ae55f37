//! Schedules in the row of their agent.

use crate::agents::{AgentRow, Standing};
use crate::error::StoreError;
use crate::limits::MAX_SCHEDULES;

fn wrong(row: &AgentRow, name: &str, why: impl Into<String>) -> StoreError {
    StoreError::Schedule { agent: row.agent.clone(), schedule: name.to_owned(), why: why.into() }
}

pub(crate) fn add(row: &mut AgentRow, name: String, entry: u64, until: u64) -> Result<(), StoreError> {
    if row.schedules.iter().any(|standing| standing.name == name) {
        return Err(wrong(row, &name, "there is one of that name; remove it first, or choose another name"));
    }
    if row.schedules.len() >= MAX_SCHEDULES {
        return Err(wrong(row, &name, format!("it has {MAX_SCHEDULES}, which is the most; remove one first")));
    }
    row.schedules.push(Standing { name, entry, until });
    Ok(())
}

pub(crate) fn remove(row: &mut AgentRow, name: &str) -> Result<(), StoreError> {
    let place = row.schedules.iter().position(|standing| standing.name == name);
    let place = place.ok_or_else(|| wrong(row, name, "there is none of that name"))?;
    row.schedules.remove(place);
    Ok(())
}

/// A due time is done with once: whoever comes later with the same one is told so.
pub(crate) fn fire(row: &mut AgentRow, name: &str, until: u64) -> Result<(), StoreError> {
    let Some(standing) = row.schedules.iter_mut().find(|standing| standing.name == name) else {
        return Err(wrong(row, name, "there is none of that name"));
    };
    if until <= standing.until {
        let done = standing.until;
        return Err(wrong(row, name, format!("it fired for due times up to {done} before")));
    }
    standing.until = until;
    Ok(())
}

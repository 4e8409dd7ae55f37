//! Setting an agent apart, letting it go on, and counting what led there.

use lazaret_gate::AgentId;
use lazaret_gate::record::{AgentQuarantined, AgentWoken, Body, Cause, Ending};
use lazaret_store::{AgentRow, AgentState, Batch, Change};

use crate::error::HostError;
use crate::host::{Host, lock};
use crate::limits::MAX_WORD;

impl Host {
    /// Lets an agent take no turn until somebody wakes it. Waits for a turn that is being taken: when this returns, none is.
    pub fn quarantine(&self, agent: &AgentId, by: &str, reason: &str) -> Result<(), HostError> {
        check_words(&[by, reason])?;
        let slot = self.slot(agent);
        let mut slot = lock(&slot);
        if self.known(agent)?.state == AgentState::Quarantined {
            return Err(self.quarantined(agent)?);
        }
        let body = AgentQuarantined { agent: agent.clone(), by: by.to_owned(), reason: reason.to_owned() };
        let changes = vec![Change::SetState { agent: agent.clone(), state: AgentState::Quarantined }];
        self.store.commit(Batch { entries: vec![Body::AgentQuarantined(body)], changes })?;
        self.take_warm(&mut slot);
        Ok(())
    }

    /// Lets a quarantined agent go on: its mail, and a turn that was cut off. What is in doubt stays so.
    pub fn wake(&self, agent: &AgentId, by: &str) -> Result<(), HostError> {
        check_words(&[by])?;
        let slot = self.slot(agent);
        let _turn = lock(&slot);
        let row = self.known(agent)?;
        if row.state != AgentState::Quarantined {
            return Err(HostError::NotQuarantined(agent.clone()));
        }
        let state = if self.doubts(&row)? { AgentState::InDoubt } else { AgentState::Asleep };
        let entry = Body::AgentWoken(AgentWoken { agent: agent.clone(), by: by.to_owned() });
        // What it is forgiven is not counted again.
        let changes = vec![
            Change::SetState { agent: agent.clone(), state },
            Change::SetStreak { agent: agent.clone(), streak: 0 },
        ];
        self.store.commit(Batch { entries: vec![entry], changes })?;
        Ok(())
    }

    /// Lets go of what an agent has in memory; its next turn wakes it from disk. True if there was anything.
    pub fn sleep(&self, agent: &AgentId) -> Result<bool, HostError> {
        self.known(agent)?;
        let slot = self.slot(agent);
        let mut slot = lock(&slot);
        Ok(self.take_warm(&mut slot).is_some())
    }

    /// Who quarantined an agent, and why; none if nobody did.
    pub fn quarantine_of(&self, agent: &AgentId) -> Result<Option<AgentQuarantined>, HostError> {
        quarantine_of(&self.store, agent)
    }

    /// What is said to whoever wants a turn of a quarantined agent.
    pub(crate) fn quarantined(&self, agent: &AgentId) -> Result<HostError, HostError> {
        let (by, reason) = self.quarantine_of(agent)?.map_or_else(Default::default, |it| (it.by, it.reason));
        let said = |text: String, none: &str| if text.is_empty() { none.to_owned() } else { text };
        let (by, reason) = (said(by, "an operator"), said(reason, "no reason was given"));
        Ok(HostError::Quarantined { agent: agent.clone(), by, reason })
    }

    /// Whether it isn't known if an effect of the agent happened, even if it is quarantined too.
    pub(crate) fn doubts(&self, row: &AgentRow) -> Result<bool, HostError> {
        match (row.state, row.unfinished) {
            (AgentState::InDoubt, Some(_)) => Ok(true),
            (AgentState::Quarantined, Some(turn)) => {
                let entries = self.store.unfinished_entries(&row.agent, turn)?;
                Ok(matches!(entries.last().map(|entry| &entry.body), Some(Body::InDoubt(_))))
            }
            _ => Ok(false),
        }
    }
}

/// Who quarantined an agent, and why; none if nobody did, or somebody woke it since.
pub fn quarantine_of(reader: &lazaret_store::Reader, agent: &AgentId) -> Result<Option<AgentQuarantined>, HostError> {
    let trail = reader.trail(agent)?;
    let last = trail.iter().rev().find(|(_, kind, _)| kind == "agent-quarantined" || kind == "agent-woken");
    let Some((seq, ..)) = last else { return Ok(None) };
    match reader.entry(*seq)?.body {
        Body::AgentQuarantined(body) => Ok(Some(body)),
        _ => Ok(None),
    }
}

/// How many turns in a row the host had to stop for what the agent did, after one more turn. What an operator or a rule
/// stopped says nothing about the agent's health.
pub(crate) fn streak_after(streak: u32, ending: &Ending) -> u32 {
    match ending {
        Ending::Replied(_) | Ending::Failed(_) => 0,
        Ending::Stopped(stop) => match stop.cause {
            Cause::Trap | Cause::Fuel | Cause::Memory | Cause::WallClock | Cause::BadValue => streak.saturating_add(1),
            Cause::Killed | Cause::Revoked | Cause::Refused => streak,
        },
    }
}

/// Words for the journal are few.
pub(crate) fn check_words(words: &[&str]) -> Result<(), HostError> {
    match words.iter().map(|word| word.len()).max() {
        Some(len) if len > MAX_WORD => Err(HostError::Wordy { len, most: MAX_WORD }),
        _ => Ok(()),
    }
}

//! Leaving mail, and answering the oldest.

use lazaret_gate::AgentId;
use lazaret_gate::record::Message;
use lazaret_store::{AgentState, Batch, Change, StoreError};

use crate::error::HostError;
use crate::host::{Host, lock};
use crate::live::Resume;
use crate::turns::{Turn, check_message};

/// A store's error about a message, in the host's words.
pub(crate) fn full(agent: &AgentId, why: StoreError) -> HostError {
    match why {
        StoreError::MailboxFull { .. } | StoreError::MailboxHeavy { .. } => {
            HostError::MailboxFull { agent: agent.clone(), why }
        }
        why => HostError::Store(why),
    }
}

impl Host {
    /// Puts a message into an agent's mailbox; returns its number when it is on disk.
    pub(crate) fn enqueue(&self, agent: &AgentId, message: Message) -> Result<u64, HostError> {
        check_message(&message)?;
        self.trusted(&*self.known(agent)?)?;
        let changes = vec![Change::Enqueue { to: agent.clone(), message }];
        let ticket = self.store.commit_async(Batch { entries: Vec::new(), changes })?;
        let done = ticket.finish().map_err(|why| full(agent, why))?;
        Ok(done.messages.start)
    }

    /// Takes up an agent's cut-off turn, or answers its oldest message. Returns the message's number (0 if it never was in
    /// the mailbox) and the turn; none if there is nothing to do.
    pub(crate) fn next_turn(&self, agent: &AgentId) -> Result<Option<(u64, Turn)>, HostError> {
        let slot = self.slot(agent);
        let mut slot = lock(&slot);
        self.running()?;
        let row = self.known(agent)?;
        // Its mail waits: whoever ordered the turn may not have heard of it yet.
        self.trusted(&row)?;
        if let (AgentState::Asleep, Some(turn)) = (row.state, row.unfinished) {
            let message = self.cut_off(agent, turn)?.message;
            return self.resume(agent, turn).map(|turn| Some((message, turn)));
        }
        let row = self.ready(row)?;
        let Some((id, message)) = self.store.mailbox_next(agent)? else { return Ok(None) };
        self.take_turn(&mut slot, row, id, message, Resume::default()).map(|turn| Some((id, turn)))
    }
}

//! Crashes that people ask for, to see what becomes of a turn that is cut off.

use lazaret_gate::AgentId;

use crate::host::{Host, lock};

/// Whose turn is to be cut off, and what does it.
pub(crate) struct Drill {
    agent: AgentId,
    crash: Box<dyn FnOnce() + Send>,
}

impl Host {
    /// Has the next turn of an agent cut off when it has run and nothing of it is committed.
    pub(crate) fn arm(&self, agent: &AgentId, crash: Box<dyn FnOnce() + Send>) {
        *lock(&self.drill) = Some(Drill { agent: agent.clone(), crash });
    }

    /// Takes that back.
    pub(crate) fn disarm(&self) {
        *lock(&self.drill) = None;
    }

    /// The place where a turn is cut off, if it is to be.
    pub(crate) fn drilled(&self, agent: &AgentId) {
        let drill = lock(&self.drill).take_if(|drill| drill.agent == *agent);
        if let Some(drill) = drill {
            (drill.crash)();
        }
    }
}

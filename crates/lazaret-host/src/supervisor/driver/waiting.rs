//! Those who wait for an answer, and what they are told while there is none.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use lazaret_gate::AgentId;
use lazaret_gate::record::Message;
use lazaret_store::AgentState;

use super::{Shared, State, left_waiting, lock, monotonic};
use crate::error::HostError;
use crate::life::Life;
use crate::supervisor::core::Event;
use crate::supervisor::seams;
use crate::turns::Turn;

impl State {
    /// Whose messages wait for this agent, but for the one whose turn was just taken: that is answered.
    fn waiting_for(&self, agent: &AgentId) -> Vec<(AgentId, u64)> {
        let of_agent = self.waiters.range((agent.clone(), 0)..=(agent.clone(), u64::MAX));
        of_agent.map(|(key, _)| key).filter(|key| self.is_unanswered(key)).cloned().collect()
    }

    fn is_unanswered(&self, key: &(AgentId, u64)) -> bool {
        !self.answering.contains(key)
    }

    fn tell(&mut self, key: &(AgentId, u64), why: HostError) {
        if let Some(waiter) = self.waiters.remove(key) {
            let _ = waiter.try_send(Err(why));
        }
    }

    /// Nobody waits any longer for agents of whom no turn is under way; or, at the very end, for any.
    pub(super) fn leave_waiting(&mut self, also_for_busy: bool) {
        let keys: Vec<_> = self.waiters.keys().filter(|key| self.is_unanswered(key)).cloned().collect();
        for key in keys {
            if also_for_busy || !self.core.is_busy(&key.0) {
                let why = left_waiting(&key.0, key.1);
                self.tell(&key, why);
            }
        }
    }
}

impl Shared {
    /// Whoever waits for an agent that takes no turns any more is told so.
    pub(super) fn turn_away(&self, state: &mut State, agent: &AgentId) {
        // Whoever isn't known any more is gone for good.
        let life = state.core.life(agent).unwrap_or(Life::Dead);
        if life.is_idle() || life.is_awake() {
            return;
        }
        for key in state.waiting_for(agent) {
            state.tell(&key, self.why_not(agent, life));
        }
    }

    /// Whoever waits for an agent that was tried again in vain, or pauses for long because turns of it were stopped, is told
    /// so. Its message stays in line.
    pub(super) fn tell_delayed(&self, state: &mut State, agent: &AgentId) {
        let why = state.core.delayed(agent).or_else(|| state.core.pausing(monotonic(), agent));
        let Some(why) = why else { return };
        for key in state.waiting_for(agent) {
            let (agent, number) = key.clone();
            state.tell(&key, HostError::Delayed { agent, number, why: why.clone() });
        }
    }

    /// While everything is stopped nobody waits without a word: it may last as long as an operator likes.
    pub(super) fn tell_held(&self, state: &mut State) {
        if !state.core.is_held() || state.waiters.is_empty() {
            return;
        }
        let Err(HostError::Killed(why)) = self.host.running() else { return };
        let idle = |key: &&(AgentId, u64)| state.is_unanswered(key) && !state.core.is_busy(&key.0);
        let keys: Vec<_> = state.waiters.keys().filter(idle).cloned().collect();
        for key in keys {
            let (agent, number) = key.clone();
            state.tell(&key, HostError::Delayed { agent, number, why: why.clone() });
        }
    }

    /// Whoever waits for an agent that lacks a required secret is told so. The message stays in line.
    pub(super) fn tell_unequipped(&self, state: &mut State, agent: &AgentId) {
        for key in state.waiting_for(agent) {
            let Some(why) = self.host.known(agent).and_then(|row| self.host.equipped(&row)).err() else { return };
            state.tell(&key, why);
        }
    }

    /// Why an agent takes no turn or no mail. What an operator has to know of it is for the host to say.
    pub(super) fn why_not(&self, agent: &AgentId, life: Life) -> HostError {
        let said = || {
            let row = self.host.known(agent)?;
            match (life, row.unfinished) {
                (Life::InDoubt, Some(turn)) => return self.host.in_doubt(agent, turn),
                // The breaker's word comes before it is on record.
                (Life::Quarantined, _) if row.state == AgentState::Quarantined => return self.host.quarantined(agent),
                (Life::Revoked, _) => self.host.trusted(&row)?,
                _ => {}
            }
            Ok(HostError::NotRunning { agent: agent.clone(), life, help: seams::help(agent, life) })
        };
        said().unwrap_or_else(|why| why)
    }

    /// Puts a message in line and waits for its turn.
    pub(super) fn wait_in_line(self: &Arc<Self>, agent: &AgentId, message: Message) -> Result<Turn, HostError> {
        *lock(&self.state).arriving.entry(agent.clone()).or_default() += 1;
        let written = self.host.enqueue(agent, message);
        let mut state = lock(&self.state);
        let arriving = state.arriving.get_mut(agent).map_or(0, |arriving| {
            *arriving -= 1;
            *arriving
        });
        let early = written.as_ref().ok().and_then(|number| state.early.remove(&(agent.clone(), *number)));
        if arriving == 0 {
            state.arriving.remove(agent);
            state.early.retain(|(of, _), _| of != agent);
        }
        let number = written?;
        if let Some(turn) = early {
            return Ok(turn);
        }
        if state.core.is_draining() {
            return Err(left_waiting(agent, number));
        }
        let (waiter, answer) = sync_channel(1);
        state.waiters.insert((agent.clone(), number), waiter);
        self.hear(&mut state, Event::Mail { agent: agent.clone() });
        self.turn_away(&mut state, agent);
        self.tell_held(&mut state);
        let again = state.core.delayed(agent).is_some();
        if !again {
            // A pause isn't made shorter by whoever comes.
            self.tell_delayed(&mut state, agent);
        }
        drop(state);
        // What kept the agent from its turn may be over, and its pause is long: somebody waits now.
        if again {
            self.look(agent);
        }
        answer.recv().unwrap_or_else(|_| Err(left_waiting(agent, number)))
    }

    /// A turn that answers this message is over: from here on its sender is told nothing else.
    pub(super) fn answering(&self, agent: &AgentId, number: u64) {
        lock(&self.state).answering.insert((agent.clone(), number));
    }

    /// Hands a turn to whoever waits for it.
    pub(super) fn answer(&self, agent: &AgentId, number: u64, turn: Turn) {
        let mut state = lock(&self.state);
        let key = (agent.clone(), number);
        state.answering.remove(&key);
        if let Some(waiter) = state.waiters.remove(&key) {
            let _ = waiter.try_send(Ok(turn));
        } else if state.arriving.contains_key(agent) {
            state.early.insert(key, turn);
        }
    }
}

//! How things stand with a supervisor, for whoever asks.

use std::collections::BTreeMap;

use lazaret_gate::AgentId;

use super::{Supervisor, lock, monotonic};
use crate::life::{Happening, Life};

/// How things stand.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Agents that take a turn now.
    pub awake: usize,
    /// Agents that could, and wait for their turn.
    pub in_line: usize,
    /// Everything is stopped.
    pub held: bool,
    /// No turn begins any more.
    pub draining: bool,
    /// Threads that take turns or wait to.
    pub threads: usize,
    /// Agents that want a turn and can't have it: why, and in how many milliseconds they are tried again.
    pub troubles: BTreeMap<AgentId, (String, u64)>,
}

impl Supervisor {
    /// What an agent is doing, if it is known here.
    pub fn life(&self, agent: &AgentId) -> Option<Life> {
        let life = lock(&self.shared.state).core.life(agent)?;
        let mut pending = self.shared.host.approvals().pending().unwrap_or_default().into_iter();
        let asked = life.is_awake() && pending.any(|question| question.agent == *agent);
        Some(if asked { life.next(Happening::Ask).unwrap_or(life) } else { life })
    }

    /// What all agents are doing.
    pub fn lives(&self) -> BTreeMap<AgentId, Life> {
        let mut lives = lock(&self.shared.state).core.lives();
        for question in self.shared.host.approvals().pending().unwrap_or_default() {
            if let Some(life) = lives.get_mut(&question.agent) {
                *life = life.next(Happening::Ask).unwrap_or(*life);
            }
        }
        lives
    }

    /// Why an agent that wants a turn can't have it, and in how many milliseconds it is tried again.
    pub fn trouble(&self, agent: &AgentId) -> Option<(String, u64)> {
        let (state, now) = (lock(&self.shared.state), monotonic());
        let trouble = state.core.trouble(agent).map(|(why, at)| (why, at.saturating_sub(now)));
        let unkept = || state.unkept.range((agent.clone(), String::new())..).find(|((of, _), _)| of == agent);
        trouble.or_else(|| unkept().map(|(_, why)| (why.clone(), 0)))
    }

    /// How things stand.
    pub fn status(&self) -> Status {
        let (state, now) = (lock(&self.shared.state), monotonic());
        let troubles =
            state.core.troubles().into_iter().map(|(agent, (why, at))| (agent, (why, at.saturating_sub(now))));
        let unkept = state.unkept.iter().map(|((agent, _), why)| (agent.clone(), (why.clone(), 0)));
        Status {
            awake: state.core.awake(),
            in_line: state.core.in_line(),
            held: state.core.is_held(),
            draining: state.core.is_draining(),
            threads: state.threads,
            troubles: unkept.chain(troubles).collect(),
        }
    }
}

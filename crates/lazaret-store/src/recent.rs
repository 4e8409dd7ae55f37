//! What recent commits left, at hand: it may not be in the tables yet, and is asked for most.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lazaret_gate::AgentId;

use crate::agents::{AgentRow, AgentState};
use crate::limits::{MAX_RECENT_BYTES, MAX_RECENT_ROWS};

/// A value and its version; none if the key was removed.
pub(crate) type Value = Option<(Vec<u8>, u64)>;

/// A key that a commit wrote or removed.
pub(crate) struct Written {
    pub(crate) agent: AgentId,
    pub(crate) key: String,
    pub(crate) value: Value,
}

/// Rows and values by the commit that left them.
#[derive(Default)]
pub(crate) struct Recent {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: HashMap<AgentId, (u64, AgentRow)>,
    values: HashMap<AgentId, HashMap<String, (u64, Value)>>,
    bytes: usize,
}

fn size(key: &str, value: &Value) -> usize {
    128 + key.len() + value.as_ref().map_or(0, |(bytes, _)| bytes.len())
}

impl Recent {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent's row, if it is here. If it isn't, the tables have it.
    pub(crate) fn row(&self, agent: &AgentId) -> Option<AgentRow> {
        self.lock().rows.get(agent).map(|(_, row)| row.clone())
    }

    /// How many messages wait for a living agent, if that is known here.
    pub(crate) fn queued(&self, agent: &AgentId) -> Option<usize> {
        let state = self.lock();
        state.rows.get(agent).filter(|(_, row)| row.state != AgentState::Removed).map(|(_, row)| row.queued.len())
    }

    /// What an agent's key holds, if that is known here.
    pub(crate) fn value(&self, agent: &AgentId, key: &str) -> Option<Value> {
        let state = self.lock();
        state.values.get(agent)?.get(key).map(|(_, value)| value.clone())
    }

    /// Whether an agent was removed, as far as is known here.
    pub(crate) fn is_removed(&self, agent: &AgentId) -> bool {
        self.lock().rows.get(agent).is_some_and(|(_, row)| row.state == AgentState::Removed)
    }

    /// Takes in what a commit left. Commits up to `applied` are in the tables, so theirs may be let go.
    pub(crate) fn take(
        &self,
        number: u64,
        applied: u64,
        rows: impl IntoIterator<Item = AgentRow>,
        written: impl IntoIterator<Item = Written>,
    ) {
        let mut state = self.lock();
        for Written { agent, key, value } in written {
            state.bytes += size(&key, &value);
            let of_agent = state.values.entry(agent).or_default();
            if let Some((_, old)) = of_agent.insert(key.clone(), (number, value)) {
                let old = size(&key, &old);
                state.bytes -= old;
            }
        }
        for row in rows {
            if row.state == AgentState::Removed
                && let Some(gone) = state.values.remove(&row.agent)
            {
                state.bytes -= gone.iter().map(|(key, (_, value))| size(key, value)).sum::<usize>();
            }
            state.rows.insert(row.agent.clone(), (number, row));
        }
        if state.bytes > MAX_RECENT_BYTES {
            state.values.values_mut().for_each(|keys| keys.retain(|_, (written, _)| *written > applied));
            state.values.retain(|_, keys| !keys.is_empty());
            let left = state.values.values().flatten().map(|(key, (_, value))| size(key, value)).sum();
            state.bytes = left;
        }
        if state.rows.len() > MAX_RECENT_ROWS {
            state.rows.retain(|_, (written, _)| *written > applied);
        }
    }
}

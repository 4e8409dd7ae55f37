//! What recent commits left, at hand: it may not be in the tables yet, and is asked for most.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lazaret_gate::AgentId;
use lazaret_gate::record::Message;

use crate::agents::{AgentRow, AgentState};
use crate::limits::{MAX_RECENT_BYTES, MAX_RECENT_MAIL, MAX_RECENT_ROWS};

/// A value and its version; none if the key was removed.
pub(crate) type Value = Option<(Vec<u8>, u64)>;

/// A key that a commit wrote or removed.
pub(crate) struct Written {
    pub(crate) agent: AgentId,
    pub(crate) key: String,
    pub(crate) value: Value,
}

/// A message that a commit left.
pub(crate) struct Mail {
    pub(crate) id: u64,
    pub(crate) message: Message,
    pub(crate) size: usize,
}

/// Rows and values by the commit that left them.
#[derive(Default)]
pub(crate) struct Recent {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: HashMap<AgentId, (u64, Arc<AgentRow>)>,
    values: HashMap<AgentId, HashMap<String, (u64, Value)>>,
    bytes: usize,
    /// Messages by number.
    mail: BTreeMap<u64, (u64, Mail)>,
    mail_bytes: usize,
}

fn size(key: &str, value: &Value) -> usize {
    128 + key.len() + value.as_ref().map_or(0, |(bytes, _)| bytes.len())
}

impl Recent {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent's row, if it is here. If it isn't, the tables have it.
    pub(crate) fn row(&self, agent: &AgentId) -> Option<Arc<AgentRow>> {
        self.lock().rows.get(agent).map(|(_, row)| Arc::clone(row))
    }

    /// All rows that are here, each with the commit that left it.
    pub(crate) fn rows(&self) -> Vec<(u64, Arc<AgentRow>)> {
        self.lock().rows.values().map(|(number, row)| (*number, Arc::clone(row))).collect()
    }

    /// How many messages wait for a living agent, if that is known here.
    pub(crate) fn queued(&self, agent: &AgentId) -> Option<usize> {
        let state = self.lock();
        state.rows.get(agent).filter(|(_, row)| row.state != AgentState::Removed).map(|(_, row)| row.queued.len())
    }

    /// The oldest message of a living agent, if that is known here.
    pub(crate) fn next(&self, agent: &AgentId) -> Option<Option<(u64, Message)>> {
        let state = self.lock();
        let (_, row) = state.rows.get(agent).filter(|(_, row)| row.state != AgentState::Removed)?;
        let Some(id) = row.queued.first() else { return Some(None) };
        state.mail.get(id).map(|(_, mail)| Some((*id, mail.message.clone())))
    }

    /// Takes in the messages that a commit left. Those that are in the tables may be let go, the oldest first.
    pub(crate) fn take_mail(&self, number: u64, applied: u64, mail: impl IntoIterator<Item = Mail>) {
        let mut state = self.lock();
        for mail in mail {
            state.mail_bytes += mail.size;
            state.mail.insert(mail.id, (number, mail));
        }
        while state.mail_bytes > MAX_RECENT_MAIL
            && let Some(oldest) = state.mail.first_entry()
            && oldest.get().0 <= applied
        {
            let size = oldest.remove().1.size;
            state.mail_bytes -= size;
        }
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
        rows: impl IntoIterator<Item = Arc<AgentRow>>,
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

//! Room in mailboxes for messages of turns that aren't over. An agent is told that its message is sent, or that there is no
//! room; either way that is on its tape, so it must still be true when the turn is committed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lazaret_gate::AgentId;
use lazaret_gate::record::Message;
use lazaret_store::limits::{MAX_MAILBOX, MAX_MAILBOX_BYTES};
use lazaret_store::{AgentState, Store};

use crate::host::lock;

/// Messages and bytes by addressee, of all turns that are under way.
#[derive(Default)]
pub(crate) struct Promises(Mutex<BTreeMap<AgentId, (u64, u64)>>);

/// What one turn was promised. Given back when it is dropped.
pub(crate) struct Promised {
    of: Arc<Promises>,
    made: Vec<(AgentId, u64)>,
}

/// Bytes of a message as it is kept, or a few more.
fn size(message: &Message) -> u64 {
    (message.body.0.len() as u64).div_ceil(3) * 4 + message.content_type.len() as u64 + 256
}

impl Promised {
    pub(crate) fn new(of: &Arc<Promises>) -> Self {
        Self { of: of.clone(), made: Vec::new() }
    }

    /// Finds room for a message, or says why there is none.
    pub(crate) fn make(&mut self, store: &Store, to: &AgentId, message: &Message) -> Result<(), String> {
        let bytes = size(message);
        // Looked at under the lock: a promise is given back only after its message is in the row.
        let mut promises = lock(&self.of.0);
        let row = store.agent(to).map_err(|why| why.to_string())?;
        let row =
            row.filter(|row| row.state != AgentState::Removed).ok_or_else(|| format!("there is no agent `{to}`"))?;
        let (many, heavy) = promises.get(to).copied().unwrap_or_default();
        let (waiting, weight) = (row.queued.len() as u64 + many, row.queued_bytes() + heavy);
        if waiting >= MAX_MAILBOX {
            return Err(format!(
                "the mailbox of `{to}` is full: {waiting} messages wait and the most is {MAX_MAILBOX}; it has to answer some first"
            ));
        }
        if weight + bytes > MAX_MAILBOX_BYTES {
            return Err(format!(
                "the mailbox of `{to}` has no room for {bytes} bytes: {weight} wait and the most is {MAX_MAILBOX_BYTES}; \
                 it has to answer some first"
            ));
        }
        promises.insert(to.clone(), (many + 1, heavy + bytes));
        self.made.push((to.clone(), bytes));
        Ok(())
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        let mut promises = lock(&self.of.0);
        for (to, bytes) in self.made.drain(..) {
            let Some((many, heavy)) = promises.get_mut(&to) else { continue };
            (*many, *heavy) = (many.saturating_sub(1), heavy.saturating_sub(bytes));
            if *many == 0 {
                promises.remove(&to);
            }
        }
    }
}

//! Telling whoever wants to know that the journal has grown, so that nobody has to look again and again.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A commit that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Entries of the journal, this commit's included.
    pub journal: u64,
    /// Batches that it is made of.
    pub batches: usize,
    /// Bytes that were written and flushed for it.
    pub bytes: usize,
    /// How long it took to write and flush it.
    pub took: Duration,
}

/// Hears of every commit, on the thread that makes it and before whoever waits for it does: it must be quick and not wait.
pub type Listener = dyn Fn(Committed) + Send + Sync;

/// Who listens, if anybody does.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<OnceLock<Box<Listener>>>);

impl Told {
    /// The first who asks is told from here on.
    pub(crate) fn listen(&self, listener: Box<Listener>) -> bool {
        self.0.set(listener).is_ok()
    }

    pub(crate) fn say(&self, committed: Committed) {
        if let Some(listener) = self.0.get() {
            listener(committed);
        }
    }
}

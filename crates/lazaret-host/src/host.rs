//! The host: one data root, one engine, the agents in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_exec::Outside;
use lazaret_gate::{AgentId, Digest};
use lazaret_guest::{Engine, Program, State};
use lazaret_store::Store;

use crate::error::HostError;
use crate::limits::WARM_BYTES;

/// A data root that is open for writing, with an engine to run its agents.
pub struct Host {
    pub(crate) root: PathBuf,
    pub(crate) store: Arc<Store>,
    pub(crate) engine: Engine,
    pub(crate) programs: Mutex<HashMap<Digest, Program>>,
    slots: Mutex<HashMap<AgentId, Arc<Mutex<Slot>>>>,
    /// Bytes of all states in slots.
    warm_bytes: AtomicUsize,
    /// Counts, so that slots know which was used last.
    uses: AtomicU64,
    environment: Vec<(String, String)>,
}

/// An agent's place in memory. Whoever holds its lock takes the agent's turn.
#[derive(Default)]
pub(crate) struct Slot {
    /// The image that is mapped and ready, if any.
    warm: Option<(Digest, State)>,
    used: u64,
    /// Whether the journal was seen to say the same of the agent as its row does.
    pub(crate) vouched: bool,
}

#[expect(clippy::disallowed_methods, reason = "the time stamps of journal entries come from the real clock")]
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while a lock was held is a bug, but what the locks guard are caches: they can be used all the same.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host {
    /// Opens a data root, making it if it isn't there. Only one process at a time can.
    pub fn open(root: &Path) -> Result<Self, HostError> {
        let store = Store::open(root, now_ms)?;
        Ok(Self {
            root: root.to_owned(),
            store: Arc::new(store),
            engine: Engine::new()?,
            programs: Mutex::default(),
            slots: Mutex::default(),
            warm_bytes: AtomicUsize::new(0),
            uses: AtomicU64::new(0),
            environment: Vec::new(),
        })
    }

    /// Sets what agents with the `environment` grant see.
    pub fn with_environment(mut self, environment: Vec<(String, String)>) -> Self {
        self.environment = environment;
        self
    }

    /// What is remembered.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What runs guests.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn outside(&self) -> Outside {
        Outside::new(self.root.join("tools")).with_environment(self.environment.clone())
    }

    pub(crate) fn slot(&self, agent: &AgentId) -> Arc<Mutex<Slot>> {
        lock(&self.slots).entry(agent.clone()).or_default().clone()
    }

    /// Takes a state out for a turn, if it is there.
    pub(crate) fn take_warm(&self, slot: &mut Slot) -> Option<(Digest, State)> {
        let taken = slot.warm.take();
        let bytes = taken.as_ref().map_or(0, |(_, state)| state.bytes());
        self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
        taken
    }

    /// Puts a state where the next turn finds it, and lets the longest unused ones go if there are too many.
    pub(crate) fn keep_warm(&self, slot: &mut Slot, image: Digest, state: State) {
        self.take_warm(slot);
        let bytes = state.bytes();
        slot.used = self.uses.fetch_add(1, Ordering::Relaxed);
        slot.warm = Some((image, state));
        if self.warm_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > WARM_BYTES {
            self.let_go();
        }
    }

    /// Lets states go, the longest unused first. One that is locked is in use and stays.
    fn let_go(&self) {
        let slots: Vec<_> = lock(&self.slots).values().cloned().collect();
        let mut free: Vec<_> =
            slots.iter().filter_map(|slot| slot.try_lock().ok()).filter(|slot| slot.warm.is_some()).collect();
        free.sort_by_key(|slot| slot.used);
        for mut oldest in free {
            if self.warm_bytes.load(Ordering::Relaxed) <= WARM_BYTES {
                return;
            }
            self.take_warm(&mut oldest);
        }
    }
}

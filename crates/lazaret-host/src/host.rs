//! The host: one data root, one engine, the agents in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
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
    environment: Vec<(String, String)>,
}

/// An agent's place in memory. Whoever holds its lock takes the agent's turn.
#[derive(Default)]
pub(crate) struct Slot {
    /// The image that is mapped and ready, if any.
    pub(crate) warm: Option<(Digest, State)>,
    used: u64,
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

    /// Puts a state where the next turn finds it, and lets the longest unused ones go if there are too many.
    pub(crate) fn keep_warm(&self, agent: &AgentId, slot: &mut Slot, image: Digest, state: State) {
        slot.used = now_ms();
        slot.warm = Some((image, state));
        let slots = lock(&self.slots);
        // A slot that is locked is in use, so it is neither counted nor let go; ours is locked by the caller.
        let free: Vec<_> = slots.iter().filter(|(name, _)| *name != agent).filter_map(|(_, s)| s.try_lock().ok()).collect();
        let bytes = |slot: &Slot| slot.warm.as_ref().map_or(0, |(_, state)| state.bytes());
        let mut total: usize = free.iter().map(|slot| bytes(slot)).sum::<usize>() + bytes(slot);
        let mut free: Vec<_> = free.into_iter().filter(|slot| slot.warm.is_some()).collect();
        if total <= WARM_BYTES {
            return;
        }
        free.sort_by_key(|slot| slot.used);
        for mut oldest in free {
            total -= bytes(&oldest);
            oldest.warm = None;
            if total <= WARM_BYTES {
                return;
            }
        }
    }
}

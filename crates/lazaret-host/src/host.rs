//! The host: one data root, one engine, the agents in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_exec::{Broker, Egress, Outside, Web, egress};
use lazaret_gate::approval::limits::PATIENCE_MS;
use lazaret_gate::ledger::{Switch, SwitchEvent, Switches, Thrown};
use lazaret_gate::policy::Problem;
use lazaret_gate::record::Body;
use lazaret_gate::{AgentId, Digest, Grants, Rulebook};
use lazaret_guest::{Engine, Program, State};
use lazaret_store::Store;

use crate::asking::{Approvals, Person};
use crate::books;
use crate::drill::Drill;
use crate::error::HostError;
use crate::keys::Keys;
use crate::limits::{LET_GO_BYTES, WARM_BYTES};
use crate::observe::Observer;
use crate::present::Station;
use crate::rules::Rules;
use crate::seats::Seats;
use crate::secrets::{Lockbox, SecretUses};

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
    /// What single agents see instead.
    environments: Mutex<HashMap<AgentId, Vec<(String, String)>>>,
    pub(crate) drill: Mutex<Option<Drill>>,
    pub(crate) observer: OnceLock<Arc<dyn Observer>>,
    pub(crate) station: Station,
    /// The one way out: all agents' requests go over its connections.
    pub(crate) egress: Egress,
    pub(crate) keys: Arc<Keys>,
    lockbox: Arc<Lockbox>,
}

/// What a data root is opened with.
#[derive(Clone)]
pub struct Settings {
    /// The preset that a new data root begins with.
    pub preset: String,
    /// How long a question waits, in milliseconds.
    pub patience_ms: u64,
    /// Who can be asked on the terminal.
    pub person: Option<Arc<dyn Person>>,
    /// Who stops all spending before anything else happens; none if nobody does.
    pub stop_spending: Option<String>,
    /// How requests leave: who vouches for servers, who is asked for addresses.
    pub egress: egress::Settings,
    /// A file with the vault's passphrase, so that nobody has to be asked for it.
    pub passphrase: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        let preset = "locked-down".to_owned();
        Self {
            preset,
            patience_ms: PATIENCE_MS,
            person: None,
            stop_spending: None,
            egress: egress::Settings::default(),
            passphrase: None,
        }
    }
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
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while a lock was held is a bug, but what the locks guard are caches: they can be used all the same.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rulebook that was in force when the data root was last used.
fn last_rulebook(store: &Store) -> Result<Option<Digest>, HostError> {
    let Some(seq) = store.entries_of_kind("rulebook-in-force")?.pop() else { return Ok(None) };
    let Body::RulebookInForce(body) = store.entry(seq)?.body else { return Ok(None) };
    Ok(Some(body.rulebook))
}

/// The switches, as the journal tells their story, and its end.
fn last_switches(store: &Store) -> Result<(Switches, Option<SwitchEvent>), HostError> {
    let (mut switches, mut last) = (Switches::default(), None);
    for seq in store.entries_of_kind("switch-changed")? {
        if let Body::SwitchChanged(event) = store.entry(seq)?.body {
            switches.apply(&event);
            last = Some(event);
        }
    }
    Ok((switches, last))
}

/// Stops all spending, unless it is stopped already.
pub fn stop_spending(root: &Path, by: &str) -> Result<(), HostError> {
    if crate::switchboard::switches(root).spend.is_some() {
        return Ok(());
    }
    let thrown = Thrown { by: by.to_owned(), at: now_ms(), reason: String::new() };
    crate::switchboard::set_switch(root, &Switches::default().throw(Switch::Spend, thrown)).map(|_| ())
}

impl Host {
    /// Opens a data root, making it if it isn't there. Only one process at a time can.
    pub fn open(root: &Path) -> Result<Self, HostError> {
        Self::open_with(root, Settings::default())
    }

    /// Opens a data root with other settings.
    pub fn open_with(root: &Path, settings: Settings) -> Result<Self, HostError> {
        let store = Arc::new(Store::open_ahead(root, now_ms, lazaret_guest::begin_writing)?);
        if let Some(by) = &settings.stop_spending {
            stop_spending(root, by)?;
        }
        let (last, switches) = (last_rulebook(&store)?, last_switches(&store)?);
        let read = |digest: &Digest| Ok(books::read(&store.blob(digest)?).ok());
        let approvals = Approvals::open(root)?;
        approvals.withdraw_all();
        let station = Station {
            rules: Arc::new(Rules::open(root, &settings.preset, last, read, switches, store.clone())?),
            approvals: Arc::new(approvals),
            person: settings.person,
            patience_ms: settings.patience_ms,
            store: store.clone(),
            promises: Arc::default(),
            acts: Arc::default(),
            seats: Seats::for_processors(),
        };
        station.note()?;
        let keys = Arc::new(Keys::new(root, store.clone(), settings.passphrase)?);
        Ok(Self {
            root: root.to_owned(),
            station,
            egress: Egress::new(settings.egress),
            lockbox: Arc::new(Lockbox::new(Arc::clone(&keys), Arc::clone(&store))),
            keys,
            store,
            engine: Engine::new()?,
            programs: Mutex::default(),
            slots: Mutex::default(),
            warm_bytes: AtomicUsize::new(0),
            uses: AtomicU64::new(0),
            environment: Vec::new(),
            environments: Mutex::default(),
            drill: Mutex::default(),
            observer: OnceLock::new(),
        })
    }

    /// Sets what agents with the `environment` grant see.
    pub fn with_environment(mut self, environment: Vec<(String, String)>) -> Self {
        self.environment = environment;
        self
    }

    /// Questions and answers.
    pub fn approvals(&self) -> &Approvals {
        &self.station.approvals
    }

    /// The rulebook in force, the switches, and what is wrong with the files that lie in the policy folder.
    pub fn rules(&self) -> (Arc<Rulebook>, Switches, Vec<Problem>) {
        let (book, switches) = self.station.rules.now();
        (book, switches, self.station.rules.problems())
    }

    /// What is wrong with the files that lie in the policy folder, as far as anybody looked.
    pub fn problems(&self) -> Vec<Problem> {
        self.station.rules.problems()
    }

    /// Whether agents may do anything at all.
    pub(crate) fn running(&self) -> Result<(), HostError> {
        self.station.stopped().map_or(Ok(()), |why| Err(HostError::Killed(why)))
    }

    /// What is remembered.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The vault's keys.
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Every use of a secret that is on record, by agent and slot.
    pub fn secret_uses(&self) -> Result<Vec<SecretUses>, HostError> {
        crate::secrets::secret_uses(&self.store)
    }

    /// What runs guests.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Sets what one agent with the `environment` grant sees, until it is taken back with nothing.
    pub(crate) fn set_environment(&self, agent: &AgentId, environment: Vec<(String, String)>) {
        let mut environments = lock(&self.environments);
        if environment.is_empty() {
            environments.remove(agent);
        } else {
            environments.insert(agent.clone(), environment);
        }
    }

    pub(crate) fn outside(&self, agent: &AgentId, grants: &Grants) -> Outside {
        let environment = lock(&self.environments).get(agent).cloned().unwrap_or_else(|| self.environment.clone());
        let web = Web::new(self.egress.clone(), grants.clone());
        let broker = Broker::new(agent.clone(), self.lockbox.clone());
        Outside::new(self.root.join("tools"), web).with_environment(environment).with_broker(broker)
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
            if self.warm_bytes.load(Ordering::Relaxed) <= WARM_BYTES - LET_GO_BYTES {
                return;
            }
            self.take_warm(&mut oldest);
        }
    }
}

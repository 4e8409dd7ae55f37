//! Who is revoked, and which base scores operators have set. They lie in a file of the data root that is read whoever has
//! the root open, so that anybody who may write there can stop an agent at once; what happened goes from there into the
//! journal. What the file says is in force. Without a file it is what the journal says, and a file that can't be understood
//! revokes everybody: to lose or to break it must not let anything pass.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lazaret_gate::AgentId;
use lazaret_gate::entry::Entry;
use lazaret_gate::record::Body;
use lazaret_gate::trust::{self, Conduct, Revocations, Revoked, Score, TrustChange, TrustEvent};
use lazaret_store::{AgentRow, Reader, Store};
use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::files;
use crate::switchboard::lock_file;

/// Who is revoked.
pub(crate) const FILE: &str = "revocations.json";

/// Whoever changes it holds this: of two that revoke at once, none must be lost.
const LOCK: &str = "revocations.lock";

/// Bytes of the file: room for every agent of a large host.
const MAX_BYTES: u64 = 32 << 20;

/// Events that the file keeps, until a process that has the data root open has put them on record; and all of the last
/// change, however many those are.
const MAX_EVENTS: usize = 64;

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Register {
    revoked: BTreeMap<AgentId, Revoked>,
    bases: BTreeMap<AgentId, Score>,
    /// What happened last, oldest first.
    events: Vec<TrustEvent>,
}

enum Reading {
    Absent,
    Whole(Box<Register>),
    /// Why it can't be understood.
    Damaged(String),
}

impl Register {
    fn read(root: &Path) -> Reading {
        // One byte more than allowed, so that too much is told from just enough.
        match files::read(&root.join(FILE), MAX_BYTES + 1) {
            Ok(None) => Reading::Absent,
            Ok(Some((bytes, _))) if bytes.len() as u64 > MAX_BYTES => {
                Reading::Damaged(format!("`{FILE}` is larger than {MAX_BYTES} bytes"))
            }
            // A list would be read as one that says nothing.
            Ok(Some((bytes, _))) if !bytes.trim_ascii_start().starts_with(b"{") => {
                Reading::Damaged(format!("`{FILE}` is damaged: it doesn't begin with `{{`"))
            }
            Ok(Some((bytes, _))) => match serde_json::from_slice(&bytes) {
                Ok(register) => Reading::Whole(Box::new(register)),
                Err(why) => Reading::Damaged(format!("`{FILE}` is damaged: {why}")),
            },
            Err(why) => Reading::Damaged(format!("`{FILE}` can't be read: {why}")),
        }
    }

    /// As the journal has it, for a data root without a file.
    fn of_journal(reader: &Reader) -> Result<Self, HostError> {
        let mut register = Self::default();
        for row in reader.agents()? {
            register.bases.extend(row.base.map(|base| (row.agent.clone(), base)));
            register.revoked.extend(row.revoked.map(|revoked| (row.agent, revoked)));
        }
        Ok(register)
    }

    fn apply(&mut self, events: &[TrustEvent]) {
        let mut now =
            Revocations { revoked: std::mem::take(&mut self.revoked), bases: std::mem::take(&mut self.bases) };
        events.iter().for_each(|event| now.apply(event));
        (self.revoked, self.bases) = (now.revoked, now.bases);
        self.events.extend_from_slice(events);
    }

    /// Forgets the oldest events, but none of the last so many.
    fn forget_old(&mut self, last: usize) {
        let old = self.events.len().saturating_sub(MAX_EVENTS.max(last));
        self.events.drain(..old);
    }

    /// Whether somebody has restored an agent since then.
    fn is_restored_since(&self, agent: &AgentId, at: u64) -> bool {
        let restored = |event: &TrustEvent| event.change == TrustChange::Restored && event.at >= at;
        self.events.iter().any(|event| event.agent == *agent && restored(event))
    }

    /// Everybody whom it speaks of.
    fn agents(&self) -> BTreeSet<&AgentId> {
        self.revoked.keys().chain(self.bases.keys()).chain(self.events.iter().map(|event| &event.agent)).collect()
    }

    /// What happened since another reading of it. What somebody wrote by hand is told by its effect.
    fn since(&self, before: &Self) -> Vec<TrustEvent> {
        let last = before.events.last();
        let known = last.map_or(Some(0), |last| self.events.iter().rposition(|event| event == last).map(|at| at + 1));
        // If the last one that is known has made room for others, those that aren't known are newer.
        let unknown = || {
            let known: BTreeMap<_, _> = before.events.iter().map(|event| (of(event), event)).collect();
            let is_new = |event: &&TrustEvent| known.get(&of(event)) != Some(event);
            self.events.iter().filter(is_new).cloned().collect()
        };
        let mut events = known.map_or_else(unknown, |known| self.events[known..].to_vec());
        let mut was = Revocations { revoked: before.revoked.clone(), bases: before.bases.clone() };
        events.iter().for_each(|event| was.apply(event));
        events.extend(self.differences(&was));
        events
    }

    /// The events that lead from there to here.
    fn differences(&self, was: &Revocations) -> Vec<TrustEvent> {
        let changed = |(agent, revoked): &(&AgentId, &Revoked)| was.revoked.get(*agent) != Some(*revoked);
        let revoked = self.revoked.iter().filter(changed).map(|(agent, revoked)| TrustEvent::revoked(agent, revoked));
        let restored = was.revoked.keys().filter(|agent| !self.revoked.contains_key(*agent));
        let restored = restored.map(|agent| by_hand(agent, TrustChange::Restored, Score::START));
        let set = self.bases.iter().filter(|(agent, base)| was.bases.get(*agent) != Some(*base));
        let set = set.map(|(agent, base)| by_hand(agent, TrustChange::Set, *base));
        revoked.chain(restored).chain(set).collect()
    }
}

/// Tells nearly all events apart.
fn of(event: &TrustEvent) -> (&AgentId, u64, &str) {
    (&event.agent, event.at, event.change.name())
}

/// What somebody did by changing the file.
fn by_hand(agent: &AgentId, change: TrustChange, score: Score) -> TrustEvent {
    let at = crate::asking::now().moment.wall_ms;
    let by = format!("somebody who changed `{FILE}`");
    TrustEvent { agent: agent.clone(), change, score, by, at, reason: String::new(), turn: None }
}

/// What is in force.
#[derive(Clone, Default)]
pub struct InForce {
    /// The file, as it last could be read; none if there never was one.
    register: Option<Arc<Register>>,
    /// Why everybody counts as revoked.
    everybody: Option<Revoked>,
    /// Revocations that the file can't be made to say yet: a full disk is no reason to go on. They get into the journal by way
    /// of the file, like all others, so that it never says what a restart forgets.
    held: BTreeMap<AgentId, Revoked>,
}

impl InForce {
    /// What the file of a data root says, whoever has the root open.
    pub fn read(root: &Path) -> Self {
        let mut found = Self::default();
        found.take(Register::read(root));
        found
    }

    fn take(&mut self, reading: Reading) {
        self.everybody = None;
        match reading {
            Reading::Absent => {}
            Reading::Whole(register) => self.register = Some(Arc::new(*register)),
            Reading::Damaged(why) => {
                let reason = format!("{why}, and until it is mended or removed every agent counts as revoked");
                self.everybody = Some(Revoked::by_host(reason));
            }
        }
    }

    /// Why everybody counts as revoked, if that is so: the file can't be understood.
    pub fn everybody(&self) -> Option<&Revoked> {
        self.everybody.as_ref()
    }

    /// Whether an agent is revoked. `recorded` is what its row says.
    pub fn revoked(&self, agent: &AgentId, recorded: Option<&Revoked>) -> Option<Revoked> {
        let written = match (&self.everybody, &self.register) {
            (Some(everybody), _) => Some(everybody),
            (None, Some(register)) => register.revoked.get(agent),
            (None, None) => recorded,
        };
        written.or_else(|| self.held.get(agent)).cloned()
    }

    /// The same, with those whom a keeper holds revoked without the file, of whom it has told no more than the names.
    pub fn held_by_keeper(mut self, agents: Vec<AgentId>) -> Self {
        let reason = format!("in force in the keeper, which can't write `{FILE}`");
        let held = Revoked { by: "somebody".to_owned(), at: 0, reason };
        self.held.extend(agents.into_iter().map(|agent| (agent, held.clone())));
        self
    }

    /// Those who are revoked though the file doesn't say so.
    pub(crate) fn held(&self) -> impl Iterator<Item = &AgentId> {
        self.held.keys()
    }

    /// The base score that was set for an agent. `recorded` is what its row says.
    pub fn base(&self, agent: &AgentId, recorded: Option<Score>) -> Option<Score> {
        self.register.as_ref().and_then(|register| register.bases.get(agent)).copied().or(recorded)
    }

    /// How far an agent that has behaved so is trusted: not at all if it is revoked.
    pub fn score(&self, row: &AgentRow, conduct: &Conduct) -> Score {
        match self.revoked(&row.agent, row.revoked.as_ref()) {
            Some(_) => Score::NONE,
            None => trust::score(conduct, self.base(&row.agent, row.base).unwrap_or(Score::START)),
        }
    }
}

/// That an agent is revoked, if it is, and the base score that was set for it.
pub(crate) type Standing = (Option<Revoked>, Option<Score>);

/// What is in force in a process that has the data root open, and what of it isn't in the journal yet.
pub(crate) struct Roll {
    root: PathBuf,
    pub(crate) store: Arc<Store>,
    pub(crate) now: InForce,
    pub(crate) news: Vec<TrustEvent>,
}

impl Roll {
    pub(crate) fn open(root: &Path, store: Arc<Store>) -> Self {
        let (now, news) = (InForce::default(), Vec::new());
        let mut roll = Self { root: root.to_owned(), store, now, news };
        roll.read();
        roll
    }

    /// How an agent stands; `recorded` is what its row says.
    pub(crate) fn standing(&self, agent: &AgentId, recorded: (Option<&Revoked>, Option<Score>)) -> Standing {
        (self.now.revoked(agent, recorded.0), self.now.base(agent, recorded.1))
    }

    /// Reads the file again; whether something has happened.
    pub(crate) fn read(&mut self) -> bool {
        let reading = Register::read(&self.root);
        let was_damaged = self.now.everybody.is_some();
        let mut events = Vec::new();
        if let Reading::Whole(register) = &reading {
            events = match &self.now.register {
                Some(before) => register.since(before),
                None => self.unrecorded(register),
            };
            let restored = |event: &TrustEvent| event.change == TrustChange::Restored;
            events.iter().filter(|event| restored(event)).for_each(|event| drop(self.now.held.remove(&event.agent)));
            self.now.held.retain(|agent, _| !register.revoked.contains_key(agent));
        }
        self.now.take(reading);
        let is_news = !events.is_empty() || was_damaged != self.now.everybody.is_some();
        events.into_iter().for_each(|event| self.tell(event));
        is_news
    }

    /// Revokes an agent, though the file can't be written.
    pub(crate) fn hold(&mut self, agent: &AgentId, revoked: Revoked) {
        self.now.held.entry(agent.clone()).or_insert(revoked);
    }

    /// What the journal doesn't have of a file that is read for the first time.
    fn unrecorded(&self, register: &Register) -> Vec<TrustEvent> {
        let (mut was, mut last) = (Revocations::default(), BTreeMap::new());
        // Of the others the rows say all: a file may speak of everybody, and everybody waits meanwhile.
        let told: BTreeSet<&AgentId> = register.events.iter().map(|event| &event.agent).collect();
        for agent in register.agents() {
            let Ok(Some(row)) = self.store.agent(agent) else { continue };
            was.bases.extend(row.base.map(|base| (agent.clone(), base)));
            was.revoked.extend(row.revoked.clone().map(|revoked| (agent.clone(), revoked)));
            if !told.contains(agent) {
                continue;
            }
            let events = events_of(&self.store, agent).unwrap_or_default();
            let known = |event: &TrustEvent| register.events.iter().rposition(|other| other == event);
            // The last of its events that is on record; those before it are, too.
            last.insert(agent.clone(), events.iter().filter_map(known).max());
        }
        let new = |(at, event): &(usize, &TrustEvent)| {
            last.get(&event.agent).is_some_and(|last| last.is_none_or(|last| *at > last))
        };
        let mut events: Vec<TrustEvent> = Vec::new();
        for (_, event) in register.events.iter().enumerate().filter(new) {
            was.apply(event);
            events.push(event.clone());
        }
        events.extend(register.differences(&was));
        events
    }

    /// Puts an event in line for the journal, unless it is of somebody who isn't there, or known.
    pub(crate) fn tell(&mut self, event: TrustEvent) {
        let known = self.store.agent(&event.agent).is_ok_and(|row| row.is_some());
        let again = || {
            let same = |old: &TrustEvent| old.change == TrustChange::Mismatch && old.turn == event.turn;
            let events = events_of(&self.store, &event.agent).unwrap_or_default();
            events.iter().any(same) || self.news.iter().any(|old| old.agent == event.agent && same(old))
        };
        // Read from the journal only where it matters: a thousand may be revoked at once, and everybody waits meanwhile.
        if known && (event.change != TrustChange::Mismatch || !again()) {
            self.news.push(event);
        }
    }

    /// Notes that an agent isn't revoked any more though its row says so: somebody changed the file while nobody looked.
    pub(crate) fn restored(&mut self, row: &AgentRow) {
        let told = |event: &TrustEvent| event.agent == row.agent && event.change == TrustChange::Restored;
        if !self.news.iter().any(told) {
            self.tell(by_hand(&row.agent, TrustChange::Restored, row.score()));
        }
    }
}

/// What happened to an agent's trust, oldest first.
pub fn events_of(reader: &Reader, agent: &AgentId) -> Result<Vec<TrustEvent>, HostError> {
    let mut events = Vec::new();
    for seq in reader.agent_entries(agent, Some("trust-changed"), None)? {
        if let Body::TrustChanged(event) = Entry::read(&reader.entry_bytes(seq)?)?.body {
            events.push(event);
        }
    }
    Ok(events)
}

/// How an agent has behaved, counted from the journal.
pub fn conduct_of(reader: &Reader, agent: &AgentId) -> Result<Conduct, HostError> {
    let mut conduct = Conduct::default();
    for kind in ["turn", "trust-changed"] {
        for seq in reader.agent_entries(agent, Some(kind), None)? {
            conduct = conduct.plus(Conduct::of_entry(&Entry::read(&reader.entry_bytes(seq)?)?.body));
        }
    }
    Ok(conduct)
}

/// Whether what a row says of its agent's trust is what the journal tells: conduct, base and revocation.
pub fn is_told(reader: &Reader, row: &AgentRow) -> Result<bool, HostError> {
    let mut told = Revocations::default();
    events_of(reader, &row.agent)?.iter().for_each(|event| told.apply(event));
    let conduct = match row.conduct {
        Some(counted) => counted == conduct_of(reader, &row.agent)?,
        None => true,
    };
    Ok(conduct
        && told.revoked.get(&row.agent) == row.revoked.as_ref()
        && told.bases.get(&row.agent) == row.base.as_ref())
}

/// Revokes, restores or sets scores, whoever has the data root open. It is on disk, and in force, when this returns.
pub fn change_trust(root: &Path, reader: &Reader, events: &[TrustEvent]) -> Result<(), HostError> {
    change(root, reader, |_| events.to_vec())
}

/// Has the file say who is revoked, which it could not be made to before; but of those whom somebody has restored meanwhile.
pub(crate) fn save(root: &Path, reader: &Reader, in_force: &InForce) -> Result<(), HostError> {
    change(root, reader, |register| {
        let is_due = |(agent, revoked): &(&AgentId, &Revoked)| {
            !register.revoked.contains_key(*agent) && !register.is_restored_since(agent, revoked.at)
        };
        in_force.held.iter().filter(is_due).map(|(agent, revoked)| TrustEvent::revoked(agent, revoked)).collect()
    })
}

/// Changes the file by what is to happen, seeing how it is.
fn change(root: &Path, reader: &Reader, happens: impl FnOnce(&Register) -> Vec<TrustEvent>) -> Result<(), HostError> {
    let wrong = |why: String| HostError::Revocations(why);
    let unsaved = |file: &'static str| move |why: std::io::Error| HostError::Unsaved { file, why };
    let _alone = lock_file(&root.join(LOCK)).map_err(unsaved(LOCK))?;
    let mut register = match Register::read(root) {
        Reading::Whole(register) => *register,
        // Whom the journal says to be revoked stays so.
        Reading::Absent => Register::of_journal(reader)?,
        Reading::Damaged(why) => return Err(wrong(why)),
    };
    let events = happens(&register);
    if events.is_empty() {
        return Ok(());
    }
    register.apply(&events);
    // All of them are kept, so that it is told of each who did it and why; but not at the price that nothing is done.
    for most in [events.len(), 0] {
        register.forget_old(most);
        let bytes = serde_json::to_vec_pretty(&register).map_err(|why| wrong(why.to_string()))?;
        if bytes.len() as u64 <= MAX_BYTES {
            return files::write(&root.join(FILE), &bytes).map_err(unsaved(FILE));
        }
    }
    Err(wrong(format!("`{FILE}` would be larger than {MAX_BYTES} bytes")))
}

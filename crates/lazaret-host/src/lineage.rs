//! What operators do with an agent's past: make another agent from any turn of it, or put it back to one.
//!
//! Images are kept for ever, so an earlier one needs only be named again. Storage is not: it is rebuilt from the tapes of
//! the turns that led there. Each is one commit, so that a crash leaves all of it or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_gate::entry::Entry as Journaled;
use lazaret_gate::image::Image;
use lazaret_gate::lineage::BIRTHS;
use lazaret_gate::outcome::Entry;
use lazaret_gate::record::{AgentForked, AgentRolledBack, Body, Ending, Judged, TurnRecord, World};
use lazaret_gate::{AgentId, Answer, Blob, Digest, Effect, Labels, Outcome, canonical, labels};
use lazaret_guest::State;
use lazaret_store::{AgentRow, AgentState, Batch, Change, NewAgent};

use crate::error::HostError;
use crate::host::{Host, lock};
use crate::quarantine::check_words;

/// Keys and values.
type Storage = BTreeMap<String, Entry>;

/// What an agent was like after a turn.
struct Left {
    /// Hash of the entry that says so: the turn's, or the agent's first.
    entry: Digest,
    image: Option<Digest>,
}

/// An agent's past, as far as its entries' kinds tell it.
struct Past {
    agent: AgentId,
    /// Its first entry.
    birth: Body,
    /// Hash of that.
    hash: Digest,
    /// Where each of its turns stands in the journal.
    turns: Vec<u64>,
    /// By how many turns it had taken: the one it was then rolled back to.
    backs: BTreeMap<u64, u64>,
}

impl Past {
    /// Where a turn stands; none for 0.
    fn place(&self, turn: u64) -> Option<u64> {
        let index = usize::try_from(turn.checked_sub(1)?).ok()?;
        self.turns.get(index).copied()
    }

    /// The turn whose state the agent has, after it took this many.
    fn stands_at(&self, taken: u64) -> u64 {
        self.backs.get(&taken).copied().unwrap_or(taken)
    }

    /// The turns that led to a turn's state, from the first to that one.
    fn way_to(&self, turn: u64) -> Vec<u64> {
        let (mut way, mut at) = (Vec::new(), turn);
        while at > 0 {
            way.push(at);
            // A rollback goes to a turn that was taken by then, so this ends.
            at = self.stands_at(at - 1).min(at - 1);
        }
        way.reverse();
        way
    }
}

impl Host {
    /// Makes an agent from another one as that one was after a turn, or is now: the same component, grants, slots, budget
    /// and caps, and the image, storage and labels of then. It has taken no turn, spent nothing and got no mail.
    pub fn fork(&self, from: &AgentId, turn: Option<u64>, new: &AgentId) -> Result<(AgentRow, AgentForked), HostError> {
        let source = self.known(from)?;
        self.trusted(&source)?;
        // It is made now, so this is when its hosts are looked at. Before anything is locked, because names take their time;
        // what was granted doesn't change.
        self.preflight(&source.grants)?;
        let slot = self.slot(from);
        let _turn = lock(&slot);
        let source = self.between_turns(from)?;
        // A name that was never used is no way around a revocation.
        self.trusted(&source)?;
        // Nor does it wash off what the source has done.
        let score = source.score();
        let past = self.past_of(from)?;
        let turn = turn.unwrap_or_else(|| past.stands_at(source.turn));
        let left = self.left(&past, turn)?;
        let mut changes = Vec::new();
        let mut woken = None;
        if let Some(image) = &left.image {
            let (image, state) = self.image_of(from, turn, image)?;
            // The pages are there already; only whose they are is new.
            let image = Blob::of_value(&Image { agent: new.clone(), turn: 0, ..image })?;
            woken = Some((image.digest(), state));
            changes.push(Change::Blob(image));
        }
        let AgentRow { component, world, engine, grants, budget, caps, slots, .. } = Arc::unwrap_or_clone(source);
        let image = woken.as_ref().map(|(image, _)| *image);
        let (agent, entry) = (new.clone(), left.entry);
        let from = from.clone();
        let forked =
            AgentForked { agent, component, world, engine, grants, budget, caps, slots, image, from, turn, entry };
        changes.push(Change::CreateAgent(Box::new(row_of(&forked, self.labels_at(&past, turn)?))));
        changes.extend(self.storage_at(past, turn)?.into_iter().map(|(key, entry)| set(new, key, entry)));
        let mut entries = vec![Body::AgentForked(Box::new(forked.clone()))];
        self.trust_at_birth(new, score, &mut entries, &mut changes);
        self.store.commit(Batch { entries, changes })?;
        if let Some((image, state)) = woken {
            let slot = self.slot(new);
            self.keep_warm(&mut lock(&slot), image, state);
        }
        Ok((Arc::unwrap_or_clone(self.known(new)?), forked))
    }

    /// Puts an agent back to where one of its turns had left it: image, storage, and with them its labels. Its turns go on
    /// counting, its mail stays, and what it has spent is spent.
    pub fn rollback(&self, agent: &AgentId, turn: u64, by: &str) -> Result<AgentRow, HostError> {
        check_words(&[by])?;
        let slot = self.slot(agent);
        let mut slot = lock(&slot);
        let row = self.between_turns(agent)?;
        if row.world == World::Stateless {
            return Err(HostError::Stateless(agent.clone()));
        }
        let past = self.past_of(agent)?;
        let left = self.left(&past, turn)?;
        let image = left.image.ok_or_else(|| HostError::Stateless(agent.clone()))?;
        let (_, state) = self.image_of(agent, turn, &image)?;
        let labels = self.labels_at(&past, turn)?;
        let mut changes = self.restore(agent, self.storage_at(past, turn)?)?;
        changes.push(Change::RolledBack { agent: agent.clone(), image, labels, entry: 0 });
        changes.push(Change::SetStreak { agent: agent.clone(), streak: 0 });
        let (taken, previous) = (row.turn, row.last_entry);
        let (agent, by, entry) = (agent.clone(), by.to_owned(), left.entry);
        let back = AgentRolledBack { agent: agent.clone(), by, to: turn, entry, image, taken, previous };
        self.store.commit(Batch { entries: vec![Body::AgentRolledBack(back)], changes })?;
        self.keep_warm(&mut slot, image, state);
        self.known(&agent).map(Arc::unwrap_or_clone)
    }

    /// An agent that is whole: no turn of it is half done, and its row is what the journal says, so that what is copied from it
    /// may be signed.
    fn between_turns(&self, agent: &AgentId) -> Result<Arc<AgentRow>, HostError> {
        let row = self.known(agent)?;
        match (row.state, row.unfinished) {
            (AgentState::InDoubt, Some(turn)) => return Err(self.in_doubt(agent, turn)?),
            (_, Some(turn)) => return Err(HostError::Unfinished { agent: agent.clone(), turn }),
            _ => {}
        }
        self.check_engine(agent, &row.engine)?;
        self.vouched(&row)?;
        Ok(row)
    }

    fn past_of(&self, agent: &AgentId) -> Result<Past, HostError> {
        let unlike = || HostError::Unvouched(agent.clone());
        let (mut birth, mut turns, mut backs) = (None, Vec::new(), BTreeMap::new());
        for (seq, kind, _) in self.store.trail(agent)? {
            match kind.as_str() {
                "turn" => turns.push(seq),
                "agent-rolled-back" => {
                    if let Body::AgentRolledBack(back) = self.store.entry(seq)?.body {
                        backs.insert(back.taken, back.to);
                    }
                }
                kind if BIRTHS.contains(&kind) => {
                    let bytes = self.store.entry_bytes(seq)?;
                    birth = Some((Journaled::read(&bytes)?.body, Digest::of(&bytes)));
                }
                _ => {}
            }
        }
        let (birth, hash) = birth.ok_or_else(unlike)?;
        Ok(Past { agent: agent.clone(), birth, hash, turns, backs })
    }

    /// What a turn left; 0 is how the agent began.
    fn left(&self, past: &Past, turn: u64) -> Result<Left, HostError> {
        if turn == 0 {
            return Ok(Left { entry: past.hash, image: past.birth.birth().and_then(|birth| birth.image) });
        }
        let (record, entry) = self.record_of(past, turn)?;
        Ok(Left { entry, image: record.image_after })
    }

    fn record_of(&self, past: &Past, turn: u64) -> Result<(Box<TurnRecord>, Digest), HostError> {
        let taken = past.turns.len() as u64;
        let absent = || HostError::NoTurn { agent: past.agent.clone(), turn, taken };
        let bytes = self.store.entry_bytes(past.place(turn).ok_or_else(absent)?)?;
        match Journaled::read(&bytes)?.body {
            Body::Turn(record) if record.turn == turn => Ok((record, Digest::of(&bytes))),
            _ => Err(absent()),
        }
    }

    /// An image of the past, every page of it: whoever goes back must be able to wake.
    fn image_of(&self, agent: &AgentId, turn: u64, name: &Digest) -> Result<(Image, State), HostError> {
        let gone = |why: String| HostError::Gone { agent: agent.clone(), turn, why };
        let fetch = |digest: &Digest| self.store.blob(digest).map_err(|why| why.to_string());
        let image: Image = canonical::decode(&fetch(name).map_err(gone)?)?;
        if image.agent != *agent {
            return Err(gone(format!("image {name} is bound to `{}`", image.agent)));
        }
        let state = State::wake(&image, fetch).map_err(|why| gone(why.to_string()))?;
        Ok((image, state))
    }

    /// An agent's storage as a turn left it: what the turns on the way there wrote, and before those the ones of the agent it
    /// was forked from.
    fn storage_at(&self, past: Past, turn: u64) -> Result<Storage, HostError> {
        let mut ways = vec![(past, turn)];
        while let Some((Past { birth: Body::AgentForked(fork), .. }, _)) = ways.last() {
            let (from, turn) = (fork.from.clone(), fork.turn);
            ways.push((self.past_of(&from)?, turn));
        }
        let mut storage = Storage::new();
        for (past, turn) in ways.into_iter().rev() {
            for turn in past.way_to(turn) {
                let (record, _) = self.record_of(&past, turn)?;
                play(&mut storage, *record);
            }
        }
        Ok(storage)
    }

    /// What an agent had seen after a turn: what it had seen before that one, which is on record with it, and what that one
    /// added.
    pub(crate) fn labels_after(&self, record: &TurnRecord) -> Result<Labels, HostError> {
        let judged: Judged = canonical::decode(&self.store.blob(&record.judged)?)?;
        Ok(labels::after(judged.labels.as_ref(), record))
    }

    /// The same for any turn. Before its first, an agent has seen nothing, or what the one had that it was forked from.
    fn labels_at(&self, past: &Past, turn: u64) -> Result<Labels, HostError> {
        let (mut forked, mut turn) = (None, turn);
        loop {
            let past = forked.as_ref().unwrap_or(past);
            if turn > 0 {
                return self.labels_after(&self.record_of(past, turn)?.0);
            }
            let Body::AgentForked(fork) = &past.birth else { return Ok(Labels::new()) };
            let from = fork.from.clone();
            turn = fork.turn;
            forked = Some(self.past_of(&from)?);
        }
    }

    /// What an agent has seen by now, as the journal says.
    pub(crate) fn labels_of(&self, agent: &AgentId) -> Result<Labels, HostError> {
        let past = self.past_of(agent)?;
        let taken = past.turns.len() as u64;
        self.labels_at(&past, past.stands_at(taken))
    }

    /// What has to change in an agent's storage so that it is as it was.
    fn restore(&self, agent: &AgentId, then: Storage) -> Result<Vec<Change>, HostError> {
        let mut changes = Vec::new();
        for info in self.store.storage_list(agent, "", None, usize::MAX)? {
            if !then.contains_key(&info.key) {
                changes.push(Change::StorageDelete { agent: agent.clone(), key: info.key });
            }
        }
        for (key, entry) in then {
            // The version alone doesn't tell: after an earlier rollback it may have been given out twice.
            let now = self.store.storage_get(agent, &key)?;
            if now.is_none_or(|(value, version)| version != entry.version || value != entry.value.0) {
                changes.push(set(agent, key, entry));
            }
        }
        Ok(changes)
    }
}

/// What a turn did to storage. Only a turn that replied was kept.
fn play(storage: &mut Storage, record: TurnRecord) {
    if !matches!(record.ending, Ending::Replied(_)) {
        return;
    }
    for asked in record.tape {
        match (asked.effect, asked.outcome) {
            (Effect::StorageSet { key, value }, Outcome::Done(Answer::Version(version))) => {
                storage.insert(key, Entry { value, version });
            }
            (Effect::StorageDelete { key }, Outcome::Done(_)) => {
                storage.remove(&key);
            }
            _ => {}
        }
    }
}

fn set(agent: &AgentId, key: String, entry: Entry) -> Change {
    Change::StorageSet { agent: agent.clone(), key, value: entry.value.0, version: entry.version }
}

/// The row that goes with a fork's first entry, which is the batch's only one.
fn row_of(forked: &AgentForked, labels: Labels) -> NewAgent {
    NewAgent {
        agent: forked.agent.clone(),
        component: forked.component,
        world: forked.world,
        engine: forked.engine,
        grants: forked.grants.clone(),
        budget: forked.budget.clone(),
        caps: forked.caps.clone(),
        slots: forked.slots.clone(),
        image: forked.image,
        labels,
        entry: 0,
    }
}

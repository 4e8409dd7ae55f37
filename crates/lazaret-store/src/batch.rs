//! What is written together: entries of the journal, and the changes that go with them.

use lazaret_gate::entry::frame;
use lazaret_gate::ledger::{Account, Caps};
use lazaret_gate::limits::MAX_ENTRY;
use lazaret_gate::record::{Body, Message};
use lazaret_gate::trust::{Conduct, TrustEvent};
use lazaret_gate::{AgentId, Blob, Digest, Labels, canonical};

use crate::agents::{AgentState, NewAgent, Rows, Source, Touched};
use crate::error::StoreError;
use crate::op::{End, Op};
use crate::recent::{Mail, Written};
use crate::redo::HEADER;
use crate::{blobs, mailbox, schedules};

/// All or nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Appended to the journal in this order.
    pub entries: Vec<Body>,
    /// Made in this order, after the entries.
    pub changes: Vec<Change>,
}

/// A change of what the store knows.
#[derive(Clone, Debug)]
pub enum Change {
    /// Keeps bytes by their digest. Those that are there already stay as they are.
    Blob(Blob),
    /// Makes an agent. Its name must never have been used.
    CreateAgent(Box<NewAgent>),
    /// An agent's turn is over.
    Turned {
        /// Whose.
        agent: AgentId,
        /// Which: one more than it had taken.
        turn: u64,
        /// The image it left.
        image: Option<Digest>,
        /// What the agent has spent now.
        account: Box<Account>,
        /// What the agent has seen now, if the turn is kept.
        labels: Labels,
        /// Place in the batch of the turn's record.
        entry: usize,
        /// Whether the image becomes the one to wake from, and the labels the agent's.
        kept: bool,
    },
    /// Puts an agent back to an earlier image. Its turns go on counting, and its messages stay.
    RolledBack {
        /// Which.
        agent: AgentId,
        /// The image that it wakes from next.
        image: Digest,
        /// What it had seen then.
        labels: Labels,
        /// Place in the batch of the entry that says so.
        entry: usize,
    },
    /// Says how many turns of an agent in a row the host had to stop.
    SetStreak {
        /// Which.
        agent: AgentId,
        /// How many.
        streak: u32,
    },
    /// Adds to how an agent has behaved.
    Behaved {
        /// Which.
        agent: AgentId,
        /// How, before this; for a row in which nobody has counted yet.
        before: Conduct,
        /// What is new.
        more: Conduct,
    },
    /// Does to an agent's row what an entry of the batch says about its trust.
    Trust(TrustEvent),
    /// Says what an agent may spend beyond one turn.
    SetCaps {
        /// Which.
        agent: AgentId,
        /// How much.
        caps: Box<Caps>,
    },
    /// Removes an agent with its storage and messages. Its row stays, so that its name does.
    RemoveAgent {
        /// Which.
        agent: AgentId,
    },
    /// Says what an agent is doing.
    SetState {
        /// Which.
        agent: AgentId,
        /// What.
        state: AgentState,
    },
    /// Says which turn of an agent has effects on disk and isn't over.
    Unfinished {
        /// Whose.
        agent: AgentId,
        /// Which, or none.
        turn: Option<u64>,
    },
    /// Writes a key of an agent's storage.
    StorageSet {
        /// Whose.
        agent: AgentId,
        /// Which.
        key: String,
        /// The new value.
        value: Vec<u8>,
        /// Its version.
        version: u64,
    },
    /// Removes a key of an agent's storage, if it is there.
    StorageDelete {
        /// Whose.
        agent: AgentId,
        /// Which.
        key: String,
    },
    /// Leaves a message for an agent.
    Enqueue {
        /// For whom.
        to: AgentId,
        /// What it says.
        message: Message,
    },
    /// Leaves a message of which its sender was told that it is sent: whether there is room was asked before.
    Deliver {
        /// For whom.
        to: AgentId,
        /// What it says.
        message: Message,
    },
    /// Makes a schedule.
    AddSchedule {
        /// Whose.
        agent: AgentId,
        /// Its name among the agent's.
        name: String,
        /// Place in the batch of the entry that says what it is.
        entry: usize,
        /// Due times up to here are none of it.
        until: u64,
    },
    /// Takes a schedule away.
    RemoveSchedule {
        /// Whose.
        agent: AgentId,
        /// Which.
        name: String,
    },
    /// A schedule fired.
    FireSchedule {
        /// Whose.
        agent: AgentId,
        /// Which.
        name: String,
        /// Due times up to here are done with: more than before.
        until: u64,
    },
    /// A message was answered.
    Dequeue {
        /// By whom.
        agent: AgentId,
        /// Which.
        message: u64,
    },
    /// Keeps the signed note over the journal as it stands after this.
    Checkpoint,
}

/// Where an entry came to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its place in the journal.
    pub seq: u64,
    /// Its hash.
    pub hash: Digest,
}

/// What became of a batch.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Where its entries stand, in their order.
    pub entries: Vec<Placed>,
    /// The numbers of the messages that it left, in their order.
    pub messages: std::ops::Range<u64>,
}

/// An entry's body, encoded.
struct Encoded {
    kind: &'static str,
    agent: Option<AgentId>,
    turn: Option<u64>,
    bytes: Vec<u8>,
}

/// A batch after everything that the caller's own thread can do.
pub(crate) struct Prepared {
    entries: Vec<Encoded>,
    /// Blobs, as steps of a commit.
    blobs: Vec<u8>,
    changes: Vec<Change>,
    wants_checkpoint: bool,
}

fn turn_of(body: &Body) -> Option<u64> {
    match body {
        Body::Genesis(_)
        | Body::ComponentAdmitted(_)
        | Body::AgentCreated(_)
        | Body::AgentForked(_)
        | Body::AgentRolledBack(_)
        | Body::AgentQuarantined(_)
        | Body::AgentWoken(_)
        | Body::AgentRemoved(_)
        | Body::RulebookInForce(_)
        | Body::SwitchChanged(_)
        | Body::TrustChanged(_)
        | Body::CapsSet(_)
        | Body::VaultChanged(_)
        | Body::ScheduleAdded(_)
        | Body::ScheduleRemoved(_)
        | Body::ScheduleFired(_) => None,
        Body::EffectOpened(body) => Some(body.turn),
        Body::EffectClosed(body) | Body::Settled(body) => Some(body.turn),
        Body::InDoubt(body) => Some(body.turn),
        Body::Turn(body) => Some(body.turn),
    }
}

impl Prepared {
    pub(crate) fn new(entries: &[Body], all: Vec<Change>) -> Result<Self, StoreError> {
        let encode = |body: &Body| {
            let bytes = canonical::encode(body)?;
            // Room for the frame, which is put round it later.
            if bytes.len() + 256 > MAX_ENTRY {
                return Err(StoreError::bad(format!("an entry of {} bytes; the most is {MAX_ENTRY}", bytes.len())));
            }
            Ok(Encoded { kind: body.kind(), agent: body.agent().cloned(), turn: turn_of(body), bytes })
        };
        let entries = entries.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let (mut blobs, mut changes, mut wants_checkpoint) = (Vec::new(), Vec::with_capacity(2), false);
        for change in all {
            match change {
                Change::Blob(blob) => blobs::pack(&blob, &mut blobs)?,
                Change::Checkpoint => wants_checkpoint = true,
                change => changes.push(change),
            }
        }
        Ok(Self { entries, blobs, changes, wants_checkpoint })
    }

    /// About how many bytes it will be.
    pub(crate) fn size(&self) -> usize {
        self.blobs.len() + self.entries.iter().map(|entry| entry.bytes.len() + 256).sum::<usize>() + 2048
    }
}

/// Where everything stands after the last commit, as far as the next one needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tip {
    pub(crate) size: u64,
    pub(crate) hash: Digest,
    pub(crate) agents: u64,
    pub(crate) checkpoints: u64,
    pub(crate) messages: u64,
    /// The journal's size at the last checkpoint that was kept.
    pub(crate) checkpoint: Option<u64>,
}

/// A commit that is being put together from batches.
pub(crate) struct Draft<'a> {
    source: Source<'a>,
    time: u64,
    pub(crate) tip: Tip,
    pub(crate) rows: Rows,
    pub(crate) written: Vec<Written>,
    pub(crate) mail: Vec<Mail>,
    wants_checkpoint: bool,
    /// Of the entries so far.
    pub(crate) hashes: Vec<Digest>,
    /// Room for a frame's header, and the steps.
    bytes: Vec<u8>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(source: Source<'a>, tip: Tip, time: u64, room: usize) -> Self {
        let mut bytes = Vec::with_capacity(room + HEADER);
        bytes.resize(HEADER, 0);
        Self {
            source,
            time,
            tip,
            rows: Rows::new(),
            written: Vec::new(),
            mail: Vec::new(),
            wants_checkpoint: false,
            hashes: Vec::new(),
            bytes,
        }
    }

    /// Adds a batch, or nothing of it.
    pub(crate) fn add(&mut self, batch: Prepared) -> Result<Done, StoreError> {
        let (tip, len, written, mail) = (self.tip, self.bytes.len(), self.written.len(), self.mail.len());
        let hashes = self.hashes.len();
        let wants_checkpoint = batch.wants_checkpoint;
        let answer = self.lay_out(batch);
        if answer.is_err() {
            self.tip = tip;
            self.bytes.truncate(len);
            self.written.truncate(written);
            self.mail.truncate(mail);
            self.hashes.truncate(hashes);
        } else {
            self.wants_checkpoint |= wants_checkpoint;
        }
        let messages = tip.messages + 1..self.tip.messages + 1;
        answer.map(|entries| Done { entries, messages })
    }

    fn lay_out(&mut self, batch: Prepared) -> Result<Vec<Placed>, StoreError> {
        self.bytes.extend_from_slice(&batch.blobs);
        let placed: Vec<Placed> = batch.entries.iter().map(|entry| self.append(entry)).collect();
        let Self { source, tip, rows, written, mail, bytes, .. } = self;
        let mut touched = Touched::new(rows, source);
        for change in batch.changes {
            match change {
                Change::Enqueue { to, message } => {
                    let encoded = canonical::encode(&message)?;
                    mailbox::room(&mut touched, &to, encoded.len() as u64)?;
                    mail.push(deliver(&mut touched, tip, bytes, to, message, &encoded)?);
                }
                Change::Deliver { to, message } => {
                    let encoded = canonical::encode(&message)?;
                    mail.push(deliver(&mut touched, tip, bytes, to, message, &encoded)?);
                }
                change => make(&mut touched, tip, bytes, written, &placed, change)?,
            }
        }
        for (entry, placed) in batch.entries.iter().zip(&placed) {
            if let Some(agent) = &entry.agent {
                touched.any(agent)?.extend_trail(placed.seq, entry.kind, entry.turn);
            }
        }
        let touched = touched.into_rows();
        self.rows.extend(touched);
        Ok(placed)
    }

    fn append(&mut self, entry: &Encoded) -> Placed {
        let bytes = frame(&entry.bytes, &self.tip.hash, self.tip.size, self.time);
        let placed = Placed { seq: self.tip.size, hash: Digest::of(&bytes) };
        Op::Entry { bytes: &bytes }.write(&mut self.bytes);
        self.tip.size += 1;
        self.tip.hash = placed.hash;
        self.hashes.push(placed.hash);
        placed
    }

    /// The commit's last steps. Returns all of them, with room for a frame's header before.
    pub(crate) fn finish(&mut self) -> Result<Vec<u8>, StoreError> {
        let tip = &mut self.tip;
        // The same size has the same note: asking twice keeps it once.
        let keeps_note = self.wants_checkpoint && tip.checkpoint != Some(tip.size);
        if keeps_note {
            tip.checkpoints += 1;
            tip.checkpoint = Some(tip.size);
        }
        let Tip { size, hash, agents, checkpoints, messages, .. } = *tip;
        self.rows.values().try_for_each(|row| row.write(&mut self.bytes))?;
        Op::End(End { keeps_note, size, hash, agents, checkpoints, messages }).write(&mut self.bytes);
        Ok(std::mem::take(&mut self.bytes))
    }
}

/// Puts a message in line.
fn deliver(
    agents: &mut Touched<'_>,
    tip: &mut Tip,
    out: &mut Vec<u8>,
    to: AgentId,
    message: Message,
    encoded: &[u8],
) -> Result<Mail, StoreError> {
    mailbox::enqueue(agents, &to, tip.messages + 1, encoded.len() as u64)?;
    tip.messages += 1;
    Op::Enqueue { agent: to.as_str(), id: tip.messages, message: encoded }.write(out);
    Ok(Mail { id: tip.messages, message, size: encoded.len() + 256 })
}

fn make(
    agents: &mut Touched<'_>,
    tip: &mut Tip,
    out: &mut Vec<u8>,
    written: &mut Vec<Written>,
    placed: &[Placed],
    change: Change,
) -> Result<(), StoreError> {
    let entry_hash = |entry: usize| {
        let found = placed.get(entry).map(|placed| placed.hash);
        found.ok_or_else(|| StoreError::bad(format!("entry {entry} of a batch that has {}", placed.len())))
    };
    match change {
        Change::CreateAgent(new) => {
            let (hash, agent) = (entry_hash(new.entry)?, new.agent.clone());
            agents.create(*new, hash)?;
            tip.agents += 1;
            Op::Begin { agent: agent.as_str() }.write(out);
        }
        Change::Turned { agent, turn, image, account, labels, entry, kept } => {
            let row = agents.living(&agent)?;
            if turn != row.turn + 1 {
                return Err(StoreError::OutOfTurn { agent, taken: row.turn, turn });
            }
            (row.turn, row.last_entry) = (turn, entry_hash(entry)?);
            row.unfinished = None;
            row.account = *account;
            if kept {
                (row.image, row.labels) = (image, labels);
            }
        }
        Change::RemoveAgent { agent } | Change::SetState { agent, state: AgentState::Removed } => {
            agents.remove(&agent)?;
            Op::Clear { agent: agent.as_str() }.write(out);
        }
        Change::RolledBack { agent, image, labels, entry } => {
            agents.roll_back(&agent, image, labels, entry_hash(entry)?)?;
        }
        Change::SetStreak { agent, streak } => agents.living(&agent)?.streak = streak,
        Change::Behaved { agent, before, more } => agents.living(&agent)?.behaved(before, more),
        // Also of an agent that is gone: the entry stands in the journal all the same.
        Change::Trust(event) => agents.any(&event.agent)?.judge(&event),
        Change::SetCaps { agent, caps } => agents.living(&agent)?.caps = *caps,
        Change::SetState { agent, state } => agents.living(&agent)?.state = state,
        Change::Unfinished { agent, turn } => agents.living(&agent)?.unfinished = turn,
        Change::StorageSet { agent, key, value, version } => {
            agents.living(&agent)?;
            Op::Set { agent: agent.as_str(), key: &key, version, value: &value }.write(out);
            written.push(Written { agent, key, value: Some((value, version)) });
        }
        Change::StorageDelete { agent, key } => {
            agents.living(&agent)?;
            Op::Delete { agent: agent.as_str(), key: &key }.write(out);
            written.push(Written { agent, key, value: None });
        }
        Change::AddSchedule { agent, name, entry, until } => {
            let entry = placed.get(entry).map(|placed| placed.seq).ok_or_else(|| StoreError::bad("no such entry"))?;
            schedules::add(agents.living(&agent)?, name, entry, until)?;
        }
        Change::RemoveSchedule { agent, name } => schedules::remove(agents.living(&agent)?, &name)?,
        Change::FireSchedule { agent, name, until } => schedules::fire(agents.living(&agent)?, &name, until)?,
        Change::Dequeue { agent, message } => {
            mailbox::dequeue(agents, &agent, message)?;
            Op::Dequeue { agent: agent.as_str(), id: message }.write(out);
        }
        // Taken out before: when the batch was prepared, or by whoever calls this.
        Change::Blob(_) | Change::Checkpoint | Change::Enqueue { .. } | Change::Deliver { .. } => {}
    }
    Ok(())
}

//! What is written together: entries of the journal, and the changes that go with them.

use lazaret_gate::entry::frame;
use lazaret_gate::limits::MAX_ENTRY;
use lazaret_gate::record::{Body, Message};
use lazaret_gate::{AgentId, Digest, canonical, merkle};
use rusqlite::{Connection, params};

use crate::agents::{AgentState, Loaded, NewAgent, Touched};
use crate::blobs::Packed;
use crate::error::StoreError;
use crate::head::Head;
use crate::{mailbox, storage};

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
    Blob {
        /// Their name.
        digest: Digest,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Makes an agent. Its name must never have been used.
    CreateAgent(NewAgent),
    /// An agent's turn is over.
    Turned {
        /// Whose.
        agent: AgentId,
        /// Which: one more than it had taken.
        turn: u64,
        /// The image it left.
        image: Option<Digest>,
        /// Place in the batch of the turn's record.
        entry: usize,
        /// Whether the image becomes the one to wake from.
        kept: bool,
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
    /// A message was answered.
    Dequeue {
        /// By whom.
        agent: AgentId,
        /// Which.
        message: u64,
    },
    /// Keeps the signed note that this transaction ends with.
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
    blobs: Vec<Packed>,
    changes: Vec<Change>,
    pub(crate) wants_checkpoint: bool,
}

fn turn_of(body: &Body) -> Option<u64> {
    match body {
        Body::Genesis(_) | Body::ComponentAdmitted(_) | Body::AgentCreated(_) | Body::AgentRemoved(_) => None,
        Body::EffectOpened(body) => Some(body.turn),
        Body::EffectClosed(body) | Body::Settled(body) => Some(body.turn),
        Body::InDoubt(body) => Some(body.turn),
        Body::Turn(body) => Some(body.turn),
    }
}

impl Prepared {
    pub(crate) fn new(batch: Batch) -> Result<Self, StoreError> {
        let encode = |body: &Body| {
            let bytes = canonical::encode(body)?;
            // Room for the frame, which is put round it later.
            if bytes.len() + 256 > MAX_ENTRY {
                return Err(StoreError::bad(format!("an entry of {} bytes; the most is {MAX_ENTRY}", bytes.len())));
            }
            Ok(Encoded { kind: body.kind(), agent: body.agent().cloned(), turn: turn_of(body), bytes })
        };
        let entries = batch.entries.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let (mut blobs, mut changes, mut wants_checkpoint) = (Vec::new(), Vec::new(), false);
        for change in batch.changes {
            match change {
                Change::Blob { digest, bytes } => blobs.push(Packed::new(digest, bytes)?),
                Change::Checkpoint => wants_checkpoint = true,
                change => changes.push(change),
            }
        }
        Ok(Self { entries, blobs, changes, wants_checkpoint })
    }

    /// Writes it inside the open transaction. After an error the caller undoes both the transaction and `head`.
    pub(crate) fn write(
        self,
        conn: &Connection,
        head: &mut Head,
        loaded: &mut Loaded,
        time: u64,
    ) -> Result<Vec<Placed>, StoreError> {
        self.blobs.iter().try_for_each(|blob| blob.write(conn))?;
        let placed: Vec<Placed> =
            self.entries.iter().map(|entry| append(conn, head, entry, time)).collect::<Result<_, _>>()?;
        let mut agents = Touched::new(loaded);
        for change in self.changes {
            make(conn, head, &mut agents, &placed, change)?;
        }
        for (entry, placed) in self.entries.iter().zip(&placed) {
            if let Some(agent) = &entry.agent {
                agents.any(conn, agent)?.extend_trail(placed.seq, entry.kind, entry.turn);
            }
        }
        let touched = agents.into_rows();
        loaded.accept(touched);
        Ok(placed)
    }
}

fn append(conn: &Connection, head: &mut Head, entry: &Encoded, time: u64) -> Result<Placed, StoreError> {
    let seq = head.size();
    let bytes = frame(&entry.bytes, &head.hash, seq, time);
    let (hash, leaf) = (Digest::of(&bytes), merkle::leaf(&bytes));
    let agent = entry.agent.as_ref().map(AgentId::as_str);
    conn.prepare_cached("INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(params![
        seq.cast_signed(),
        entry.kind,
        agent,
        entry.turn.map(u64::cast_signed),
        hash.0,
        leaf,
        bytes
    ])?;
    head.frontier.push(leaf);
    head.hash = hash;
    Ok(Placed { seq, hash })
}

fn make(
    conn: &Connection,
    head: &mut Head,
    agents: &mut Touched<'_>,
    placed: &[Placed],
    change: Change,
) -> Result<(), StoreError> {
    let entry_hash = |entry: usize| {
        let found = placed.get(entry).map(|placed| placed.hash);
        found.ok_or_else(|| StoreError::bad(format!("entry {entry} of a batch that has {}", placed.len())))
    };
    match change {
        Change::CreateAgent(new) => {
            let hash = entry_hash(new.entry)?;
            agents.create(conn, head, new, hash)?;
        }
        Change::Turned { agent, turn, image, entry, kept } => {
            let row = agents.living(conn, &agent)?;
            if turn != row.turn + 1 {
                return Err(StoreError::OutOfTurn { agent, taken: row.turn, turn });
            }
            row.turn = turn;
            row.last_entry = entry_hash(entry)?;
            row.unfinished = None;
            if kept {
                row.image = image;
            }
        }
        Change::RemoveAgent { agent } | Change::SetState { agent, state: AgentState::Removed } => {
            agents.remove(conn, &agent)?;
        }
        Change::SetState { agent, state } => agents.living(conn, &agent)?.state = state,
        Change::Unfinished { agent, turn } => agents.living(conn, &agent)?.unfinished = turn,
        Change::StorageSet { agent, key, value, version } => {
            agents.living(conn, &agent)?;
            storage::set(conn, &agent, &key, &value, version)?;
        }
        Change::StorageDelete { agent, key } => {
            agents.living(conn, &agent)?;
            storage::delete(conn, &agent, &key)?;
        }
        Change::Enqueue { to, message } => mailbox::enqueue(conn, head, agents, &to, &message)?,
        Change::Dequeue { agent, message } => mailbox::dequeue(conn, agents, &agent, message)?,
        // Both were taken out when the batch was prepared.
        Change::Blob { .. } | Change::Checkpoint => {}
    }
    Ok(())
}

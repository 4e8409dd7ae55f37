//! REMEMBERS. Journal, agents, images, storage and mailbox, in one SQLite database in the data root; secrets in a [`vault`]
//! beside it.
//!
//! Writing: [`Store::commit`] takes a [`Batch`], which is on disk or nowhere when it returns. Batches of many threads
//! make one commit: one frame of the redo log, written and flushed once. A thread lays commits into the tables, many in
//! one transaction, which ends with a signed checkpoint over the whole journal; after a crash, whoever opens the data root
//! does. Whoever reads in this process sees what was acknowledged.
//!
//! Reading: [`Reader`]. SQLite doesn't notice a flipped bit, so every row carries a digest, every entry is compared with
//! its hash, and a missing row is missed. What can't be believed is an error and never an answer.
//!
//! Nothing here decides, and nothing outside the data root is touched.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate keeps the data root: files are its job"
)]

mod agents;
mod air;
mod batch;
mod blobs;
mod crowd;
mod db;
mod desk;
mod error;
mod head;
mod journal;
mod key;
pub mod limits;
mod mailbox;
mod op;
mod pending;
mod reader;
mod recent;
mod redo;
mod ring;
mod root;
mod schedules;
mod schema;
mod seal;
mod storage;
mod tables;
mod told;
pub mod vault;
mod verify;
mod writer;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use lazaret_gate::AgentId;
use lazaret_gate::record::{Body, Genesis, Message};

pub use agents::{AgentRow, AgentState, NewAgent, Standing};
pub use batch::{Batch, Change, Done, Placed};
pub use error::StoreError;
pub use reader::Reader;
pub use redo::Ahead;
pub use schedules::Unscheduled;
pub use told::{Committed, Listener};
pub use verify::Verified;
pub use writer::Ticket;

use air::Air;
use batch::{Prepared, Tip};
use db::Pool;
use desk::{Begun, Desk};
use head::Head;
use key::HostKey;
use pending::{Applier, Pending};
use recent::Recent;
use redo::Redo;
use root::{Lock, Root};
use tables::Tables;
use told::Told;
use writer::Writer;

/// The format that the journal's first entry names.
pub const JOURNAL_FORMAT: &str = "lazaret-journal/1";

/// A data root that this process may write. Reads like a [`Reader`].
pub struct Store {
    reader: Reader,
    writer: Writer,
    recent: Arc<Recent>,
    told: Told,
    key: Arc<HostKey>,
    /// INVARIANT: dropped last, after every connection is closed.
    _lock: Lock,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("verifier", self.reader.verifier()).finish_non_exhaustive()
    }
}

impl Deref for Store {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl Store {
    /// Opens a data root to write, making what isn't there yet. `now` gives milliseconds since 1970.
    pub fn open(path: &Path, now: fn() -> u64) -> Result<Self, StoreError> {
        Self::open_ahead(path, now, |_, _, _| {})
    }

    /// As [`Self::open`], with something that can begin a write before it is flushed. See [`Ticket::wait_while`].
    pub fn open_ahead(path: &Path, now: fn() -> u64, ahead: Ahead) -> Result<Self, StoreError> {
        let root = Root::prepare(path)?;
        let lock = root.lock()?;
        let (tables, mut redo, key) = take_up(&root)?;
        redo.begin_with(ahead);
        let number = tables.head.applied;
        let checkpoint = tables.last_checkpoint()?;
        let Head { hash, agents, checkpoints, messages, .. } = tables.head;
        let tip = Tip { size: tables.head.size(), hash, agents, checkpoints, messages, checkpoint };
        let (recent, pending) = (Arc::new(Recent::default()), Arc::new(Pending::new(number)));
        let pool = Pool::open(root.database(), &root.log())?;
        let applier = Applier::start(tables, Arc::clone(&pending))?;
        let told = Told::default();
        let air = Arc::new(Air::new((number, tip.size), Arc::clone(&recent), Arc::clone(&pending), told.clone()));
        let (ahead, asked_safe) = (VecDeque::new(), None);
        let (recent_too, pending_too) = (Arc::clone(&recent), Arc::clone(&pending));
        let mut desk = Desk { redo, tip, now, recent: recent_too, pending: pending_too, air, ahead, pool, asked_safe };
        if number == 0 {
            begin(&mut desk, &key)?;
            pending.drain()?;
        }
        let pool = Pool::open(root.database(), &root.log())?.after(pending);
        let reader = Reader::over(pool, key.verifier().clone())?;
        Ok(Self { reader, writer: Writer::new(desk, applier), recent, told, key, _lock: lock })
    }

    /// Whether a data root that is there can be this process's: it is its user's, and closed to others. Touches nothing.
    pub fn examine(path: &Path) -> Result<(), StoreError> {
        Root::examine(path)
    }

    /// Opens a data root to read, whether or not another process writes it. What that one has acknowledged by now is seen;
    /// what it acknowledges later, once it is in the tables. If it was cut off before, this brings it there.
    pub fn open_read_only(path: &Path) -> Result<Reader, StoreError> {
        Reader::open(path)
    }

    /// A secret of this host for one purpose. It can't be told from random, and says nothing about the host's key.
    pub fn secret(&self, purpose: &str) -> [u8; 32] {
        self.key.secret(purpose)
    }

    /// One agent, even if removed. Like [`Reader::agent`], and faster.
    pub fn agent(&self, agent: &AgentId) -> Result<Option<Arc<AgentRow>>, StoreError> {
        match self.recent.row(agent) {
            Some(row) => Ok(Some(row)),
            // No commit that waits for the tables has touched it.
            None => Ok(self.reader.row(agent)?.map(Arc::new)),
        }
    }

    /// All agents by name, removed ones included. Like [`Reader::agents`], and waits for nothing: on a full disk the tables may
    /// have to wait, and nobody should be unable to look.
    pub fn agents_now(&self) -> Result<Vec<AgentRow>, StoreError> {
        // In this order: what is let go of meanwhile is in the tables by then.
        let recent = self.recent.rows();
        let (rows, applied) = self.reader.rows()?;
        let mut rows: BTreeMap<AgentId, AgentRow> = rows.into_iter().map(|row| (row.agent.clone(), row)).collect();
        for (number, row) in recent {
            if number > applied {
                rows.insert(row.agent.clone(), Arc::unwrap_or_clone(row));
            }
        }
        Ok(rows.into_values().collect())
    }

    /// How many entries the journal has. Like [`Reader::journal_len`], and waits for nothing.
    pub fn acknowledged(&self) -> u64 {
        self.writer.acknowledged()
    }

    /// Whether what is stored can be read.
    pub fn answers(&self) -> Result<(), StoreError> {
        self.reader.peek()
    }

    /// A value of an agent's storage, and its version. Like [`Reader::storage_get`], and faster.
    pub fn storage_get(&self, agent: &AgentId, key: &str) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
        if let Some(value) = self.recent.value(agent, key) {
            return Ok(value);
        }
        let stored = if self.recent.is_removed(agent) { None } else { self.reader.stored(agent, key).ok() };
        // An agent that was just made or removed is still unlike that in the tables.
        stored.map_or_else(|| self.reader.storage_get(agent, key), Ok)
    }

    /// How many messages wait for an agent. Like [`Reader::mailbox_len`], and faster.
    pub fn mailbox_len(&self, agent: &AgentId) -> Result<u64, StoreError> {
        self.recent.queued(agent).map_or_else(|| self.reader.mailbox_len(agent), |len| Ok(len as u64))
    }

    /// The oldest message that waits for an agent. Like [`Reader::mailbox_next`], and faster if there is none or it is new.
    pub fn mailbox_next(&self, agent: &AgentId) -> Result<Option<(u64, Message)>, StoreError> {
        match self.recent.next(agent) {
            Some(next) => Ok(next),
            None => self.reader.mailbox_next(agent),
        }
    }

    /// Writes a batch; returns when it is on disk. Any number of threads may do so at once.
    pub fn commit(&self, batch: Batch) -> Result<Vec<Placed>, StoreError> {
        self.commit_async(batch)?.wait()
    }

    /// As [`Self::commit`], for whoever still needs the entries.
    pub fn commit_entries(&self, entries: &[Body], changes: Vec<Change>) -> Result<Vec<Placed>, StoreError> {
        self.writer.queue(Prepared::new(entries, changes)?).wait()
    }

    /// As [`Self::commit_entries`], with something to do while the disk works: see [`Ticket::wait_while`].
    pub fn commit_entries_while(
        &self,
        entries: &[Body],
        changes: Vec<Change>,
        meanwhile: impl FnOnce(),
    ) -> Result<Vec<Placed>, StoreError> {
        self.writer.queue(Prepared::new(entries, changes)?).wait_while(meanwhile)
    }

    /// Puts a batch in line, to be written with the others that are.
    pub fn commit_async(&self, batch: Batch) -> Result<Ticket, StoreError> {
        Ok(self.writer.queue(Prepared::new(&batch.entries, batch.changes)?))
    }

    /// Why the last commit that was tried is not on disk, or not in the tables; none if it is.
    pub fn unwritten(&self) -> Option<StoreError> {
        self.writer.unwritten()
    }

    /// Tells this listener of every commit from here on. False if somebody else is told already.
    pub fn listen(&self, listener: Box<Listener>) -> bool {
        self.told.listen(listener)
    }

    /// Writes what is in line and closes. Dropping does the same.
    pub fn close(self) {}
}

impl Drop for Store {
    fn drop(&mut self) {
        self.reader.close();
        self.writer.close();
    }
}

/// The first entry, and the first checkpoint.
fn begin(desk: &mut Desk, key: &HostKey) -> Result<(), StoreError> {
    let genesis = Genesis { format: JOURNAL_FORMAT.to_owned(), key: key.verifier().to_text() };
    let batch = Prepared::new(&[Body::Genesis(genesis)], vec![Change::Checkpoint])?;
    let answers = match desk.begin(vec![batch]) {
        Begun::Nothing(answers) => answers,
        Begun::Flight(number, flush) => {
            let landed = desk.air.land(number, flush.wait());
            desk.mend()?;
            landed.into_iter().flat_map(|landed| landed.answers).collect()
        }
    };
    answers.into_iter().next().unwrap_or(Err(StoreError::Closed)).map(drop)
}

/// Brings the database up to date with the redo log, and begins that anew. Whoever does this holds the lock.
fn take_up(root: &Root) -> Result<(Tables, Redo, Arc<HostKey>), StoreError> {
    root.make_database()?;
    let mut conn = db::open_writer(&root.database()).map_err(|why| not_ours(root, why))?;
    schema::migrate(&mut conn, &root.database()).map_err(|why| not_ours(root, why))?;
    db::enable_log(&conn)?;
    let head = Head::read(&conn)?;
    if head.is_none() && journal::begun(&conn)? {
        return Err(StoreError::damaged("the row that says where the journal ends"));
    }
    let log = redo::read(root)?;
    let begun = head.is_some() || redo::last(&log, None, 0).is_some();
    let key = Arc::new(HostKey::read_or_make(root, !begun)?);
    if head.is_some() && journal::genesis(&conn)? != *key.verifier() {
        return Err(reader::foreign_key(root));
    }
    let mut tables = Tables::new(conn, Arc::clone(&key), head.unwrap_or_default())?;
    let secret = key.of_the_log();
    let commits = redo::frames(&log, &secret, tables.head.applied, &tables.head.mark)?;
    for commits in commits.chunks(limits::MAX_APPLIED) {
        tables.apply(commits)?;
    }
    if !log.is_empty() {
        tables.settle()?;
    }
    let redo = Redo::begin(root, secret, tables.head.applied, tables.head.mark)?;
    Ok((tables, redo, key))
}

/// For whoever only reads: a process that wrote here was cut off, and what it acknowledged is not all in the database, so
/// it is brought there. False if that process still lives: then it will do so itself.
fn recover(root: &Root) -> Result<bool, StoreError> {
    let cant = |why: StoreError| StoreError::Unapplied { path: root.redo(), why: why.to_string() };
    let Some(_lock) = root.pass_through().map_err(cant)? else { return Ok(false) };
    take_up(root).map(|_| true).map_err(|why| match why {
        StoreError::ReadOnly { .. } | StoreError::Owner { .. } | StoreError::Exposed { .. } => cant(why),
        why => why,
    })
}

/// SQLite says "corrupt" of a file that never was a database.
fn not_ours(root: &Root, why: StoreError) -> StoreError {
    match why {
        // Where the host's key is, it was one.
        StoreError::Corrupt { why } if !root.key().exists() => StoreError::NotOurs { path: root.database(), why },
        StoreError::NotOurs { why, .. } if root.key().exists() => StoreError::Corrupt { why },
        why => why,
    }
}

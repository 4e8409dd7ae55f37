//! REMEMBERS. Journal, agents, images, storage and mailbox, in one SQLite database in the data root.
//!
//! Writing: [`Store::commit`] takes a [`Batch`], which is on disk or nowhere when it returns. Batches of many threads
//! share a transaction and its one flush. Each transaction ends with a signed checkpoint over the whole journal.
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
mod batch;
mod blobs;
mod db;
mod desk;
mod error;
mod head;
mod journal;
mod key;
pub mod limits;
mod log;
mod mailbox;
mod reader;
mod root;
mod schema;
mod seal;
mod storage;
mod verify;
mod writer;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use lazaret_gate::AgentId;
use lazaret_gate::record::{Body, Genesis};

pub use agents::{AgentRow, AgentState, NewAgent};
pub use batch::{Batch, Change, Placed};
pub use error::StoreError;
pub use reader::Reader;
pub use verify::Verified;
pub use writer::Ticket;

use batch::Prepared;
use db::Pool;
use desk::Desk;
use head::Head;
use key::HostKey;
use root::{Lock, Root};
use writer::Writer;

/// The format that the journal's first entry names.
pub const JOURNAL_FORMAT: &str = "lazaret-journal/1";

/// A data root that this process may write. Reads like a [`Reader`].
pub struct Store {
    reader: Reader,
    writer: Writer,
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
        let root = Root::prepare(path)?;
        let lock = root.lock()?;
        log::check(&root.log())?;
        root.make_database()?;
        let mut conn = db::open_writer(&root.database()).map_err(|why| not_ours(&root, why))?;
        schema::migrate(&mut conn, &root.database()).map_err(|why| not_ours(&root, why))?;
        db::enable_log(&conn)?;
        let head = Head::read(&conn)?;
        if head.is_none() && journal::begun(&conn)? {
            return Err(StoreError::damaged("the row that says where the journal ends"));
        }
        let key = Arc::new(HostKey::read_or_make(&root, head.is_none())?);
        if head.is_some() && journal::genesis(&conn)? != *key.verifier() {
            return Err(reader::foreign_key(&root));
        }
        let begun = head.is_some();
        let mut desk = Desk::new(conn, Arc::clone(&key), now, head.unwrap_or_default(), root.log())?;
        if !begun {
            begin(&mut desk, &key)?;
        }
        let reader = Reader::over(Pool::open(root.database(), &root.log())?, key.verifier().clone())?;
        let writer = Writer::new(desk, &root.database())?;
        Ok(Self { reader, writer, key, _lock: lock })
    }

    /// Opens a data root to read, whether or not another process writes it.
    pub fn open_read_only(path: &Path) -> Result<Reader, StoreError> {
        Reader::open(path)
    }

    /// A secret of this host for one purpose. It can't be told from random, and says nothing about the host's key.
    pub fn secret(&self, purpose: &str) -> [u8; 32] {
        self.key.secret(purpose)
    }

    /// One agent, even if removed. Like [`Reader::agent`], and faster between two commits.
    pub fn agent(&self, agent: &AgentId) -> Result<Option<AgentRow>, StoreError> {
        let found = self.writer.look(|conn| agents::find(conn, agent));
        found.unwrap_or_else(|| self.reader.agent(agent))
    }

    /// A value of an agent's storage, and its version. Like [`Reader::storage_get`], and faster between two commits.
    pub fn storage_get(&self, agent: &AgentId, key: &str) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
        let found = self.writer.look(|conn| storage::get(conn, agent, key));
        found.unwrap_or_else(|| self.reader.storage_get(agent, key))
    }

    /// Writes a batch; returns when it is on disk. Any number of threads may do so at once.
    pub fn commit(&self, batch: Batch) -> Result<Vec<Placed>, StoreError> {
        self.commit_async(batch)?.wait()
    }

    /// Puts a batch in line, to be written with the others that are.
    pub fn commit_async(&self, batch: Batch) -> Result<Ticket, StoreError> {
        Ok(self.writer.queue(Prepared::new(batch)?))
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
    let batch = Batch { entries: vec![Body::Genesis(genesis)], changes: vec![Change::Checkpoint] };
    desk.commit(vec![Prepared::new(batch)?]).pop().unwrap_or(Err(StoreError::Closed))?;
    Ok(())
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

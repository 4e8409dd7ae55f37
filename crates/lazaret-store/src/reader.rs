//! Everything that can be asked of a data root without changing it.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use lazaret_gate::checkpoint::{Checkpoint, Verifier};
use lazaret_gate::entry::Entry;
use lazaret_gate::merkle::Prover;
use lazaret_gate::outcome::KeyInfo;
use lazaret_gate::record::Message;
use lazaret_gate::{AgentId, Digest};

use crate::agents::{self, AgentRow};
use crate::db::Pool;
use crate::error::StoreError;
use crate::head::Head;
use crate::key::HostKey;
use crate::limits::{CATCH_UP_LOOKS, CATCH_UP_PAUSE};
use crate::root::Root;
use crate::verify::{self, Verified};
use crate::{blobs, journal, mailbox, redo, schema, storage};

/// Reads a data root. Whatever it returns was checked on the way; what fails the check is an error, never an answer.
#[derive(Debug)]
pub struct Reader {
    pool: Pool,
    verifier: Verifier,
}

impl Reader {
    /// Opens a data root to read, beside whoever writes.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let root = Root::existing(path)?;
        let connect = || Pool::open(root.database(), &root.log()).map_err(|why| crate::not_ours(&root, why));
        let mut pool = connect()?;
        let insist = |pool: &Pool| {
            pool.glance(|conn| schema::insist(conn, &root.database()).map_err(|why| crate::not_ours(&root, why)))
        };
        if let Err(why) = insist(&pool) {
            // Written by an earlier release: whoever may write brings it up to date.
            pool.close();
            if !matches!(why, StoreError::Older { .. }) || !matches!(crate::recover(&root), Ok(true)) {
                return Err(why);
            }
            pool = connect()?;
            insist(&pool)?;
        }
        let applied = |pool: &Pool| pool.glance(|conn| Ok(Head::read(conn)?.map_or(0, |head| head.applied)));
        let key = HostKey::read(&root)?;
        let secret = key.as_ref().map(HostKey::of_the_log);
        if let Some(last) = redo::last(&redo::read(&root)?, secret.as_ref(), applied(&pool)?) {
            for _ in 0..CATCH_UP_LOOKS {
                pool.close();
                if crate::recover(&root)? {
                    pool = connect()?;
                    break;
                }
                // Else somebody writes, and brings it into the tables at any moment. If that fails, it is read as it is.
                if applied(&pool)? >= last {
                    break;
                }
                std::thread::sleep(CATCH_UP_PAUSE);
            }
        }
        let named = pool.read(|conn| {
            // Made by a process that died, or is about, to write the first entry.
            if Head::read(conn)?.is_none() && !journal::begun(conn)? {
                return Err(StoreError::NoStore { path: path.to_owned() });
            }
            journal::genesis(conn)
        })?;
        // A copy without the key can still be read; one with another key was put together from two.
        if key.is_some_and(|key| *key.verifier() != named) {
            return Err(foreign_key(&root));
        }
        Self::over(pool, named)
    }

    /// Reads through these connections. The journal's end is checked against its signature.
    pub(crate) fn over(pool: Pool, verifier: Verifier) -> Result<Self, StoreError> {
        pool.read(|conn| {
            let head = Head::require(conn)?;
            head.check(&verifier)?;
            head.check_end(conn)
        })?;
        Ok(Self { pool, verifier })
    }

    /// The tables, once they hold everything that is acknowledged.
    fn tables(&self) -> Result<&Pool, StoreError> {
        self.pool.catch_up()?;
        Ok(&self.pool)
    }

    /// An agent's row as it is in the tables.
    pub(crate) fn row(&self, agent: &AgentId) -> Result<Option<AgentRow>, StoreError> {
        self.pool.read(|conn| agents::find(conn, agent))
    }

    /// The rows of all agents as they are in the tables, and the last commit that these hold.
    pub(crate) fn rows(&self) -> Result<(Vec<AgentRow>, u64), StoreError> {
        self.pool.read(|conn| Ok((agents::all(conn)?, Head::require(conn)?.applied)))
    }

    /// Whether the tables can be read, whatever they lack.
    pub(crate) fn peek(&self) -> Result<(), StoreError> {
        self.pool.glance(Head::require).map(drop)
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// Whoever checks this journal's signatures needs this.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// All agents by name, removed ones included.
    pub fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        self.tables()?.read(agents::all)
    }

    /// One agent, even if removed.
    pub fn agent(&self, agent: &AgentId) -> Result<Option<AgentRow>, StoreError> {
        self.tables()?.read(|conn| agents::find(conn, agent))
    }

    /// The bytes with this digest.
    pub fn blob(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let found = self.tables()?.glance(|conn| blobs::get(conn, &[*digest]))?;
        found.into_iter().next().ok_or(StoreError::NoSuchBlob { digest: *digest })
    }

    /// Many of them, in the order asked: one state, one connection.
    pub fn blobs(&self, digests: &[Digest]) -> Result<Vec<Vec<u8>>, StoreError> {
        self.tables()?.read(|conn| blobs::get(conn, digests))
    }

    /// Whether there are such bytes.
    pub fn has_blob(&self, digest: &Digest) -> Result<bool, StoreError> {
        self.tables()?.glance(|conn| blobs::has(conn, digest))
    }

    /// A value of an agent's storage, and its version.
    pub fn storage_get(&self, agent: &AgentId, key: &str) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
        self.pool.catch_up()?;
        self.stored(agent, key)
    }

    /// A value as it is in the tables.
    pub(crate) fn stored(&self, agent: &AgentId, key: &str) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
        match self.pool.glance(|conn| storage::get(conn, agent, key)) {
            // More than one statement went into this answer, and the agent may have been made between them.
            Err(StoreError::Damaged { .. }) => self.pool.read(|conn| storage::get(conn, agent, key)),
            answer => answer,
        }
    }

    /// Keys of an agent's storage that start with `prefix` and come after `after`, in byte order, at most `limit`.
    pub fn storage_list(
        &self,
        agent: &AgentId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<KeyInfo>, StoreError> {
        self.tables()?.read(|conn| storage::list(conn, agent, prefix, after, limit))
    }

    /// The oldest message that waits for an agent, and its number.
    pub fn mailbox_next(&self, agent: &AgentId) -> Result<Option<(u64, Message)>, StoreError> {
        self.tables()?.read(|conn| mailbox::next(conn, agent))
    }

    /// How many messages wait for an agent.
    pub fn mailbox_len(&self, agent: &AgentId) -> Result<u64, StoreError> {
        self.tables()?.read(|conn| mailbox::len(conn, agent))
    }

    /// How many entries the journal has.
    pub fn journal_len(&self) -> Result<u64, StoreError> {
        self.tables()?.glance(|conn| Head::require(conn).map(|head| head.size()))
    }

    /// An entry's canonical bytes.
    pub fn entry_bytes(&self, seq: u64) -> Result<Vec<u8>, StoreError> {
        self.tables()?.read(|conn| journal::entry(conn, seq)).map(|row| row.bytes)
    }

    /// An entry, read.
    pub fn entry(&self, seq: u64) -> Result<Entry, StoreError> {
        journal::decode(seq, &self.entry_bytes(seq)?)
    }

    /// Hands over the entries of a range in order, until told to stop. What lies past the journal's end is left out.
    pub fn entries(
        &self,
        range: Range<u64>,
        visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tables()?.read(|conn| journal::each(conn, range, visit))
    }

    /// Where an agent's entries stand, of one kind or of one turn if asked so.
    pub fn agent_entries(
        &self,
        agent: &AgentId,
        kind: Option<&str>,
        turn: Option<u64>,
    ) -> Result<Vec<u64>, StoreError> {
        self.tables()?.read(|conn| journal::of_agent(conn, agent, kind, turn))
    }

    /// All entries of an agent, in order: place, kind and turn of each.
    pub fn trail(&self, agent: &AgentId) -> Result<Vec<(u64, String, Option<u64>)>, StoreError> {
        self.tables()?.read(|conn| journal::trail(conn, agent))
    }

    /// Where an agent's turn stands, if it was taken.
    pub fn turn_entry(&self, agent: &AgentId, turn: u64) -> Result<Option<u64>, StoreError> {
        Ok(self.tables()?.read(|conn| journal::turn(conn, agent, turn))?.map(|(seq, _)| seq))
    }

    /// The places of the entries of a kind that is about no agent, in order.
    pub fn entries_of_kind(&self, kind: &str) -> Result<Vec<u64>, StoreError> {
        self.tables()?.glance(|conn| {
            let mut query =
                conn.prepare_cached("SELECT seq FROM journal WHERE kind = ?1 AND agent IS NULL ORDER BY seq")?;
            let rows = query.query_map([kind], |row| row.get::<_, i64>(0))?;
            Ok(rows.map(|seq| seq.map(i64::cast_unsigned)).collect::<Result<_, _>>()?)
        })
    }

    /// What is on disk of a turn that isn't over: effects opened, closed, in doubt and settled, in order.
    pub fn unfinished_entries(&self, agent: &AgentId, turn: u64) -> Result<Vec<Entry>, StoreError> {
        self.tables()?.read(|conn| journal::unfinished(conn, agent, turn))
    }

    /// The signed checkpoint over the whole journal, and its note.
    pub fn head(&self) -> Result<(Checkpoint, String), StoreError> {
        let head = self.tables()?.glance(Head::require)?;
        Ok((head.check(&self.verifier)?, head.note))
    }

    /// The checkpoints that were asked for, oldest first.
    pub fn checkpoints(&self) -> Result<Vec<(Checkpoint, String)>, StoreError> {
        self.tables()?.read(|conn| journal::checkpoints(conn, &self.verifier))
    }

    /// Makes proofs for any entry and any earlier size.
    pub fn prover(&self) -> Result<Prover, StoreError> {
        self.tables()?.read(|conn| journal::prover(conn, &self.verifier))
    }

    /// Recomputes the journal from its first byte; says now and then how far it is.
    pub fn verify_journal(&self, progress: impl FnMut(u64)) -> Result<Verified, StoreError> {
        self.tables()?.read(|conn| verify::journal(conn, &self.verifier, progress))
    }

    /// Checks everything that isn't journal: agents, storage, messages, blobs and the file's structure.
    pub fn verify_state(&self) -> Result<(), StoreError> {
        self.tables()?.read(verify::state)
    }
}

pub(crate) fn foreign_key(root: &Root) -> StoreError {
    StoreError::KeyBad { path: root.key(), why: "it is not the key that the journal names".to_owned() }
}

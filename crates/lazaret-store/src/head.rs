//! Where everything stands: one row, rewritten by each transaction.

use lazaret_gate::Digest;
use lazaret_gate::checkpoint::{Checkpoint, Verifier};
use lazaret_gate::entry::NO_ENTRY;
use lazaret_gate::merkle::Frontier;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::StoreError;
use crate::key::HostKey;
use crate::redo::{Mark, NO_FRAME};
use crate::seal::{digest_of, seal};

/// The journal's end, and how many rows other tables must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The tree's right edge; its size is the journal's length.
    pub(crate) frontier: Frontier,
    /// Hash of the last entry.
    pub(crate) hash: Digest,
    /// The signed checkpoint over all of it.
    pub(crate) note: String,
    /// Agents that ever were.
    pub(crate) agents: u64,
    /// Checkpoints that were asked for.
    pub(crate) checkpoints: u64,
    /// Messages ever sent: the last one's number.
    pub(crate) messages: u64,
    /// The last commit of the redo log that the tables hold, and its mark.
    pub(crate) applied: u64,
    pub(crate) mark: Mark,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            frontier: Frontier::default(),
            hash: NO_ENTRY,
            note: String::new(),
            agents: 0,
            checkpoints: 0,
            messages: 0,
            applied: 0,
            mark: NO_FRAME,
        }
    }
}

fn damaged() -> StoreError {
    StoreError::damaged("the row that says where the journal ends")
}

impl Head {
    /// How many entries the journal has.
    pub(crate) fn size(&self) -> u64 {
        self.frontier.size()
    }

    fn seal(&self, peaks: &[u8]) -> Digest {
        let numbers = [self.size(), self.agents, self.checkpoints, self.messages, self.applied].map(u64::to_le_bytes);
        let [size, agents, checkpoints, messages, applied] = &numbers;
        let (hash, note) = (&self.hash.0, self.note.as_bytes());
        seal("head", &[size, peaks, hash, note, agents, checkpoints, messages, applied, &self.mark])
    }

    /// Reads the row; `None` if nothing was ever written.
    pub(crate) fn read(conn: &Connection) -> Result<Option<Self>, StoreError> {
        let mut query = conn.prepare_cached(
            "SELECT size, peaks, hash, note, agents, checkpoints, messages, applied, mark, digest
             FROM head WHERE id = 0",
        )?;
        type Row = (i64, Vec<u8>, Vec<u8>, String, [i64; 4], Vec<u8>, Vec<u8>);
        let row: Option<Row> = query
            .query_row([], |row| {
                let counts = [row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?];
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, counts, row.get(8)?, row.get(9)?))
            })
            .optional()?;
        let Some((size, peaks, hash, note, counts, mark, digest)) = row else {
            return Ok(None);
        };
        let (whole, rest) = peaks.as_chunks::<32>();
        let frontier = Frontier::restore(size.cast_unsigned(), whole.to_vec()).filter(|_| rest.is_empty());
        let [agents, checkpoints, messages, applied] = counts.map(i64::cast_unsigned);
        let (hash, mark) = digest_of(&hash).zip(digest_of(&mark)).ok_or_else(damaged)?;
        let (frontier, mark) = (frontier.ok_or_else(damaged)?, mark.0);
        let head = Self { frontier, hash, note, agents, checkpoints, messages, applied, mark };
        if digest_of(&digest) != Some(head.seal(&peaks)) {
            return Err(damaged());
        }
        Ok(Some(head))
    }

    /// Reads the row of a store that has one.
    pub(crate) fn require(conn: &Connection) -> Result<Self, StoreError> {
        Self::read(conn)?.ok_or_else(damaged)
    }

    /// Signs what stands now.
    pub(crate) fn sign(&mut self, key: &HostKey) {
        let checkpoint = Checkpoint { size: self.size(), root: self.frontier.root() };
        self.note = key.verifier().sign(&checkpoint, key.signing());
    }

    pub(crate) fn write(&self, conn: &Connection) -> Result<(), StoreError> {
        let peaks = self.frontier.peaks().concat();
        conn.prepare_cached("INSERT OR REPLACE INTO head VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?
            .execute(params![
                self.size().cast_signed(),
                peaks,
                self.hash.0,
                self.note,
                self.agents.cast_signed(),
                self.checkpoints.cast_signed(),
                self.messages.cast_signed(),
                self.applied.cast_signed(),
                self.mark,
                self.seal(&peaks).0,
            ])?;
        Ok(())
    }

    /// Checks the note's signature, and that it speaks of this very journal.
    pub(crate) fn check(&self, verifier: &Verifier) -> Result<Checkpoint, StoreError> {
        let checkpoint = verifier
            .check(&self.note)
            .map_err(|why| StoreError::broken(self.size().saturating_sub(1), why.to_string()))?;
        if checkpoint.size != self.size() || checkpoint.root != self.frontier.root() {
            return Err(StoreError::broken(
                self.size().saturating_sub(1),
                "the signed checkpoint is of another journal",
            ));
        }
        Ok(checkpoint)
    }

    /// Checks that the journal really ends where this says: a cheap look at its last entry.
    pub(crate) fn check_end(&self, conn: &Connection) -> Result<(), StoreError> {
        let last: Option<i64> = conn.query_row("SELECT max(seq) FROM journal", [], |row| row.get(0))?;
        if last.map_or(0, |last| last.cast_unsigned() + 1) != self.size() {
            return Err(StoreError::broken(
                self.size(),
                format!(
                    "{} entries were signed, and the last one that is there is {}",
                    self.size(),
                    last.map_or_else(|| "none".to_owned(), |last| last.to_string())
                ),
            ));
        }
        let Some(last) = last else { return Ok(()) };
        let row = crate::journal::Row::read(conn, last.cast_unsigned())?;
        if row.is_some_and(|row| row.hash == self.hash) { Ok(()) } else { Err(damaged()) }
    }
}

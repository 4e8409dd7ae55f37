//! Lays commits into the tables: many in one transaction, none of them flushed. The redo log is what makes them durable;
//! here they become readable, and in the end safe without it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lazaret_gate::entry::Chain;
use lazaret_gate::{AgentId, Digest, merkle};
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, params};

use crate::error::StoreError;
use crate::head::Head;
use crate::journal::{self, Peek};
use crate::key::HostKey;
use crate::limits::CARRY_OVER;
use crate::op::{self, End, Op};
use crate::redo::Frame;
use crate::{agents, blobs, mailbox, storage};

/// The one connection that writes, and what stands in the tables.
pub(crate) struct Tables {
    conn: Connection,
    key: Arc<HostKey>,
    pub(crate) head: Head,
    /// Frames in SQLite's log, told by it at each commit: a page each.
    frames: Arc<AtomicU32>,
    page_bytes: u64,
    /// A flush of SQLite's log failed. What the system then drops from its memory it never tells of again, so the next
    /// flush that succeeds proves nothing: only the database itself, written anew from that log, does.
    shaken: bool,
}

fn unreadable() -> StoreError {
    StoreError::damaged("a commit in the log `lazaret.redo`")
}

fn agent(name: &str) -> Result<AgentId, StoreError> {
    op::agent(name).ok_or_else(unreadable)
}

/// What a transaction would write only to write it over, or take it out, before it ends: nobody would see it.
struct Passing<'a> {
    /// By agent and key: the last step that says what it holds.
    last: HashMap<(&'a str, &'a str), *const Op<'a>>,
    /// Messages that came and were answered.
    answered: HashSet<u64>,
}

impl<'a> Passing<'a> {
    fn of(steps: &[Vec<Op<'a>>]) -> Self {
        let (mut last, mut came, mut answered) = (HashMap::new(), HashSet::new(), HashSet::new());
        for step in steps.iter().flatten() {
            match *step {
                Op::Set { agent, key, .. } | Op::Delete { agent, key } => {
                    last.insert((agent, key), std::ptr::from_ref(step));
                }
                Op::Enqueue { id, .. } => drop(came.insert(id)),
                Op::Dequeue { id, .. } if came.contains(&id) => drop(answered.insert(id)),
                _ => {}
            }
        }
        Self { last, answered }
    }

    fn has(&self, step: &Op<'a>) -> bool {
        match *step {
            Op::Set { agent, key, .. } | Op::Delete { agent, key } => {
                self.last.get(&(agent, key)).is_some_and(|last| !std::ptr::eq(*last, step))
            }
            Op::Enqueue { id, .. } | Op::Dequeue { id, .. } => self.answered.contains(&id),
            _ => false,
        }
    }
}

impl Tables {
    pub(crate) fn new(mut conn: Connection, key: Arc<HostKey>, head: Head) -> Result<Self, StoreError> {
        let frames = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&frames);
        conn.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            told.store(pages.cast_unsigned(), Ordering::Relaxed);
            Ok(())
        }))?;
        // One that is there keeps the pages it was made with.
        let page_bytes: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        Ok(Self { conn, key, head, frames, page_bytes: page_bytes.cast_unsigned(), shaken: false })
    }

    /// The size of the newest checkpoint that was kept.
    pub(crate) fn last_checkpoint(&self) -> Result<Option<u64>, StoreError> {
        let last: Option<i64> = self.conn.query_row("SELECT max(size) FROM checkpoints", [], |row| row.get(0))?;
        Ok(last.map(i64::cast_unsigned))
    }

    /// Lays these commits into the tables, all or none. They follow the last that was.
    pub(crate) fn apply(&mut self, commits: &[Arc<Frame>]) -> Result<(), StoreError> {
        let before = self.head.clone();
        let done = self.transact(commits);
        if done.is_err() {
            self.head = before;
            if !self.conn.is_autocommit() {
                // It may have ended by itself; and if not, the next attempt says so.
                let _ = self.conn.execute_batch("ROLLBACK");
            }
            if let Err(StoreError::DiskFull | StoreError::Io { .. }) = done {
                // Where the disk is full, SQLite's log may begin anew in the room that it has.
                let _ = self.carry_over_all();
            }
        }
        done
    }

    fn transact(&mut self, commits: &[Arc<Frame>]) -> Result<(), StoreError> {
        let steps: Vec<_> =
            commits.iter().map(|commit| op::steps(commit.steps()).ok_or_else(unreadable)).collect::<Result<_, _>>()?;
        self.run("BEGIN IMMEDIATE")?;
        // Of many versions of an agent's row only the last is written. First of all, because storage refers to it.
        let mut rows = BTreeMap::new();
        for step in steps.iter().flatten() {
            if let Op::Row { agent, row } = step {
                rows.insert(*agent, *row);
            }
        }
        rows.iter().try_for_each(|(name, row)| agents::put(&self.conn, name, row))?;
        self.blobs(&steps)?;
        let passing = Passing::of(&steps);
        for (commit, steps) in commits.iter().zip(&steps) {
            if commit.number != self.head.applied + 1 {
                return Err(unreadable());
            }
            let mut hashes = commit.hashes();
            for step in steps.iter().filter(|step| !passing.has(step)) {
                match *step {
                    Op::Entry { bytes } => self.entry(bytes, hashes.next().flatten())?,
                    _ => self.step(step)?,
                }
            }
            (self.head.applied, self.head.mark) = (commit.number, commit.mark);
        }
        self.head.sign(&self.key);
        self.head.write(&self.conn)?;
        self.run("COMMIT")
    }

    /// Lays the blobs of all commits into the table, in the order of their names: those are random, and one after another they
    /// would have the index looked through from all over for each.
    fn blobs(&self, steps: &[Vec<Op<'_>>]) -> Result<(), StoreError> {
        let mut all: Vec<_> = steps.iter().flatten().filter_map(Op::blob).collect();
        // What has one name has one content, so it is all the same which of several is kept.
        // Mostly the first bytes decide, and are compared as one number.
        let order = |digest: &Digest| (digest.0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first)), digest.0);
        all.sort_unstable_by_key(|(digest, ..)| order(digest));
        all.dedup_by_key(|(digest, ..)| digest.0);
        blobs::write(&self.conn, all)
    }

    fn step(&mut self, step: &Op<'_>) -> Result<(), StoreError> {
        let conn = &self.conn;
        match *step {
            Op::Begin { agent: name } => storage::begin(conn, &agent(name)?),
            Op::Clear { agent: name } => {
                let agent = agent(name)?;
                storage::clear(conn, &agent)?;
                mailbox::clear(conn, &agent)
            }
            Op::Set { agent: name, key, version, value } => storage::set(conn, &agent(name)?, key, value, version),
            Op::Delete { agent: name, key } => storage::delete(conn, &agent(name)?, key),
            Op::Enqueue { agent: name, id, message } => mailbox::put(conn, &agent(name)?, id, message),
            Op::Dequeue { agent: name, id } => mailbox::take(conn, &agent(name)?, id),
            // Written elsewhere.
            Op::Row { .. } | Op::Blob { .. } | Op::Entry { .. } => Ok(()),
            Op::End(end) => self.end(&end),
        }
    }

    /// Appends an entry, which must follow the last one. Its hash is known if this process has put it there: then it does, and that
    /// the chain ends where its commit says is looked at with [`Self::end`].
    fn entry(&mut self, bytes: &[u8], known: Option<Digest>) -> Result<(), StoreError> {
        let followed = || {
            let mut chain = Chain::resume(self.head.size(), self.head.hash);
            chain.follow(bytes).map(|()| chain.head())
        };
        let hash = known.map_or_else(followed, Ok)?;
        debug_assert_eq!(Some(hash), followed().ok(), "what is known of an entry");
        let leaf = merkle::leaf(bytes);
        let peek = Peek::at(bytes).ok_or_else(unreadable)?;
        journal::append(&self.conn, self.head.size(), &peek, &hash, &leaf, bytes)?;
        self.head.frontier.push(leaf);
        self.head.hash = hash;
        Ok(())
    }

    fn end(&mut self, end: &End) -> Result<(), StoreError> {
        if end.size != self.head.size() || end.hash != self.head.hash {
            return Err(StoreError::broken(self.head.size(), "the log `lazaret.redo` says that it ends elsewhere"));
        }
        (self.head.agents, self.head.messages) = (end.agents, end.messages);
        self.head.checkpoints = end.checkpoints;
        if end.keeps_note {
            self.head.sign(&self.key);
            self.conn
                .prepare_cached("INSERT INTO checkpoints VALUES (?1, ?2)")?
                .execute(params![end.size.cast_signed(), self.head.note])?;
        }
        Ok(())
    }

    fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Whether SQLite's log is long enough to be carried over into the database.
    pub(crate) fn is_long(&self) -> bool {
        u64::from(self.frames.load(Ordering::Relaxed)) * self.page_bytes > CARRY_OVER
    }

    /// Carries over what no reader still needs from SQLite's log. If that fails, the log still has it.
    pub(crate) fn carry_over(&mut self) {
        let done = self.conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE).map_err(StoreError::from);
        self.shaken |= done.is_err_and(|why| !matches!(why, StoreError::Busy { .. }));
    }

    /// Makes everything that is in the tables safe without the redo log.
    pub(crate) fn secure(&mut self) -> Result<(), StoreError> {
        if self.shaken {
            return self.carry_over_all();
        }
        // A commit that is flushed takes along what lies before it in SQLite's log.
        self.conn.pragma_update(None, "synchronous", "FULL")?;
        let done = self.run("BEGIN IMMEDIATE").and_then(|()| {
            self.head.write(&self.conn)?;
            self.run("COMMIT")
        });
        if done.is_err() {
            self.shaken = true;
            if !self.conn.is_autocommit() {
                let _ = self.conn.execute_batch("ROLLBACK");
            }
        }
        self.conn.pragma_update(None, "synchronous", "NORMAL")?;
        done
    }

    /// Carries all of SQLite's log over into the database and flushes that; waits a while for readers.
    fn carry_over_all(&mut self) -> Result<(), StoreError> {
        let done = self.conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
        let done = done.map(drop).map_err(StoreError::from);
        match &done {
            Ok(()) => self.shaken = false,
            Err(StoreError::Busy { .. }) => {}
            Err(_) => self.shaken = true,
        }
        done
    }

    /// As [`Self::secure`], and leaves as little as possible beside the database.
    pub(crate) fn settle(&mut self) -> Result<(), StoreError> {
        match self.carry_over_all() {
            // A reader that stays on doesn't keep it from being safe.
            Err(StoreError::Busy { .. }) if !self.shaken => self.secure(),
            done => done,
        }
    }
}

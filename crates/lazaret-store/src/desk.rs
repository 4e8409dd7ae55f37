//! Where batches become transactions. One thread at a time sits here.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use crate::agents::Loaded;
use crate::batch::{Placed, Prepared};
use crate::db;
use crate::error::StoreError;
use crate::head::Head;
use crate::key::HostKey;
use crate::limits::{LOG_STEP, LOG_STEP_AFTER};

pub(crate) type Answer = Result<Vec<Placed>, StoreError>;

/// The writing connection and what it has written.
pub(crate) struct Desk {
    conn: Connection,
    key: Arc<HostKey>,
    now: fn() -> u64,
    head: Head,
    /// The last write failed, and what of it reached the disk isn't known.
    uncertain: bool,
    /// Frames in the write-ahead log, told by SQLite at each commit.
    frames: Arc<AtomicU32>,
    log: LogFile,
}

/// The write-ahead log's file, grown ahead of need.
struct LogFile {
    path: PathBuf,
    len: u64,
    commits: u64,
}

impl Desk {
    pub(crate) fn new(
        mut conn: Connection,
        key: Arc<HostKey>,
        now: fn() -> u64,
        head: Head,
        log: PathBuf,
    ) -> Result<Self, StoreError> {
        let frames = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&frames);
        conn.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            told.store(pages.cast_unsigned(), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { conn, key, now, head, uncertain: false, frames, log: LogFile { path: log, len: 0, commits: 0 } })
    }

    /// Frames in the log after the last commit.
    pub(crate) fn frames(&self) -> u32 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Carries the log over into the database.
    pub(crate) fn carry_over(&self) {
        db::carry_over(&self.conn);
    }

    /// Looks something up through the writing connection, whose pages are at hand. `None` while it isn't known what is on
    /// disk.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&Connection) -> T) -> Option<T> {
        (!self.uncertain).then(|| read(&self.conn))
    }

    /// Writes a group in one transaction and answers each batch.
    pub(crate) fn commit(&mut self, group: Vec<Prepared>) -> Vec<Answer> {
        let count = group.len();
        if self.uncertain
            && let Err(why) = self.settle()
        {
            return vec![Err(StoreError::Halted { why: why.to_string() }); count];
        }
        let before = self.head.clone();
        match self.transact(group) {
            Ok(answers) => answers,
            Err(why) => {
                self.head = before;
                self.uncertain = true;
                // If this fails as well, the next group tries again.
                let _ = self.settle();
                vec![Err(why); count]
            }
        }
    }

    /// `Err` means that nothing of the group counts.
    fn transact(&mut self, group: Vec<Prepared>) -> Result<Vec<Answer>, StoreError> {
        let (alone, time) = (group.len() == 1, (self.now)());
        let mut answers = Vec::with_capacity(group.len());
        let (mut wants_checkpoint, mut loaded) = (false, Loaded::default());
        self.run("BEGIN IMMEDIATE")?;
        for batch in group {
            let (before, wants) = (self.head.clone(), batch.wants_checkpoint);
            if !alone {
                self.run("SAVEPOINT batch")?;
            }
            let answer = batch.write(&self.conn, &mut self.head, &mut loaded, time);
            if let Err(why) = &answer {
                self.head = before;
                // SQLite ends the whole transaction by itself when the disk fails it.
                if why.is_of_the_disk() || self.conn.is_autocommit() {
                    return Err(why.clone());
                }
                if !alone {
                    self.run("ROLLBACK TO batch")?;
                }
            } else {
                wants_checkpoint |= wants;
            }
            if !alone {
                self.run("RELEASE batch")?;
            }
            answers.push(answer);
        }
        if answers.iter().all(Result::is_err) {
            self.run("ROLLBACK")?;
            return Ok(answers);
        }
        loaded.write(&self.conn)?;
        self.finish(wants_checkpoint)?;
        self.run("COMMIT")?;
        self.log.commits += 1;
        self.log.grow(self.frames());
        Ok(answers)
    }

    /// Signs what stands now and stores it with the rest.
    fn finish(&mut self, wants_checkpoint: bool) -> Result<(), StoreError> {
        self.head.sign(&self.key);
        if wants_checkpoint {
            // The same size has the same note: asking twice keeps it once.
            let mut insert = self.conn.prepare_cached(
                "INSERT INTO checkpoints SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM checkpoints WHERE size = ?1)",
            )?;
            let kept = insert.execute(rusqlite::params![self.head.size().cast_signed(), self.head.note])?;
            self.head.checkpoints += kept as u64;
        }
        self.head.write(&self.conn)
    }

    fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// After a failed write: makes sure that it is gone. Its frames may lie whole in the log's file, only not flushed,
    /// and would come back to life after a crash; a new commit in their place ends that.
    fn settle(&mut self) -> Result<(), StoreError> {
        if !self.conn.is_autocommit() {
            self.conn.execute_batch("ROLLBACK")?;
        }
        self.run("BEGIN IMMEDIATE")?;
        let on_disk = Head::require(&self.conn).and_then(|head| {
            head.check(self.key.verifier())?;
            head.check_end(&self.conn)?;
            head.write(&self.conn)?;
            Ok(head)
        });
        let settled = on_disk.and_then(|head| self.run("COMMIT").map(|()| head));
        match settled {
            Ok(head) => {
                self.head = head;
                self.uncertain = false;
                // What is left of the failed write further on stops to matter once the log starts anew.
                let _ = self.conn.wal_checkpoint_v2(None::<&str>, rusqlite::wal::CheckpointMode::TRUNCATE);
                self.log.len = 0;
                Ok(())
            }
            Err(why) => {
                if !self.conn.is_autocommit() {
                    let _ = self.conn.execute_batch("ROLLBACK");
                }
                Err(why)
            }
        }
    }
}

impl LogFile {
    /// Writes zeros past the log's end, where SQLite will write next; it takes zeros for the end. Failing is no harm:
    /// the file then grows as it would have. Only the one who sits at the desk may do this.
    #[expect(clippy::disallowed_types, reason = "the log lies in the data root")]
    fn grow(&mut self, frames: u32) {
        let used = 32 + u64::from(frames) * (4096 + 24);
        if self.commits < LOG_STEP_AFTER || used + LOG_STEP / 4 < self.len {
            return;
        }
        let Ok(file) = std::fs::OpenOptions::new().write(true).open(&self.path) else {
            return;
        };
        let Ok(len) = file.metadata().map(|found| found.len()) else {
            return;
        };
        self.len = len;
        if len >= used && len < used + LOG_STEP / 2 && file.write_all_at(&vec![0; LOG_STEP as usize], len).is_ok() {
            self.len = len + LOG_STEP;
        }
    }
}

//! Where batches become commits. One thread at a time sits here.

use std::sync::Arc;
use std::time::Instant;

use crate::agents::Source;
use crate::batch::{Done, Draft, Prepared, Tip};
use crate::db::Pool;
use crate::error::StoreError;
use crate::limits::{LOG_RING, LOG_SAFE, SAFE_EVERY};
use crate::pending::Pending;
use crate::recent::Recent;
use crate::redo::Redo;
use crate::told::{Committed, Told};

pub(crate) type Answer = Result<Done, StoreError>;

/// The redo log, and what has to be known to go on with it.
pub(crate) struct Desk {
    pub(crate) redo: Redo,
    pub(crate) tip: Tip,
    pub(crate) now: fn() -> u64,
    pub(crate) recent: Arc<Recent>,
    pub(crate) pending: Arc<Pending>,
    /// For the rows of agents that no recent commit touched.
    pub(crate) pool: Pool,
    pub(crate) told: Told,
    /// When it was last asked that what is in the tables be made safe.
    pub(crate) asked_safe: Option<Instant>,
}

impl Desk {
    /// Writes a group as one commit and answers each batch. `meanwhile` is called while the disk works, if it comes to that.
    pub(crate) fn commit(&mut self, group: Vec<Prepared>, meanwhile: &mut dyn FnMut()) -> Vec<Answer> {
        let count = group.len();
        self.write(group, meanwhile).unwrap_or_else(|why| vec![Err(why); count])
    }

    /// `Err` means that nothing of the group counts.
    fn write(&mut self, group: Vec<Prepared>, meanwhile: &mut dyn FnMut()) -> Result<Vec<Answer>, StoreError> {
        let (begun, batches) = (Instant::now(), group.len());
        self.pending.room()?;
        let room = group.iter().map(Prepared::size).sum();
        let source = Source { pool: &self.pool, recent: &self.recent };
        let mut draft = Draft::new(source, self.tip, (self.now)(), room);
        let answers: Vec<Answer> = group.into_iter().map(|batch| draft.add(batch)).collect();
        if answers.iter().all(Result::is_err) {
            return Ok(answers);
        }
        let bytes = draft.finish()?;
        let Draft { tip, rows, written, mail, .. } = draft;
        let place = self.place(Redo::padded(bytes.len()))?;
        let frame = self.redo.append(place, bytes, meanwhile)?;
        let bytes = frame.size();
        // From here on it is true.
        self.tip = tip;
        let (applied, _) = self.pending.progress();
        self.recent.take(frame.number, applied, rows.into_values(), written);
        self.recent.take_mail(frame.number, applied, mail);
        self.pending.push(frame);
        self.ask_safe();
        self.told.say(Committed { journal: self.tip.size, batches, bytes, took: begun.elapsed() });
        Ok(answers)
    }

    /// Has the log's commits made safe in time, so that nobody has to wait for room in it.
    fn ask_safe(&mut self) {
        let live = self.redo.live_bytes();
        let lately = self.asked_safe.is_some_and(|asked| asked.elapsed() < SAFE_EVERY);
        if live > LOG_RING / 2 || live > LOG_SAFE && !lately {
            self.asked_safe = Some(Instant::now());
            self.pending.ask_safe();
        }
    }

    /// Finds room in the log, waiting for the tables if there is none.
    fn place(&mut self, len: usize) -> Result<u64, StoreError> {
        self.redo.release(self.pending.progress().1);
        match self.redo.place(len) {
            Ok(place) => Ok(place),
            Err(number) => {
                self.pending.safe(number)?;
                self.redo.release(number);
                self.redo.place(len).map_err(|_| StoreError::bad(format!("no room in the log for {len} bytes")))
            }
        }
    }
}

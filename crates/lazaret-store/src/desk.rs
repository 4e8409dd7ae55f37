//! Where batches become commits. One thread at a time sits here, until its commit is written; others may then write the next
//! while the disk flushes that one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use lazaret_gate::AgentId;

use crate::agents::{AgentRow, Source};
use crate::air::{Air, Answer, Flight};
use crate::batch::{Draft, Prepared, Tip};
use crate::db::Pool;
use crate::error::StoreError;
use crate::limits::{LOG_RING, LOG_SAFE, SAFE_EVERY};
use crate::pending::Pending;
use crate::recent::Recent;
use crate::redo::{Flush, Redo, Taken};

/// The redo log, and what has to be known to go on with it.
pub(crate) struct Desk {
    pub(crate) redo: Redo,
    pub(crate) tip: Tip,
    pub(crate) now: fn() -> u64,
    pub(crate) recent: Arc<Recent>,
    pub(crate) pending: Arc<Pending>,
    pub(crate) air: Arc<Air>,
    /// Commits that were not acknowledged when one was last written here, oldest first.
    pub(crate) ahead: VecDeque<Ahead>,
    /// For the rows of agents that no recent commit touched.
    pub(crate) pool: Pool,
    /// When it was last asked that what is in the tables be made safe.
    pub(crate) asked_safe: Option<Instant>,
}

/// What a commit in the air leaves, for those that are made from it; and how things stood before, if it must be taken back.
pub(crate) struct Ahead {
    tip: Tip,
    taken: Taken,
    pub(crate) rows: BTreeMap<AgentId, Arc<AgentRow>>,
}

/// What came of a group.
pub(crate) enum Begun {
    /// It is written as this commit, which counts when it is flushed and [`Air::land`] was told.
    Flight(u64, Flush),
    /// Nothing of it is written.
    Nothing(Vec<Answer>),
}

impl Desk {
    /// Writes a group as one commit.
    pub(crate) fn begin(&mut self, group: Vec<Prepared>) -> Begun {
        let count = group.len();
        self.write(group).unwrap_or_else(|why| {
            self.air.stay(&why);
            Begun::Nothing(vec![Err(why); count])
        })
    }

    /// `Err` means that nothing of the group counts.
    fn write(&mut self, group: Vec<Prepared>) -> Result<Begun, StoreError> {
        let begun = Instant::now();
        self.pending.room()?;
        self.mend()?;
        let landed = self.air.last_landed();
        while self.ahead.pop_front_if(|ahead| ahead.taken.number <= landed).is_some() {}
        let room = group.iter().map(Prepared::size).sum();
        let source = Source { pool: &self.pool, recent: &self.recent, ahead: &self.ahead };
        let mut draft = Draft::new(source, self.tip, (self.now)(), room);
        let answers: Vec<Answer> = group.into_iter().map(|batch| draft.add(batch)).collect();
        if answers.iter().all(Result::is_err) {
            return Ok(Begun::Nothing(answers));
        }
        let bytes = draft.finish()?;
        let Draft { tip, rows, written, mail, hashes, .. } = draft;
        let place = self.place(Redo::padded(bytes.len()))?;
        let (frame, taken, flush) = self.redo.write(place, (bytes, hashes), landed)?;
        let rows: BTreeMap<_, _> = rows.into_iter().map(|(agent, row)| (agent, Arc::new(row))).collect();
        let number = frame.number;
        let shared = rows.values().cloned().collect();
        self.air.depart(Flight { frame, rows: shared, written, mail, journal: tip.size, begun, answers });
        self.ahead.push_back(Ahead { tip: self.tip, taken, rows });
        self.tip = tip;
        self.ask_safe();
        Ok(Begun::Flight(number, flush))
    }

    /// If a flush failed, goes back to the last commit that was acknowledged, and makes void what was written since.
    pub(crate) fn mend(&mut self) -> Result<(), StoreError> {
        if let Some(landed) = self.air.failed_after() {
            while let Some(Ahead { tip, taken, .. }) = self.ahead.pop_back_if(|ahead| ahead.taken.number > landed) {
                self.tip = tip;
                self.redo.take_back(&taken);
            }
        }
        self.redo.settle()
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
                // What isn't acknowledged is not on its way to the tables.
                self.air.wait_for(number)?;
                self.pending.safe(number)?;
                self.redo.release(number);
                self.redo.place(len).map_err(|_| StoreError::bad(format!("no room in the log for {len} bytes")))
            }
        }
    }
}

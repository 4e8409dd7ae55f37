//! Commits on their way to the disk. While one is flushed the next is written, and its flush begins too; they are
//! acknowledged in the order in which they were written, whichever flush ends first.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::agents::AgentRow;
use crate::batch::Done;
use crate::error::StoreError;
use crate::pending::Pending;
use crate::recent::{Mail, Recent, Written};
use crate::redo::Frame;
use crate::told::{Committed, Told};

pub(crate) type Answer = Result<Done, StoreError>;

/// A commit that is written and not yet acknowledged: what becomes true with it, and what is then said.
pub(crate) struct Flight {
    pub(crate) frame: Arc<Frame>,
    pub(crate) rows: Vec<Arc<AgentRow>>,
    pub(crate) written: Vec<Written>,
    pub(crate) mail: Vec<Mail>,
    /// Entries of the journal, this commit's included.
    pub(crate) journal: u64,
    pub(crate) begun: Instant,
    pub(crate) answers: Vec<Answer>,
}

/// A commit that has landed, and what is said of it.
pub(crate) struct Landed {
    pub(crate) number: u64,
    /// Whether it is on disk. If not, nothing of it counts.
    pub(crate) holds: bool,
    pub(crate) answers: Vec<Answer>,
}

/// All flights. To land needs nobody at the desk.
pub(crate) struct Air {
    state: Mutex<State>,
    landed: Condvar,
    recent: Arc<Recent>,
    pending: Arc<Pending>,
    told: Told,
}

struct State {
    /// Oldest first, with how their flushes ended.
    flights: VecDeque<(Flight, Option<Result<(), StoreError>>)>,
    /// The last commit that was acknowledged, and the entries of the journal then.
    landed: u64,
    journal: u64,
    /// A flush failed. What was written after that commit was made from it, so nothing of that counts either, and nothing
    /// more is written before whoever sits at the desk has taken it back.
    failed: Option<StoreError>,
    /// Why the last commit that was tried is not on disk.
    unwritten: Option<StoreError>,
}

impl Air {
    /// Nothing is in the air; everything up to this commit is on disk, a journal of so many entries.
    pub(crate) fn new((number, journal): (u64, u64), recent: Arc<Recent>, pending: Arc<Pending>, told: Told) -> Self {
        let state = State { flights: VecDeque::new(), landed: number, journal, failed: None, unwritten: None };
        Self { state: Mutex::new(state), landed: Condvar::new(), recent, pending, told }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit was written, and its flush begins.
    pub(crate) fn depart(&self, flight: Flight) {
        self.lock().flights.push_back((flight, None));
    }

    /// A flush has ended. Returns the commits that nobody need wait for any more: none as long as an earlier one is in the air.
    pub(crate) fn land(&self, number: u64, flushed: Result<(), StoreError>) -> Vec<Landed> {
        let mut state = self.lock();
        if let Some((_, end)) = state.flights.iter_mut().find(|(flight, _)| flight.frame.number == number) {
            *end = Some(flushed);
        }
        let mut landed = Vec::new();
        while let Some((flight, Some(flushed))) = state.flights.pop_front_if(|(_, end)| end.is_some()) {
            let number = flight.frame.number;
            let failed = state.failed.clone().or_else(|| flushed.err());
            let answers = match &failed {
                None => {
                    (state.landed, state.journal, state.unwritten) = (number, flight.journal, None);
                    self.acknowledge(flight)
                }
                Some(why) => {
                    state.unwritten = Some(why.clone());
                    vec![Err(why.clone()); flight.answers.len()]
                }
            };
            landed.push(Landed { number, holds: failed.is_none(), answers });
            state.failed = failed;
        }
        self.landed.notify_all();
        landed
    }

    /// From here on it is true.
    fn acknowledge(&self, flight: Flight) -> Vec<Answer> {
        let Flight { frame, rows, written, mail, journal, begun, answers } = flight;
        let (applied, _) = self.pending.progress();
        let (number, bytes) = (frame.number, frame.size());
        self.recent.take(number, applied, rows, written);
        self.recent.take_mail(number, applied, mail);
        self.pending.push(frame);
        self.told.say(Committed { journal, batches: answers.len(), bytes, took: begun.elapsed() });
        answers
    }

    /// A commit could not even be written.
    pub(crate) fn stay(&self, why: &StoreError) {
        self.lock().unwritten = Some(why.clone());
    }

    /// Why the last commit that was tried is not on disk, or not in the tables; none if it is.
    pub(crate) fn unwritten(&self) -> Option<StoreError> {
        let unwritten = self.lock().unwritten.clone();
        unwritten.or_else(|| self.pending.failed())
    }

    /// Entries of the journal that are acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.lock().journal
    }

    /// The last commit that was acknowledged.
    pub(crate) fn last_landed(&self) -> u64 {
        self.lock().landed
    }

    /// Waits until a commit is acknowledged. `Err` if it can't be any more.
    pub(crate) fn wait_for(&self, number: u64) -> Result<(), StoreError> {
        let flying = |state: &mut State| state.flights.front().is_some_and(|(flight, _)| flight.frame.number <= number);
        let state = self.landed.wait_while(self.lock(), flying).unwrap_or_else(PoisonError::into_inner);
        state.failed.clone().filter(|_| state.landed < number).map_or(Ok(()), Err)
    }

    /// If a flush failed since this was last asked: the last commit that was acknowledged. All that was in the air has come
    /// down before this returns.
    pub(crate) fn failed_after(&self) -> Option<u64> {
        let mut state = self.lock();
        state.failed.as_ref()?;
        state =
            self.landed.wait_while(state, |state| !state.flights.is_empty()).unwrap_or_else(PoisonError::into_inner);
        state.failed.take().map(|_| state.landed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An air with commits 1 to 3 in it, of one batch each.
    fn air() -> Air {
        let air = Air::new((0, 0), Arc::default(), Arc::new(Pending::new(0)), Told::default());
        for number in 1..=3 {
            let (frame, answers) = (Arc::new(Frame::blank(number)), vec![Ok(Done::default())]);
            let (rows, written, mail) = (Vec::new(), Vec::new(), Vec::new());
            air.depart(Flight { frame, rows, written, mail, journal: number, begun: Instant::now(), answers });
        }
        air
    }

    fn land(air: &Air, number: u64, flushed: Result<(), StoreError>) -> Vec<(u64, bool)> {
        let landed = air.land(number, flushed);
        assert!(landed.iter().all(|landed| landed.answers.iter().all(|answer| answer.is_ok() == landed.holds)));
        landed.into_iter().map(|landed| (landed.number, landed.holds)).collect()
    }

    #[test]
    fn none_is_acknowledged_before_the_one_that_it_was_made_from() {
        let air = air();
        assert_eq!(land(&air, 2, Ok(())), []);
        assert_eq!(air.last_landed(), 0);
        assert_eq!(land(&air, 1, Ok(())), [(1, true), (2, true)]);
        assert_eq!((air.last_landed(), air.failed_after()), (2, None));
        assert_eq!(air.wait_for(2), Ok(()));
        assert_eq!(land(&air, 3, Ok(())), [(3, true)]);
    }

    #[test]
    fn what_was_made_from_one_that_failed_fails_with_it() {
        let air = air();
        assert_eq!(land(&air, 1, Ok(())), [(1, true)]);
        assert_eq!(land(&air, 3, Ok(())), []);
        assert_eq!(land(&air, 2, Err(StoreError::DiskFull)), [(2, false), (3, false)]);
        assert_eq!(air.wait_for(3), Err(StoreError::DiskFull));
        assert_eq!((air.failed_after(), air.failed_after()), (Some(1), None));
    }

    #[test]
    fn it_is_known_whether_commits_get_to_the_disk() {
        let air = air();
        assert_eq!(air.unwritten(), None);
        air.stay(&StoreError::DiskFull);
        assert_eq!(air.unwritten(), Some(StoreError::DiskFull), "what is not even written");
        land(&air, 1, Ok(()));
        assert_eq!(air.unwritten(), None);
        land(&air, 2, Err(StoreError::Closed));
        assert_eq!(air.unwritten(), Some(StoreError::Closed), "what is not flushed");
    }
}

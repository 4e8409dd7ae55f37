//! Group commit without a thread of its own: whoever waits first writes for everybody who has queued, and those who come
//! meanwhile make the next group. A lone caller so pays for no hand-over between threads.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::batch::{Done, Placed, Prepared};
use crate::desk::{Answer, Desk};
use crate::error::StoreError;
use crate::limits::{MAX_COMMIT, MAX_GROUP};
use crate::pending::Applier;

/// The way to the desk.
pub(crate) struct Writer {
    line: Arc<Line>,
    applier: Applier,
}

/// Those who wait, and the desk when nobody sits at it.
struct Line {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    queue: VecDeque<(Prepared, Arc<Slot>)>,
    desk: Place,
}

enum Place {
    Free(Box<Desk>),
    Taken,
    Gone,
}

type Slot = Mutex<Option<Answer>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A batch that is in line. It is written when somebody waits, for this one or another, or when the store is closed.
#[must_use = "a batch is durable only after `wait`"]
pub struct Ticket {
    line: Arc<Line>,
    slot: Arc<Slot>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl Ticket {
    /// Returns once the batch is on disk, or not going to be.
    pub fn wait(self) -> Result<Vec<Placed>, StoreError> {
        self.finish().map(|done| done.entries)
    }

    /// As [`Self::wait`], and tells the numbers of messages too.
    pub fn finish(self) -> Answer {
        self.line.serve(Some(&self.slot), &mut || {})
    }

    /// As [`Self::wait`]. `meanwhile` is something that would have to be done afterwards anyway: it is called once or not at
    /// all, while the disk works.
    pub fn wait_while(self, meanwhile: impl FnOnce()) -> Result<Vec<Placed>, StoreError> {
        let mut meanwhile = Some(meanwhile);
        let mut once = || {
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile();
            }
        };
        self.line.serve(Some(&self.slot), &mut once).map(|done| done.entries)
    }
}

/// Sits at the desk; whatever happens there, the next one isn't left waiting.
struct Sitting<'a> {
    line: &'a Line,
    desk: Option<Box<Desk>>,
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        lock(&self.line.state).desk = self.desk.take().map_or(Place::Gone, Place::Free);
        self.line.moved.notify_all();
    }
}

impl Line {
    /// Waits for an answer, writing groups oneself as long as the desk is free. Without a slot: until nobody waits.
    fn serve(&self, slot: Option<&Slot>, meanwhile: &mut dyn FnMut()) -> Answer {
        let mut state = lock(&self.state);
        loop {
            if let Some(answer) = slot.and_then(|slot| lock(slot).take()) {
                return answer;
            }
            if slot.is_none() && state.queue.is_empty() && !matches!(state.desk, Place::Taken) {
                return Ok(Done::default());
            }
            match std::mem::replace(&mut state.desk, Place::Taken) {
                Place::Free(desk) => {
                    // One that is too large for a commit fails alone.
                    let mut room = MAX_COMMIT / 2;
                    let fits = |batch: &Prepared| {
                        room = room.saturating_sub(batch.size());
                        room > 0
                    };
                    let many = state.queue.iter().take(MAX_GROUP).map(|(batch, _)| batch).map(fits).take_while(|f| *f);
                    let many = many.count().max(1).min(state.queue.len());
                    let (group, slots): (Vec<_>, Vec<_>) = state.queue.drain(..many).unzip();
                    drop(state);
                    self.sit(desk, group, &slots, meanwhile);
                    state = lock(&self.state);
                }
                Place::Taken => {
                    drop(state);
                    meanwhile();
                    state = lock(&self.state);
                    // What was waited for may have come meanwhile: then there is nothing more to be told of.
                    let over = slot.is_some_and(|slot| lock(slot).is_some()) || !matches!(state.desk, Place::Taken);
                    if !over {
                        state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                }
                Place::Gone => {
                    state.desk = Place::Gone;
                    return Err(StoreError::Closed);
                }
            }
        }
    }

    fn sit(&self, desk: Box<Desk>, group: Vec<Prepared>, slots: &[Arc<Slot>], meanwhile: &mut dyn FnMut()) {
        // While the desk works it is out of the sitting: if it doesn't come back, it is gone.
        let mut sitting = Sitting { line: self, desk: None };
        let mut desk = desk;
        let answers = desk.commit(group, meanwhile);
        for (slot, answer) in slots.iter().zip(answers) {
            *lock(slot) = Some(answer);
        }
        self.moved.notify_all();
        sitting.desk = Some(desk);
    }
}

impl Writer {
    pub(crate) fn new(desk: Desk, applier: Applier) -> Self {
        let state = State { queue: VecDeque::new(), desk: Place::Free(Box::new(desk)) };
        Self { line: Arc::new(Line { state: Mutex::new(state), moved: Condvar::new() }), applier }
    }

    pub(crate) fn queue(&self, batch: Prepared) -> Ticket {
        let slot = Arc::new(Slot::default());
        let mut state = lock(&self.line.state);
        state.queue.push_back((batch, Arc::clone(&slot)));
        drop(state);
        Ticket { line: Arc::clone(&self.line), slot }
    }

    /// Writes what is in line, takes the desk away and lays everything into the tables.
    pub(crate) fn close(&mut self) {
        let _ = self.line.serve(None, &mut || {});
        let desk = std::mem::replace(&mut lock(&self.line.state).desk, Place::Gone);
        self.line.moved.notify_all();
        let tables = self.applier.close();
        // What isn't in the tables, or not safe there, stays in the log, and the next one who opens it finds it.
        if let (Place::Free(desk), Some(mut tables)) = (desk, tables) {
            desk.pool.close();
            if desk.redo.is_used() && tables.settle().is_ok() {
                desk.redo.empty();
            }
        }
    }
}

//! Group commit without a thread of its own: whoever waits first writes for everybody who has queued, and those who come
//! meanwhile make the next group. A lone caller so pays for no hand-over between threads.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// For those who wait for no batch of their own.
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

/// Where an answer is left. Each has its own way to be told: to wake everybody for what concerns one costs more than a turn.
#[derive(Default)]
struct Slot {
    answer: Mutex<Option<Answer>>,
    /// Told, with the line's state, of the answer, and of a desk that is free.
    told: Condvar,
    /// Somebody waits for it. Changes only with the line's state in hand.
    awaited: AtomicBool,
}

impl Slot {
    fn tell(&self) {
        if self.awaited.load(Ordering::Relaxed) {
            self.told.notify_one();
        }
    }
}

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

/// Sits at the desk; whatever happens there, nobody is left waiting.
struct Sitting<'a> {
    line: &'a Line,
    desk: Option<Box<Desk>>,
    /// Of those whose batches are written.
    slots: &'a [Arc<Slot>],
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.line.state);
        state.desk = self.desk.take().map_or(Place::Gone, Place::Free);
        self.slots.iter().for_each(|slot| slot.tell());
        let mut waiting = state.queue.iter().filter(|(_, slot)| slot.awaited.load(Ordering::Relaxed));
        match state.desk {
            // One of them writes for all.
            Place::Free(_) => waiting.next().into_iter().for_each(|(_, slot)| slot.tell()),
            _ => waiting.for_each(|(_, slot)| slot.tell()),
        }
        self.line.moved.notify_all();
    }
}

impl Line {
    /// Waits for an answer, writing groups oneself as long as the desk is free. Without a slot: until nobody waits.
    fn serve(&self, slot: Option<&Slot>, meanwhile: &mut dyn FnMut()) -> Answer {
        let mut state = lock(&self.state);
        loop {
            if let Some(answer) = slot.and_then(|slot| lock(&slot.answer).take()) {
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
                    let answered = slot.is_some_and(|slot| lock(&slot.answer).is_some());
                    if !answered && matches!(state.desk, Place::Taken) {
                        state = self.wait(state, slot);
                    }
                }
                Place::Gone => {
                    state.desk = Place::Gone;
                    return Err(StoreError::Closed);
                }
            }
        }
    }

    /// Waits to be told something.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, slot: Option<&Slot>) -> MutexGuard<'a, State> {
        let Some(slot) = slot else { return self.moved.wait(state).unwrap_or_else(PoisonError::into_inner) };
        slot.awaited.store(true, Ordering::Relaxed);
        let state = slot.told.wait(state).unwrap_or_else(PoisonError::into_inner);
        slot.awaited.store(false, Ordering::Relaxed);
        state
    }

    fn sit(&self, desk: Box<Desk>, group: Vec<Prepared>, slots: &[Arc<Slot>], meanwhile: &mut dyn FnMut()) {
        // While the desk works it is out of the sitting: if it doesn't come back, it is gone.
        let mut sitting = Sitting { line: self, desk: None, slots };
        let mut desk = desk;
        let answers = desk.commit(group, meanwhile);
        for (slot, answer) in slots.iter().zip(answers) {
            *lock(&slot.answer) = Some(answer);
        }
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
        let mut state = lock(&self.line.state);
        let desk = std::mem::replace(&mut state.desk, Place::Gone);
        // INVARIANT: nobody's batch is in line, so nobody waits for one.
        drop(state);
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

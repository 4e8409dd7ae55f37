//! Group commit. Whoever waits first writes for everybody who has queued, and those who come meanwhile make the next group:
//! a lone caller so pays for no hand-over between threads. Where several wait when a group is written, a thread of its own
//! goes on, the clerk: its next flush begins at once, and not when a caller that has slept gets a processor.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::batch::{Placed, Prepared};
use crate::desk::{Answer, Desk};
use crate::error::StoreError;
use crate::limits::{CROWD, MAX_COMMIT, MAX_GROUP};
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
    /// For the clerk.
    called: Condvar,
}

struct State {
    queue: VecDeque<(Prepared, Arc<Slot>)>,
    desk: Place,
    clerk: Option<JoinHandle<()>>,
    /// Nobody comes any more: somebody waits until the line is empty.
    closing: bool,
}

enum Place {
    Free(Box<Desk>),
    /// For the clerk, who was called.
    Kept(Box<Desk>),
    Taken,
    Gone,
}

/// Where an answer is left. Each has its own way to be told: to wake everybody for what concerns one costs more than a turn.
#[derive(Default)]
struct Slot {
    told: Mutex<Told>,
    bell: Condvar,
}

#[derive(Default)]
struct Told {
    answer: Option<Answer>,
    /// The desk is free, or gone.
    look: bool,
    /// Somebody waits for it, or will.
    awaited: bool,
    asleep: bool,
}

impl Slot {
    fn tell(&self, change: impl FnOnce(&mut Told)) {
        let mut told = lock(&self.told);
        change(&mut told);
        let asleep = std::mem::take(&mut told.asleep);
        drop(told);
        // Whoever is awake looks by itself, and to wake is a call of the kernel.
        if asleep {
            self.bell.notify_one();
        }
    }

    /// Waits to be told something.
    fn wait(&self) {
        let mut told = lock(&self.told);
        while told.answer.is_none() && !told.look {
            told.asleep = true;
            told = self.bell.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
        told.look = false;
    }

    fn answer(&self) -> Option<Answer> {
        lock(&self.told).answer.take()
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
        self.line.serve(&self.slot, &mut || {})
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
        self.line.serve(&self.slot, &mut once).map(|done| done.entries)
    }
}

/// Sits at the desk. If it is not left in order, the desk is gone, and nobody is left waiting for it.
struct Sitting<'a> {
    line: &'a Line,
    /// Of those whose batches are written.
    slots: &'a [Arc<Slot>],
    in_order: bool,
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        if self.in_order {
            return;
        }
        let mut state = lock(&self.line.state);
        state.desk = Place::Gone;
        let waiting = state.queue.iter().map(|(_, slot)| slot);
        waiting.chain(self.slots).for_each(|slot| slot.tell(|told| told.look = true));
        self.line.moved.notify_all();
    }
}

/// What is written next, of those in line.
fn next_group(queue: &mut VecDeque<(Prepared, Arc<Slot>)>) -> (Vec<Prepared>, Vec<Arc<Slot>>) {
    // One that is too large for a commit fails alone.
    let mut room = MAX_COMMIT / 2;
    let fits = |(batch, _): &(Prepared, Arc<Slot>)| {
        room = room.saturating_sub(batch.size());
        room > 0
    };
    let many = queue.iter().take(MAX_GROUP).map(fits).take_while(|fits| *fits).count();
    let many = many.max(1).min(queue.len());
    queue.drain(..many).unzip()
}

impl Line {
    /// Waits for an answer, writing a group oneself if the desk is free.
    fn serve(self: &Arc<Self>, slot: &Slot, meanwhile: &mut dyn FnMut()) -> Answer {
        loop {
            let mut state = lock(&self.state);
            if let Some(answer) = slot.answer() {
                return answer;
            }
            match std::mem::replace(&mut state.desk, Place::Taken) {
                Place::Free(desk) => {
                    let (group, slots) = next_group(&mut state.queue);
                    drop(state);
                    let desk = self.sit(desk, group, &slots, meanwhile);
                    self.leave(desk);
                }
                Place::Gone => {
                    state.desk = Place::Gone;
                    return Err(StoreError::Closed);
                }
                taken => {
                    state.desk = taken;
                    lock(&slot.told).awaited = true;
                    drop(state);
                    meanwhile();
                    slot.wait();
                    // Those who were answered together need not meet at the lock.
                    if let Some(answer) = slot.answer() {
                        return answer;
                    }
                }
            }
        }
    }

    /// Writes a group.
    fn sit(
        &self,
        mut desk: Box<Desk>,
        group: Vec<Prepared>,
        slots: &[Arc<Slot>],
        meanwhile: &mut dyn FnMut(),
    ) -> Box<Desk> {
        let mut sitting = Sitting { line: self, slots, in_order: false };
        let answers = desk.commit(group, meanwhile);
        for (slot, answer) in slots.iter().zip(answers) {
            slot.tell(|told| told.answer = Some(answer));
        }
        sitting.in_order = true;
        desk
    }

    /// Leaves the desk to the clerk where there is a crowd, and otherwise to whoever waits.
    fn leave(self: &Arc<Self>, desk: Box<Desk>) {
        let mut state = lock(&self.state);
        if state.queue.len() >= CROWD && self.has_clerk(&mut state) {
            state.desk = Place::Kept(desk);
            drop(state);
            self.called.notify_one();
        } else {
            self.leave_free(state, desk);
        }
    }

    fn leave_free(&self, mut state: MutexGuard<'_, State>, desk: Box<Desk>) {
        state.desk = Place::Free(desk);
        // One of them writes for all.
        let next = state.queue.iter().map(|(_, slot)| slot).find(|slot| lock(&slot.told).awaited).cloned();
        let closing = state.closing;
        drop(state);
        if let Some(next) = next {
            next.tell(|told| told.look = true);
        }
        if closing {
            self.moved.notify_all();
        }
    }

    /// Whether there is a clerk; it comes when it is needed first.
    fn has_clerk(self: &Arc<Self>, state: &mut State) -> bool {
        if state.clerk.is_none() && !state.closing {
            let line = Arc::clone(self);
            let thread = std::thread::Builder::new().name("lazaret-log".into());
            state.clerk = thread.spawn(move || line.work()).ok();
        }
        state.clerk.is_some()
    }

    /// The clerk: writes groups for as long as anybody is in line.
    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            match std::mem::replace(&mut state.desk, Place::Taken) {
                Place::Kept(mut desk) => {
                    while !state.queue.is_empty() {
                        let (group, slots) = next_group(&mut state.queue);
                        drop(state);
                        desk = self.sit(desk, group, &slots, &mut || {});
                        state = lock(&self.state);
                    }
                    self.leave_free(state, desk);
                    state = lock(&self.state);
                }
                Place::Gone => {
                    state.desk = Place::Gone;
                    return;
                }
                other => {
                    state.desk = other;
                    state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Writes what is in line and takes the desk away, if it is still there.
    fn close(&self) -> Option<Box<Desk>> {
        let mut state = lock(&self.state);
        state.closing = true;
        let desk = loop {
            match std::mem::replace(&mut state.desk, Place::Taken) {
                Place::Free(desk) if state.queue.is_empty() => break Some(desk),
                Place::Free(desk) => {
                    let (group, slots) = next_group(&mut state.queue);
                    drop(state);
                    let desk = self.sit(desk, group, &slots, &mut || {});
                    state = lock(&self.state);
                    state.desk = Place::Free(desk);
                }
                Place::Gone => break None,
                taken => {
                    state.desk = taken;
                    state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        // INVARIANT: nobody's batch is in line, so nobody waits for one.
        state.desk = Place::Gone;
        let clerk = state.clerk.take();
        drop(state);
        self.called.notify_one();
        if let Some(clerk) = clerk {
            // One that broke down has left the desk as gone, and that was told.
            let _ = clerk.join();
        }
        desk
    }
}

impl Writer {
    pub(crate) fn new(desk: Desk, applier: Applier) -> Self {
        let state = State { queue: VecDeque::new(), desk: Place::Free(Box::new(desk)), clerk: None, closing: false };
        let line = Line { state: Mutex::new(state), moved: Condvar::new(), called: Condvar::new() };
        Self { line: Arc::new(line), applier }
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
        let desk = self.line.close();
        let tables = self.applier.close();
        // What isn't in the tables, or not safe there, stays in the log, and the next one who opens it finds it.
        if let (Some(desk), Some(mut tables)) = (desk, tables) {
            desk.pool.close();
            if desk.redo.is_used() && tables.settle().is_ok() {
                desk.redo.empty();
            }
        }
    }
}

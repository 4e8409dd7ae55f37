//! Group commit. Whoever waits first writes for everybody who has queued, and those who come meanwhile make the next group:
//! a lone caller so pays for no hand-over between threads. Where several wait when a group is on disk, a thread of its own
//! goes on, the clerk: its next flush begins when half of those who commit are in line, or in a moment, and not when a caller
//! that has slept gets a processor. While a group is being flushed to a slow disk, the next need not wait for that: when
//! about half of those who commit are in line, the one who came last writes it, and it is flushed too.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::air::{Air, Answer};
use crate::batch::{Placed, Prepared};
use crate::crowd::Crowd;
use crate::desk::{Begun, Desk};
use crate::error::StoreError;
use crate::limits::{CROWD, FLIGHTS, GATHER, MAX_COMMIT, MAX_GROUP};
use crate::pending::Applier;

/// The way to the desk.
pub(crate) struct Writer {
    line: Arc<Line>,
    applier: Applier,
}

/// Those who wait, and the desk when nobody sits at it.
struct Line {
    state: Mutex<State>,
    air: Arc<Air>,
    /// For those who wait for no batch of their own.
    moved: Condvar,
    /// For the clerk.
    called: Condvar,
}

struct State {
    queue: VecDeque<(Prepared, Arc<Slot>)>,
    desk: Place,
    /// Those whose batches are being flushed, by the numbers of their commits.
    flying: Vec<(u64, Vec<Arc<Slot>>)>,
    crowd: Crowd,
    clerk: Option<JoinHandle<()>>,
    /// Nobody comes any more: somebody waits until the line is empty.
    closing: bool,
    /// How many wait for the desk itself.
    awaiting_desk: usize,
    /// The clerk waits until as many are in line; none if it doesn't.
    gathering: Option<usize>,
}

/// What is written as one commit.
struct Group {
    batches: Vec<Prepared>,
    slots: Vec<Arc<Slot>>,
}

impl State {
    /// Whether a group may be written now, if the desk is free.
    fn may_begin(&self) -> bool {
        let waiting = self.queue.len();
        waiting > 0 && (self.flying.is_empty() || self.flying.len() < FLIGHTS && self.crowd.is_worth_it(waiting))
    }

    /// Counts those who wait, for the disk or in line.
    fn count(&mut self) {
        let flying: usize = self.flying.iter().map(|(_, slots)| slots.len()).sum();
        self.crowd.see(flying + self.queue.len());
    }

    /// What is written next, of those in line.
    fn next_group(&mut self) -> Group {
        self.count();
        // One that is too large for a commit fails alone.
        let mut room = MAX_COMMIT / 2;
        let fits = |(batch, _): &(Prepared, Arc<Slot>)| {
            room = room.saturating_sub(batch.size());
            room > 0
        };
        let many = self.queue.iter().take(MAX_GROUP).map(fits).take_while(|fits| *fits).count();
        let many = many.max(1).min(self.queue.len());
        let (batches, slots) = self.queue.drain(..many).unzip();
        Group { batches, slots }
    }

    /// Puts the desk back. If somebody who waited for the disk has broken down meanwhile, it stays gone: that was told.
    fn put_back(&mut self, desk: Place) {
        if !matches!(self.desk, Place::Gone) {
            self.desk = desk;
        }
    }

    /// The desk, if it is free.
    fn take_desk(&mut self) -> Option<Box<Desk>> {
        match std::mem::replace(&mut self.desk, Place::Taken) {
            Place::Free(desk) => Some(desk),
            other => {
                self.desk = other;
                None
            }
        }
    }
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

/// Sits at the desk, or waits for the disk. If that does not end in order, the desk is gone, and nobody is left waiting for it.
struct Sitting<'a> {
    line: &'a Line,
    /// Of those whose batches are being written.
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
        let flying = state.flying.iter().flat_map(|(_, slots)| slots);
        waiting.chain(flying).chain(self.slots).for_each(|slot| slot.tell(|told| told.look = true));
        self.line.moved.notify_all();
        self.line.called.notify_one();
    }
}

fn tell(slots: &[Arc<Slot>], answers: Vec<Answer>) {
    for (slot, answer) in slots.iter().zip(answers) {
        slot.tell(|told| told.answer = Some(answer));
    }
}

impl Line {
    /// Waits for an answer, writing a group oneself if that may be.
    fn serve(self: &Arc<Self>, slot: &Slot, meanwhile: &mut dyn FnMut()) -> Answer {
        loop {
            let mut state = lock(&self.state);
            if let Some(answer) = slot.answer() {
                return answer;
            }
            if let Place::Gone = state.desk {
                return Err(StoreError::Closed);
            }
            if state.may_begin()
                && let Some(desk) = state.take_desk()
            {
                let group = state.next_group();
                drop(state);
                let desk = self.write(desk, group, meanwhile);
                self.call(desk);
            } else {
                lock(&slot.told).awaited = true;
                drop(state);
                meanwhile();
                slot.wait();
            }
            // Those who were answered together need not meet at the lock.
            if let Some(answer) = slot.answer() {
                return answer;
            }
        }
    }

    /// Writes a group, leaves the desk and waits for the disk. Answers all whose commits are then on disk, or not going to be.
    /// Returns the desk, if it was free by then.
    fn write(&self, mut desk: Box<Desk>, group: Group, meanwhile: &mut dyn FnMut()) -> Option<Box<Desk>> {
        let Group { batches, slots } = group;
        let mut sitting = Sitting { line: self, slots: &slots, in_order: false };
        let desk = match desk.begin(batches) {
            Begun::Nothing(answers) => {
                tell(&slots, answers);
                Some(desk)
            }
            Begun::Flight(number, flush) => {
                let mut state = lock(&self.state);
                state.flying.push((number, slots.clone()));
                self.leave(state, desk);
                meanwhile();
                let begun = Instant::now();
                let flushed = flush.wait();
                self.land(number, flushed, begun.elapsed())
            }
        };
        sitting.in_order = true;
        desk
    }

    /// Leaves the desk, to whoever may write the next group.
    fn leave(&self, mut state: MutexGuard<'_, State>, desk: Box<Desk>) {
        state.put_back(Place::Free(desk));
        self.pass_on(state);
    }

    /// A flush has ended. Returns the desk, if it is free: nobody shall take it while others are told, who come right back.
    fn land(&self, number: u64, flushed: Result<(), StoreError>, took: Duration) -> Option<Box<Desk>> {
        let landed = self.air.land(number, flushed);
        let failed = landed.iter().any(|landed| !landed.holds);
        let mut state = lock(&self.state);
        state.count();
        state.crowd.flushed(took);
        // Before anything is mended: then their numbers are given to others.
        let landed: Vec<_> = landed
            .into_iter()
            .filter_map(|landed| {
                let at = state.flying.iter().position(|(number, _)| *number == landed.number)?;
                Some((state.flying.remove(at).1, landed.answers))
            })
            .collect();
        if failed {
            state = self.mend(state);
        }
        let desk = state.take_desk();
        drop(state);
        landed.into_iter().for_each(|(slots, answers)| tell(&slots, answers));
        desk
    }

    /// A flush failed: has what was written made void, before anybody is told that it failed.
    fn mend<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.awaiting_desk += 1;
        let (mut desk, kept) = loop {
            match std::mem::replace(&mut state.desk, Place::Taken) {
                Place::Free(desk) => break (desk, false),
                Place::Kept(desk) => break (desk, true),
                other => {
                    let is_gone = matches!(other, Place::Gone);
                    state.desk = other;
                    if is_gone {
                        state.awaiting_desk -= 1;
                        return state;
                    }
                    state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(state);
        // If this fails, nothing is written until it succeeds: whoever comes next tries again.
        let _ = desk.mend();
        let mut state = lock(&self.state);
        state.awaiting_desk -= 1;
        if kept {
            self.keep(state, desk);
        } else {
            self.leave(state, desk);
        }
        lock(&self.state)
    }

    /// Leaves the desk to the clerk.
    fn keep(&self, mut state: MutexGuard<'_, State>, desk: Box<Desk>) {
        state.put_back(Place::Kept(desk));
        let others = state.awaiting_desk > 0;
        drop(state);
        self.called.notify_one();
        // The clerk may be one of them.
        if others {
            self.moved.notify_all();
        }
    }

    /// Lets the next one know, if there is something for it to do.
    fn pass_on(&self, state: MutexGuard<'_, State>) {
        let may = matches!(state.desk, Place::Free(_)) && state.may_begin();
        // One of them writes for all.
        let awaited = |slot: &&Arc<Slot>| lock(&slot.told).awaited;
        let next = may.then(|| state.queue.iter().map(|(_, slot)| slot).find(awaited).cloned()).flatten();
        let others = state.closing || state.awaiting_desk > 0;
        drop(state);
        if let Some(next) = next {
            next.tell(|told| told.look = true);
        }
        if others {
            self.moved.notify_all();
        }
    }

    /// Leaves the desk to the clerk if there is a crowd to write for, and otherwise to whoever waits.
    fn call(self: &Arc<Self>, desk: Option<Box<Desk>>) {
        let mut state = lock(&self.state);
        let Some(desk) = desk.or_else(|| state.take_desk()) else { return self.pass_on(state) };
        if state.queue.len() >= CROWD && state.may_begin() && self.has_clerk(&mut state) {
            self.keep(state, desk);
        } else {
            self.leave(state, desk);
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
            let desk = match std::mem::replace(&mut state.desk, Place::Taken) {
                Place::Kept(desk) => Some(desk),
                other => {
                    state.desk = other;
                    None
                }
            };
            match desk {
                Some(desk) => {
                    self.write_on(state, desk);
                    state = lock(&self.state);
                }
                None if matches!(state.desk, Place::Gone) => return,
                None => state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Writes groups for as long as that may be, and then leaves the desk.
    fn write_on<'a>(&'a self, mut state: MutexGuard<'a, State>, mut desk: Box<Desk>) {
        loop {
            state = self.gather(state);
            if !state.may_begin() {
                break;
            }
            let group = state.next_group();
            drop(state);
            let next = self.write(desk, group, &mut || {});
            state = lock(&self.state);
            match next {
                Some(next) => desk = next,
                None => return self.pass_on(state),
            }
        }
        self.leave(state, desk);
    }

    /// Waits for those who are soon in line, if that makes a group worth its flush.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(enough) = state.crowd.worth_waiting_for() else { return state };
        let few = |state: &mut State| state.queue.len() < enough && !state.closing;
        if !state.flying.is_empty() || !few(&mut state) {
            return state;
        }
        state.gathering = Some(enough);
        let came = self.called.wait_timeout_while(state, GATHER, few);
        let (mut state, _) = came.unwrap_or_else(PoisonError::into_inner);
        state.gathering = None;
        state
    }

    /// Writes what is in line and takes the desk away, if it is still there.
    fn close(&self) -> Option<Box<Desk>> {
        let mut state = lock(&self.state);
        state.closing = true;
        let desk = loop {
            if state.may_begin()
                && let Some(desk) = state.take_desk()
            {
                self.write_on(state, desk);
                state = lock(&self.state);
                continue;
            }
            let over = state.queue.is_empty() && state.flying.is_empty();
            match std::mem::replace(&mut state.desk, Place::Taken) {
                Place::Free(desk) if over => break Some(desk),
                Place::Gone => break None,
                other => {
                    state.desk = other;
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
        let air = Arc::clone(&desk.air);
        let state = State {
            queue: VecDeque::new(),
            desk: Place::Free(Box::new(desk)),
            flying: Vec::new(),
            crowd: Crowd::default(),
            clerk: None,
            closing: false,
            awaiting_desk: 0,
            gathering: None,
        };
        let line = Line { state: Mutex::new(state), air, moved: Condvar::new(), called: Condvar::new() };
        Self { line: Arc::new(line), applier }
    }

    /// Why the last commit that was tried is not on disk, or not in the tables; none if it is.
    pub(crate) fn unwritten(&self) -> Option<StoreError> {
        self.line.air.unwritten()
    }

    /// Entries of the journal that are acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.line.air.acknowledged()
    }

    pub(crate) fn queue(&self, batch: Prepared) -> Ticket {
        let slot = Arc::new(Slot::default());
        let mut state = lock(&self.line.state);
        state.queue.push_back((batch, Arc::clone(&slot)));
        let enough = state.gathering.is_some_and(|enough| state.queue.len() >= enough);
        drop(state);
        if enough {
            self.line.called.notify_one();
        }
        Ticket { line: Arc::clone(&self.line), slot }
    }

    /// Writes what is in line, takes the desk away and lays everything into the tables.
    pub(crate) fn close(&mut self) {
        let mut desk = self.line.close();
        if let Some(desk) = &mut desk {
            // Nobody writes after this who could try again. Whoever opens the log next may find what failed.
            let _ = desk.mend();
        }
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

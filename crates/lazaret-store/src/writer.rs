//! Group commit without a thread of its own: whoever waits first writes for everybody who has queued, and those who come
//! meanwhile make the next group. A lone caller so pays for no hand-over between threads.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::batch::Prepared;
use crate::db;
use crate::desk::{Answer, Desk};
use crate::error::StoreError;
use crate::limits::{CARRY_OVER, MAX_GROUP};

/// The way to the desk.
pub(crate) struct Writer {
    line: Arc<Line>,
    carrier: Option<JoinHandle<()>>,
}

/// Those who wait, and the desk when nobody sits at it.
struct Line {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    queue: VecDeque<(Prepared, Arc<Slot>)>,
    desk: Place,
    carrier: Carrier,
}

/// The thread that carries the log over into the database beside the writer.
enum Carrier {
    Idle(SyncSender<()>),
    Busy(SyncSender<()>),
    /// It has come to the end of what it saw; what was written meanwhile is left.
    Done(SyncSender<()>),
    Gone,
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
    pub fn wait(self) -> Answer {
        self.line.serve(Some(&self.slot))
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
    fn serve(&self, slot: Option<&Slot>) -> Answer {
        let mut state = lock(&self.state);
        loop {
            if let Some(answer) = slot.and_then(|slot| lock(slot).take()) {
                return answer;
            }
            if slot.is_none() && state.queue.is_empty() && !matches!(state.desk, Place::Taken) {
                return Ok(Vec::new());
            }
            match std::mem::replace(&mut state.desk, Place::Taken) {
                Place::Free(desk) => {
                    let many = state.queue.len().min(MAX_GROUP);
                    let (group, slots): (Vec<_>, Vec<_>) = state.queue.drain(..many).unzip();
                    drop(state);
                    self.sit(desk, group, &slots);
                    state = lock(&self.state);
                }
                Place::Taken => state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner),
                Place::Gone => {
                    state.desk = Place::Gone;
                    return Err(StoreError::Closed);
                }
            }
        }
    }

    fn sit(&self, desk: Box<Desk>, group: Vec<Prepared>, slots: &[Arc<Slot>]) {
        // While the desk works it is out of the sitting: if it doesn't come back, it is gone.
        let mut sitting = Sitting { line: self, desk: None };
        let mut desk = desk;
        let answers = desk.commit(group);
        for (slot, answer) in slots.iter().zip(answers) {
            *lock(slot) = Some(answer);
        }
        self.moved.notify_all();
        if desk.frames() > CARRY_OVER {
            self.carry_over(&desk);
        }
        sitting.desk = Some(desk);
    }

    /// Keeps the log short. Most of it is carried over beside the writer; the little that is written meanwhile is done
    /// here, because only when nothing is left can SQLite begin the log anew.
    fn carry_over(&self, desk: &Desk) {
        let mut state = lock(&self.state);
        state.carrier = match std::mem::replace(&mut state.carrier, Carrier::Gone) {
            // It is only asked while it is idle, so there is always room.
            Carrier::Idle(ask) if ask.try_send(()).is_ok() => Carrier::Busy(ask),
            Carrier::Done(ask) => {
                drop(state);
                desk.carry_over();
                state = lock(&self.state);
                Carrier::Idle(ask)
            }
            as_it_was => as_it_was,
        };
    }

    fn carried(&self) {
        let mut state = lock(&self.state);
        state.carrier = match std::mem::replace(&mut state.carrier, Carrier::Gone) {
            Carrier::Busy(ask) => Carrier::Done(ask),
            as_it_was => as_it_was,
        };
    }
}

impl Writer {
    pub(crate) fn new(desk: Desk, database: &Path) -> Result<Self, StoreError> {
        let (ask, asked) = sync_channel(1);
        let conn = db::open_carrier(database)?;
        let state = State { queue: VecDeque::new(), desk: Place::Free(Box::new(desk)), carrier: Carrier::Idle(ask) };
        let line = Arc::new(Line { state: Mutex::new(state), moved: Condvar::new() });
        let shared = Arc::clone(&line);
        let carrier = std::thread::Builder::new()
            .name("lazaret-store".into())
            .spawn(move || {
                while asked.recv().is_ok() {
                    db::carry_over(&conn);
                    shared.carried();
                }
            })
            .map_err(|why| StoreError::Io { what: "starting a thread".into(), why: why.to_string() })?;
        Ok(Self { line, carrier: Some(carrier) })
    }

    pub(crate) fn queue(&self, batch: Prepared) -> Ticket {
        let slot = Arc::new(Slot::default());
        let mut state = lock(&self.line.state);
        state.queue.push_back((batch, Arc::clone(&slot)));
        drop(state);
        Ticket { line: Arc::clone(&self.line), slot }
    }

    /// Looks something up at the desk if nobody sits there. Each commit makes the reading connections forget their pages,
    /// so this is several times faster for what is asked once between two commits.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&Connection) -> T) -> Option<T> {
        let mut state = lock(&self.line.state);
        match std::mem::replace(&mut state.desk, Place::Taken) {
            Place::Free(desk) => {
                drop(state);
                let mut sitting = Sitting { line: &self.line, desk: None };
                let found = desk.look(read);
                sitting.desk = Some(desk);
                found
            }
            as_it_was => {
                state.desk = as_it_was;
                None
            }
        }
    }

    /// Writes what is in line and takes the desk away.
    pub(crate) fn close(&mut self) {
        let _ = self.line.serve(None);
        lock(&self.line.state).carrier = Carrier::Gone;
        if let Some(carrier) = self.carrier.take() {
            let _ = carrier.join();
        }
        let mut state = lock(&self.line.state);
        let desk = std::mem::replace(&mut state.desk, Place::Gone);
        drop(state);
        // Its connection is the last one: SQLite carries the log over and removes it.
        drop(desk);
        self.line.moved.notify_all();
    }
}

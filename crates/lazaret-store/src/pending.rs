//! Commits that are on disk and not yet in the tables, and the thread that lays them there.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::StoreError;
use crate::limits::{ATTEMPTS, BUSY, LINGER, LINGER_ON, LINGER_UP_TO, LOG_SAFE_SOON, MAX_APPLIED, MAX_PENDING, RETRY};
use crate::redo::Frame;
use crate::tables::Tables;

/// Where commits wait. Numbers are those of the redo log's frames.
pub(crate) struct Pending {
    state: Mutex<State>,
    /// Something is to be done.
    work: Condvar,
    /// Something was done, or failed.
    moved: Condvar,
}

struct State {
    commits: VecDeque<Arc<Frame>>,
    /// The last that was acknowledged.
    last: u64,
    /// The last that is in the tables.
    applied: u64,
    /// The last that is safe without the redo log.
    safe: u64,
    /// The last that is asked to be safe.
    wanted_safe: u64,
    /// Bytes of all that isn't safe.
    at_risk: u64,
    /// Threads that wait for the tables.
    waiting: usize,
    /// The thread waits for work.
    idle: bool,
    /// Attempts begun and ended, and why the last one failed, if it did.
    begun: u64,
    ended: u64,
    failed: Option<StoreError>,
    closing: bool,
    /// Attempts left once it is closing: what failed may have passed.
    attempts: u64,
    /// The thread is gone.
    gone: bool,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

impl Pending {
    /// Nothing waits; everything up to this commit is in the tables and safe.
    pub(crate) fn new(number: u64) -> Self {
        let state = State {
            commits: VecDeque::new(),
            last: number,
            applied: number,
            safe: number,
            wanted_safe: number,
            at_risk: 0,
            waiting: 0,
            idle: false,
            begun: 0,
            ended: 0,
            failed: None,
            closing: false,
            attempts: ATTEMPTS,
            gone: false,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), moved: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an acknowledged commit in line.
    pub(crate) fn push(&self, commit: Arc<Frame>) {
        let mut state = self.lock();
        state.last = commit.number;
        state.at_risk += commit.size() as u64;
        state.commits.push_back(commit);
        if state.idle || state.commits.len() == LINGER_UP_TO {
            state.idle = false;
            self.work.notify_one();
        }
    }

    /// The last commit that is in the tables, and the last that is safe.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let state = self.lock();
        (state.applied, state.safe)
    }

    /// Why the last attempt failed, if it did.
    pub(crate) fn failed(&self) -> Option<StoreError> {
        self.lock().failed.clone()
    }

    /// Waits until one more commit may come. Damage is told at once; what may pass, only when there is no room.
    pub(crate) fn room(&self) -> Result<(), StoreError> {
        let state = self.lock();
        match &state.failed {
            Some(why) if why.is_damage() => Err(why.clone()),
            _ if state.commits.len() < MAX_PENDING => Ok(()),
            _ => self.wait(state, |state| state.commits.len() < MAX_PENDING),
        }
    }

    /// Waits until everything that is acknowledged now is in the tables.
    pub(crate) fn drain(&self) -> Result<(), StoreError> {
        let state = self.lock();
        let last = state.last;
        if state.applied >= last { Ok(()) } else { self.wait(state, |state| state.applied >= last) }
    }

    /// Asks that all be made safe that was acknowledged by now, and doesn't wait. While that is being done, nothing more is asked:
    /// each of those who commit meanwhile would have a few commits laid down, and flushed, for itself.
    pub(crate) fn ask_safe(&self) {
        let mut state = self.lock();
        if state.safe >= state.wanted_safe {
            state.wanted_safe = state.last;
            self.work.notify_one();
        }
    }

    /// Waits until a commit is safe.
    pub(crate) fn safe(&self, number: u64) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.wanted_safe = state.wanted_safe.max(number);
        self.wait(state, |state| state.safe >= number)
    }

    /// Waits for something, or until attempts that began after this call have failed: one may have met what is past.
    fn wait(&self, mut state: MutexGuard<'_, State>, done: impl Fn(&State) -> bool) -> Result<(), StoreError> {
        let begun = state.begun;
        state.waiting += 1;
        let answer = loop {
            if done(&state) {
                break Ok(());
            }
            if let Some(why) = state.failed.as_ref().filter(|_| state.ended >= begun + ATTEMPTS) {
                break Err(why.clone());
            }
            if state.gone {
                break Err(StoreError::Closed);
            }
            self.work.notify_one();
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.waiting -= 1;
        answer
    }

    /// What is to be done next: commits for one transaction, and whether all is to be made safe after it. `None` at the
    /// end.
    fn next(&self) -> Option<(Vec<Arc<Frame>>, bool)> {
        let mut state = self.lock();
        while state.commits.is_empty() && state.safe >= state.wanted_safe && !state.closing {
            state.idle = true;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        let patience = if state.failed.is_some() { RETRY } else { LINGER };
        let unhurried = |state: &mut State| {
            let few = state.failed.is_some() || state.commits.len() < LINGER_UP_TO && state.safe >= state.wanted_safe;
            few && state.waiting == 0 && !state.closing
        };
        let linger = |state, time| {
            self.work.wait_timeout_while(state, time, unhurried).unwrap_or_else(PoisonError::into_inner).0
        };
        state = linger(state, patience);
        if state.failed.is_none() && state.commits.len() >= BUSY {
            state = linger(state, LINGER_ON);
        }
        if state.closing {
            if state.commits.is_empty() || state.attempts == 0 {
                return None;
            }
            state.attempts -= u64::from(state.failed.is_some());
        }
        state.begun += 1;
        let commits = state.commits.iter().take(MAX_APPLIED).cloned().collect();
        Some((commits, state.wanted_safe > state.safe || state.at_risk > LOG_SAFE_SOON))
    }

    /// Lays commits into the tables until told to close.
    fn work(&self, tables: &mut Tables) {
        while let Some((commits, secure)) = self.next() {
            let done = if commits.is_empty() { Ok(()) } else { tables.apply(&commits) };
            let applied = tables.head.applied;
            self.applied(&done, commits.len(), applied);
            // Carrying over takes a while, and flushes SQLite's log anyway: who waits for room in ours need not wait for the rest.
            let made_safe = match done {
                Ok(()) if secure || tables.is_long() => tables.secure().map(|()| true),
                done => done.map(|()| false),
            };
            let is_safe = made_safe == Ok(true);
            self.secured(made_safe, applied);
            if is_safe && tables.is_long() {
                tables.carry_over();
            }
        }
    }

    fn secured(&self, made_safe: Result<bool, StoreError>, applied: u64) {
        let mut state = self.lock();
        if let Ok(true) = made_safe {
            state.safe = applied;
            state.at_risk = state.commits.iter().map(|commit| commit.size() as u64).sum();
        }
        state.failed = made_safe.err();
        state.ended = state.begun;
        self.moved.notify_all();
    }

    /// Those who wait for the tables needn't wait for what follows.
    fn applied(&self, done: &Result<(), StoreError>, many: usize, applied: u64) {
        if done.is_ok() {
            let mut state = self.lock();
            state.commits.drain(..many);
            state.applied = applied;
            self.moved.notify_all();
        }
    }
}

/// Tells those who wait when the thread ends, however it does.
struct Leaving(Arc<Pending>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.lock().gone = true;
        self.0.moved.notify_all();
    }
}

/// The thread that writes the tables.
pub(crate) struct Applier {
    pending: Arc<Pending>,
    thread: Option<JoinHandle<Tables>>,
}

impl Applier {
    pub(crate) fn start(mut tables: Tables, pending: Arc<Pending>) -> Result<Self, StoreError> {
        let leaving = Leaving(Arc::clone(&pending));
        let thread = std::thread::Builder::new()
            .name("lazaret-store".into())
            .spawn(move || {
                leaving.0.work(&mut tables);
                tables
            })
            .map_err(|why| StoreError::Io { what: "starting a thread".into(), why: why.to_string() })?;
        Ok(Self { pending, thread: Some(thread) })
    }

    /// Lays everything into the tables and ends. `None` if that could not be done: it stays in the log.
    pub(crate) fn close(&mut self) -> Option<Tables> {
        self.pending.lock().closing = true;
        self.pending.work.notify_one();
        let tables = self.thread.take()?.join().ok()?;
        (tables.head.applied == self.pending.lock().last).then_some(tables)
    }
}

impl Drop for Applier {
    /// Where a store can't be opened after all, its thread must not live on.
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_commits_are_made_safe_nobody_has_more_of_them_made_so() {
        let pending = Pending::new(0);
        let asked = |number: u64| {
            pending.push(Arc::new(Frame::blank(number)));
            pending.ask_safe();
            pending.lock().wanted_safe
        };
        assert_eq!((asked(1), asked(2), asked(3)), (1, 1, 1));
        pending.secured(Ok(false), 3);
        assert_eq!(asked(4), 1, "they are in the tables, and not safe there");
        pending.secured(Err(StoreError::DiskFull), 4);
        assert_eq!(asked(5), 1, "what failed is tried again");
        pending.applied(&Ok(()), 4, 4);
        pending.secured(Ok(true), 4);
        assert_eq!(pending.lock().at_risk, Frame::blank(5).size() as u64);
        assert_eq!(asked(6), 6);
    }
}

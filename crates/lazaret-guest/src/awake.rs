//! A durable agent that stays awake from one turn to the next, which only replay lets it.
//!
//! A live turn always begins with a fresh instance. A replayed one needn't: what an instance that has replied could have
//! that a fresh one, woken from the image that the reply left, has not, are things that admission refuses in a durable
//! component: changed tables, dropped segments, handles, tasks, references in globals. What remains is in memories and
//! globals, which it has to itself, and in its store, which every turn puts back (`turn::begin`). A turn that did not
//! reply ends the instance.
//!
//! Whoever gets another result than the expected one from a kept instance puts it to [`sleep`](Awake::sleep) and takes the
//! turn again before believing it, so a fault in this reasoning would cost time and not truth.

use crate::admit::Program;
use crate::limits::{IDLE_PAGES, MAX_HELD_PAGES};
use crate::native::heap::HeapError;
use crate::state::{Change, Held, Sealed, State};
use crate::turn::{self, Live, Ran, Terms, World};

/// An agent, and the instance of its last turn if there is one to go on with.
pub struct Awake {
    program: Program,
    /// INVARIANT: page names and globals are as after the last settled turn. So are the heaps, if nothing is `held` beside
    /// them.
    state: State,
    live: Option<Live>,
    held: Vec<Held>,
    /// Unchanged pages that were compared since the instance was woken.
    idle: usize,
}

impl Awake {
    /// Without an instance yet.
    pub fn new(program: Program, state: State) -> Self {
        Self { program, state, live: None, held: Vec::new(), idle: 0 }
    }

    /// What runs.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Whether the next turn is taken on an instance that has taken one before.
    pub fn is_kept(&self) -> bool {
        self.live.is_some()
    }

    /// Takes one turn. Its change, if it made one, is to be given to [`advance`](Self::advance) and then to
    /// [`settle`](Self::settle) or [`refuse`](Self::refuse) before the next.
    pub fn run(&mut self, terms: &Terms<'_>, world: Box<dyn World>) -> Ran {
        if let Some(live) = &mut self.live {
            let ran = live.again(&self.program, &self.state, &mut self.held, terms, world);
            if ran.change.is_none() {
                self.live = None;
            }
            return ran;
        }
        if let Err(why) = self.sleep() {
            return Ran::not_begun(&why, world);
        }
        let (ran, live) = turn::start(&self.program, &self.state, terms, world);
        self.live = live;
        ran
    }

    /// Brings the page names up to date, as [`State::advance`] does; but of blobs there are only nodes.
    pub fn advance(&mut self, change: &Change) -> Sealed {
        self.state.rename(change)
    }

    /// The change stands: the next turn goes on from it.
    pub fn settle(&mut self, change: Change) -> Result<(), HeapError> {
        if self.live.is_none() {
            return self.state.settle(change);
        }
        self.state.hold(change, &mut self.held);
        self.idle += self.held.iter().map(Held::idle).sum::<usize>();
        let held: usize = self.held.iter().map(Held::len).sum();
        if self.idle > IDLE_PAGES || held >= MAX_HELD_PAGES { self.sleep() } else { Ok(()) }
    }

    /// The change, which [`advance`](Self::advance) was given, does not stand. The instance has it nevertheless: it has to
    /// [`sleep`](Self::sleep).
    pub fn refuse(&mut self, change: &Change) {
        self.state.retreat(change);
    }

    /// Lets go of the instance. The next turn wakes the agent as the last settled turn left it.
    pub fn sleep(&mut self) -> Result<(), HeapError> {
        // The heaps can be written to when nothing has them mapped.
        self.live = None;
        self.idle = 0;
        self.state.release(std::mem::take(&mut self.held))
    }
}

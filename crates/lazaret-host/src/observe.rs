//! Turns that are over, for whoever counts or draws them. What is observed is on record; an observer changes nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::host::Host;
use crate::turns::Turn;

/// When an ask of a turn was made, counted from the turn's beginning, and how long its answer took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// After how long it was asked.
    pub after: Duration,
    /// How long it took, people included.
    pub took: Duration,
}

/// How long a turn took.
#[derive(Debug)]
pub(crate) struct Lasted {
    /// People included.
    pub(crate) took: Duration,
    /// Of each ask.
    pub(crate) timings: Vec<Timing>,
}

/// A turn that has just been put on record.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The turn.
    pub turn: &'a Turn,
    /// When it was over, in milliseconds since 1970, UTC.
    pub ended: u64,
    /// How long it took from its first instruction on, people included.
    pub took: Duration,
    /// Of each ask on its tape.
    pub timings: &'a [Timing],
}

/// Hears of turns on the threads that take them: it must be quick, and not wait for anything.
pub trait Observer: Send + Sync {
    /// A turn is on record.
    fn turned(&self, observed: Observed<'_>);
}

impl Host {
    /// Tells this observer of every turn from here on. False if there is one already.
    pub fn observe(&self, observer: Arc<dyn Observer>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// Tells whoever observes.
    pub(crate) fn observed(&self, turn: Turn, lasted: &Lasted) -> Turn {
        if let Some(observer) = self.observer.get() {
            let (ended, took) = (crate::asking::now().moment.wall_ms, lasted.took);
            observer.turned(Observed { turn: &turn, ended, took, timings: &lasted.timings });
        }
        turn
    }
}

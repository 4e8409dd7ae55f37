//! What turns are in the middle of, so that whoever stops an agent knows when nothing of it is under way any more.
//!
//! Between the look whether an agent may act and the act lies time, and a thread can be held up there for as long as others
//! want its processor. A stop that is on disk is seen by every look that comes after it; what looked before is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lazaret_gate::AgentId;

use crate::host::lock;

/// How often it is looked whether all of them are done.
const LOOK: Duration = Duration::from_millis(1);

/// The turns that are under way.
#[derive(Default)]
pub(crate) struct Acts {
    turns: Mutex<BTreeMap<u64, (AgentId, Arc<AtomicU64>)>>,
    next: AtomicU64,
}

/// A turn, for as long as it lasts.
pub(crate) struct Actor {
    of: Arc<Acts>,
    number: u64,
    pub(crate) acts: Acting,
}

/// Counts what a turn begins and ends: an odd number means that it is in the middle of something.
#[derive(Clone)]
pub(crate) struct Acting(Arc<AtomicU64>);

/// In the middle of something.
pub(crate) struct Act(Acting);

impl Acting {
    /// What is looked at from here on, and done, is one act.
    pub(crate) fn begin(&self) -> Act {
        self.0.fetch_add(1, Ordering::SeqCst);
        Act(self.clone())
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        lock(&self.of.turns).remove(&self.number);
    }
}

impl Acts {
    /// A turn of an agent begins.
    pub(crate) fn enter(self: &Arc<Self>, agent: &AgentId) -> Actor {
        let (number, count) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::default());
        lock(&self.turns).insert(number, (agent.clone(), Arc::clone(&count)));
        Actor { of: self.clone(), number, acts: Acting(count) }
    }

    /// Waits for what the turns of stopped agents are in the middle of now; names those that take longer than `most`.
    ///
    /// INVARIANT: that they are stopped is seen by every look from before this call on, so what they begin after it comes to
    /// nothing.
    #[expect(clippy::disallowed_methods, reason = "an operator waits for threads, on a real clock")]
    pub(crate) fn settle(&self, stopped: impl Fn(&AgentId) -> bool, most: Duration) -> BTreeSet<AgentId> {
        let until = Instant::now() + most;
        let now = |(agent, count): &(AgentId, Arc<AtomicU64>)| {
            let seen = count.load(Ordering::SeqCst);
            (seen % 2 == 1).then(|| (agent.clone(), Arc::clone(count), seen))
        };
        let mut acting: Vec<_> = lock(&self.turns).values().filter_map(now).collect();
        acting.retain(|(agent, ..)| stopped(agent));
        loop {
            acting.retain(|(_, count, seen)| count.load(Ordering::SeqCst) == *seen);
            if acting.is_empty() || Instant::now() >= until {
                return acting.into_iter().map(|(agent, ..)| agent).collect();
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::from_millis(5);

    fn id(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    #[test]
    fn what_is_under_way_of_a_stopped_agent_is_waited_for_and_nothing_else() {
        let acts = Arc::new(Acts::default());
        let (a, b) = (acts.enter(&id("a")), acts.enter(&id("b")));
        let only_a = |agent: &AgentId| agent.as_str() == "a";
        assert!(acts.settle(|_| true, NO_TIME).is_empty(), "both think");
        let act = a.acts.begin();
        assert_eq!(acts.settle(only_a, NO_TIME), [id("a")].into());
        assert!(acts.settle(|agent| agent.as_str() == "b", NO_TIME).is_empty(), "nobody waits for those who may go on");
        drop(act);
        let _others = b.acts.begin();
        assert!(acts.settle(only_a, NO_TIME).is_empty());
        drop(a);
        assert_eq!(lock(&acts.turns).len(), 1, "a turn that is over is forgotten");
    }

    #[test]
    fn what_begins_later_is_not_waited_for() {
        let acts = Arc::new(Acts::default());
        let turn = acts.enter(&id("a"));
        let first = turn.acts.begin();
        std::thread::scope(|scope| {
            let (looked, seen) = std::sync::mpsc::channel();
            let acts = &acts;
            let stopped = move |_: &AgentId| looked.send(()).is_ok();
            let waiter = scope.spawn(move || acts.settle(stopped, Duration::from_secs(60)));
            // What it waits for is known; it isn't known to it that this is over.
            seen.recv().unwrap();
            assert!(!waiter.is_finished(), "it is in the middle of something");
            drop(first);
            let _second = turn.acts.begin();
            assert!(waiter.join().unwrap().is_empty());
        });
    }
}

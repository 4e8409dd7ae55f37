//! What time brings: pauses that are over, schedules that are due, and whether what was stopped goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use lazaret_gate::AgentId;

use super::{Shared, State, lock, monotonic, waking, wall};
use crate::error::HostError;
use crate::limits::{CLOCK_AGAIN, CLOCK_LOOK_MS, CLOSED_LOOK_MS, DUE_AT_ONCE, HELD_LOOK_MS};
use crate::schedule::Due;
use crate::supervisor::core::Event;

impl Shared {
    /// The clock, until the supervisor is over. A failure in the middle of a round is a bug, but it must not stop the clock.
    pub(super) fn keep_time(self: Arc<Self>) {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.tick())) {
                Ok(true) => return,
                Ok(false) => lock(&self.state).ticked = waking(),
                Err(_) => drop(self.clock.wait_timeout(lock(&self.state), CLOCK_AGAIN)),
            }
        }
    }

    /// One round; true if there is none after it.
    fn tick(self: &Arc<Self>) -> bool {
        self.look_at_closed();
        let mut state = lock(&self.state);
        if state.stopping {
            return true;
        }
        if state.core.is_held() && self.host.running().is_ok() {
            self.hear(&mut state, Event::Hold(false));
        }
        self.hear(&mut state, Event::Tick);
        let idle = state.core.is_draining() || state.core.is_held();
        let due = if idle {
            Vec::new()
        } else {
            let State { core, timetable, .. } = &mut *state;
            let may = |agent: &AgentId| core.life(agent).is_some_and(|life| life.is_idle() || life.is_awake());
            timetable.take(wall(), DUE_AT_ONCE, may)
        };
        if !due.is_empty() {
            drop(state);
            self.fire(due);
            return false;
        }
        let pause = [
            state.core.next_due().map(|due| due.saturating_sub(monotonic())),
            state.timetable.next().filter(|_| !idle).map(|due| due.saturating_sub(wall())),
            state.core.is_held().then_some(HELD_LOOK_MS),
            (!state.closed.is_empty()).then_some(CLOSED_LOOK_MS),
            Some(CLOCK_LOOK_MS),
        ];
        let pause = pause.into_iter().flatten().min().unwrap_or(CLOCK_LOOK_MS);
        // At least a millisecond: a clock that stands still must not keep a processor busy.
        let pause = Duration::from_millis(if state.core.is_held() { pause.max(HELD_LOOK_MS) } else { pause.max(1) });
        drop(self.clock.wait_timeout(state, pause));
        false
    }

    /// Agents that were restored go on.
    fn look_at_closed(self: &Arc<Self>) {
        let closed = lock(&self.state).closed.clone();
        for agent in closed {
            let row = self.host.store().agent(&agent).ok().flatten();
            if row.is_none_or(|row| self.host.trusted(&row).is_ok()) {
                self.look(&agent);
            }
        }
    }

    /// All of them go to disk together.
    fn fire(self: &Arc<Self>, due: Vec<(AgentId, String, Due)>) {
        let fire = |(agent, name, due): (AgentId, String, Due)| {
            let ticket = self.host.fire(&agent, &name, &due);
            (agent, name, due.until, ticket)
        };
        let tickets: Vec<_> = due.into_iter().map(fire).collect();
        for (agent, name, until, ticket) in tickets {
            let written = ticket.and_then(|ticket| Ok(ticket.wait()?));
            let is_revoked = matches!(written, Err(HostError::Revoked { .. }));
            let mut state = lock(&self.state);
            let key = (agent.clone(), name.clone());
            match written {
                Ok(_) => {
                    state.unkept.remove(&key);
                    state.timetable.fired(&agent, &name, until);
                    self.hear(&mut state, Event::Mail { agent: agent.clone() });
                }
                Err(why) => {
                    // Who is revoked misses nothing that anybody waits for, and it may have been removed meanwhile.
                    if !is_revoked && state.timetable.has(&agent, &name) {
                        state.unkept.insert(key, format!("its schedule `{name}` could not fire: {why}"));
                    }
                    state.timetable.failed(&agent, &name, wall());
                }
            }
            drop(state);
            if is_revoked {
                self.look(&agent);
            }
        }
    }
}

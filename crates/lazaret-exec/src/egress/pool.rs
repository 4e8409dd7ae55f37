//! Connections that wait for the next request to the same origin.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lazaret_gate::Target;
use lazaret_gate::address::Destinations;

use super::link::Link;
use super::socket::Socket;
use crate::limits::{IDLE_TIME, MAX_IDLE, MAX_IDLE_ALL};

/// A connection, and the socket under it.
pub(super) struct Line {
    pub(super) link: Link,
    pub(super) socket: Socket,
}

struct Idle {
    line: Line,
    since: Instant,
}

/// By origin: scheme, host and port as URLs write them. A name, never an address alone: a certificate was checked for that
/// name.
type Waiting = HashMap<String, Vec<Idle>>;

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Waiting>,
}

impl Pool {
    /// The connection that waited least, to an address that these rules allow: others may have been opened under wider
    /// rules. With how long it waited.
    pub(super) fn take(&self, target: &Target, rules: &Destinations, now: Instant) -> Option<(Line, Duration)> {
        let mut idle = self.lock();
        let waiting = idle.get_mut(target.origin())?;
        waiting.retain(|idle| now.saturating_duration_since(idle.since) < IDLE_TIME);
        let at = waiting.iter().rposition(|idle| rules.check(idle.line.link.address.ip()).is_ok())?;
        let idle = waiting.remove(at);
        Some((idle.line, now.saturating_duration_since(idle.since)))
    }

    pub(super) fn put(&self, target: &Target, line: Line) {
        let now = Instant::now();
        let mut idle = self.lock();
        // Origins without connections count too: nobody shall fill memory with names.
        let full = |idle: &Waiting| idle.len().max(idle.values().map(Vec::len).sum::<usize>()) >= MAX_IDLE_ALL;
        if full(&idle) {
            idle.retain(|_, waiting| {
                waiting.retain(|idle| now.saturating_duration_since(idle.since) < IDLE_TIME);
                !waiting.is_empty()
            });
            if full(&idle) {
                return;
            }
        }
        let waiting = match idle.get_mut(target.origin()) {
            Some(waiting) => waiting,
            None => idle.entry(target.origin().to_owned()).or_default(),
        };
        if waiting.len() >= MAX_IDLE {
            waiting.remove(0);
        }
        waiting.push(Idle { line, since: now });
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Whoever panicked with the lock held left a list of connections, each of them whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

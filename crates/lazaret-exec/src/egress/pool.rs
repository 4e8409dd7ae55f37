//! Connections that wait for the next request to the same origin.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lazaret_gate::Target;
use lazaret_gate::address::Destinations;
use lazaret_gate::grant::Scheme;

use super::link::Link;
use super::socket::Socket;
use crate::limits::{IDLE_TIME, MAX_IDLE, MAX_IDLE_ALL};

/// What a connection is for. A name, never an address alone: a certificate was checked for that name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    scheme: Scheme,
    host: String,
    port: u16,
}

impl Key {
    pub(super) fn of(target: &Target) -> Self {
        Self { scheme: target.scheme(), host: target.host_text().to_owned(), port: target.port() }
    }
}

/// A connection, and the socket under it.
pub(super) struct Line {
    pub(super) link: Link,
    pub(super) socket: Socket,
}

struct Idle {
    line: Line,
    since: Instant,
}

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
}

impl Pool {
    /// The connection that waited least, to an address that these rules allow: others may have been opened under wider
    /// rules. With how long it waited.
    pub(super) fn take(&self, key: &Key, rules: &Destinations, now: Instant) -> Option<(Line, Duration)> {
        let mut idle = self.lock();
        let waiting = idle.get_mut(key)?;
        waiting.retain(|idle| now.saturating_duration_since(idle.since) < IDLE_TIME);
        let at = waiting.iter().rposition(|idle| rules.check(idle.line.link.address.ip()).is_ok())?;
        let idle = waiting.remove(at);
        Some((idle.line, now.saturating_duration_since(idle.since)))
    }

    pub(super) fn put(&self, key: Key, line: Line) {
        let now = Instant::now();
        let mut idle = self.lock();
        // Origins without connections count too: nobody shall fill memory with names.
        let full =
            |idle: &HashMap<Key, Vec<Idle>>| idle.len().max(idle.values().map(Vec::len).sum::<usize>()) >= MAX_IDLE_ALL;
        if full(&idle) {
            idle.retain(|_, waiting| {
                waiting.retain(|idle| now.saturating_duration_since(idle.since) < IDLE_TIME);
                !waiting.is_empty()
            });
            if full(&idle) {
                return;
            }
        }
        let waiting = idle.entry(key).or_default();
        if waiting.len() >= MAX_IDLE {
            waiting.remove(0);
        }
        waiting.push(Idle { line, since: now });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Idle>>> {
        // Whoever panicked with the lock held left a list of connections, each of them whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

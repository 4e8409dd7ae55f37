//! What a request is at, how long that may take, and whether it is still wanted.
//!
//! Whoever waits looks at the clock every few milliseconds, and no more often: asking whether to stop may take files.

use std::cell::Cell;
use std::time::{Duration, Instant};

use lazaret_gate::Target;

use super::{EgressError, Limits};
use crate::limits::{GIVE_WAY, LOOK};

/// What a request is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Resolve,
    Connect,
    Tls,
    Head,
    Body,
    Total,
}

impl Phase {
    /// The error of a request that was at this for too long.
    pub(super) fn late(self, host: &str, limit: Duration) -> EgressError {
        let host = host.to_owned();
        match self {
            Self::Resolve => EgressError::ResolveTime { host, limit },
            Self::Connect => EgressError::ConnectTime { host, limit },
            Self::Tls => EgressError::TlsTime { host, limit },
            Self::Head => EgressError::HeadTime { host, limit },
            Self::Body => EgressError::StallTime { host, limit },
            Self::Total => EgressError::TotalTime { host, limit },
        }
    }
}

/// Why a request ended before its answer.
pub(super) enum Ended {
    Cut,
    Late(Phase, Duration),
}

impl Ended {
    /// What the caller gets.
    pub(super) fn told<T>(self, target: &Target) -> Option<Result<T, EgressError>> {
        match self {
            Self::Cut => None,
            Self::Late(phase, limit) => Some(Err(phase.late(target.host_text(), limit))),
        }
    }
}

pub(super) struct Clock<'a> {
    limits: &'a Limits,
    started: Instant,
    looked: Cell<Instant>,
    phase: Cell<Phase>,
    since: Cell<Instant>,
    /// How often it still gives way to others.
    ways: Cell<usize>,
}

impl<'a> Clock<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        let started = Instant::now();
        Self {
            limits,
            started,
            looked: Cell::new(started),
            phase: Cell::new(Phase::Total),
            since: Cell::new(started),
            ways: Cell::new(0),
        }
    }

    /// For a request that is one of many: see [`Clock::gives_way`].
    pub(super) fn among_many(self) -> Self {
        self.ways.set(GIVE_WAY);
        self
    }

    /// Lets others have the processor instead of waiting, if it is to do that; then it may look whether its answer is there.
    /// When many threads wait for answers, it mostly is: none of them had to be put to sleep and woken for it.
    pub(super) fn gives_way(&self) -> bool {
        let Some(left) = self.ways.get().checked_sub(1) else { return false };
        self.ways.set(left);
        std::thread::yield_now();
        true
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// The next phase, or another step of the same one: its time starts now.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(Instant::now());
    }

    /// Whether the request is to end without its answer. It is really looked every few milliseconds only.
    pub(super) fn look(&self, cut: &mut dyn FnMut() -> bool) -> Option<Ended> {
        let now = Instant::now();
        if now.saturating_duration_since(self.looked.get()) < LOOK {
            return None;
        }
        self.looked.set(now);
        if cut() {
            return Some(Ended::Cut);
        }
        self.late(now).map(|(phase, limit)| Ended::Late(phase, limit))
    }

    /// Returns when the request is to end without its answer: for what waits on a runtime.
    pub(super) async fn watch(&self, cut: &mut dyn FnMut() -> bool) -> Ended {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Some(ended) = self.look(cut) {
                return ended;
            }
        }
    }

    fn late(&self, now: Instant) -> Option<(Phase, Duration)> {
        let phase = self.phase.get();
        let limit = match phase {
            Phase::Resolve => self.limits.resolve,
            Phase::Connect => self.limits.connect,
            Phase::Tls => self.limits.tls,
            Phase::Head => self.limits.head,
            Phase::Body => self.limits.stall,
            Phase::Total => self.limits.total,
        };
        let over = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if over(self.started, self.limits.total) {
            return Some((Phase::Total, self.limits.total));
        }
        over(self.since.get(), limit).then_some((phase, limit))
    }
}

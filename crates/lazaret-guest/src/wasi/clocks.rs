//! Time, as far as the guest was told of it.

use lazaret_gate::{Answer, Effect, Exact};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::io::Pollable;
use super::{Asking, Interface, Kind};
use crate::imports::WrongAnswer;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The finest step that the clocks' answers can express.
const RESOLUTION: u64 = 1;

/// What the turn knows of monotonic time.
#[derive(Clone, Copy, Default)]
pub(super) struct Clock {
    /// It is at least this late.
    latest: u64,
    /// Whether nothing that takes time has happened since.
    fresh: bool,
}

impl Clock {
    /// Whether it is known to be this late.
    pub(super) fn has_reached(&self, instant: u64) -> bool {
        self.latest >= instant
    }

    /// Something took time: the next wait has to look at the clock first.
    pub(super) fn pass(&mut self) {
        self.fresh = false;
    }
}

#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(record)]
pub(super) struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

impl Datetime {
    fn of(nanos: u64) -> Self {
        Self { seconds: nanos / NANOS_PER_SECOND, nanoseconds: (nanos % NANOS_PER_SECOND) as u32 }
    }
}

/// Reads the monotonic clock, which never goes back, whatever the tape says.
pub(super) fn read(host: &mut Asking<'_>) -> wasmtime::Result<u64> {
    let Answer::Time(Exact(now)) = host.need(Effect::ClockMonotonic {})? else {
        return Err(WrongAnswer.into());
    };
    let clock = &mut host.wasi().clock;
    clock.latest = clock.latest.max(now);
    clock.fresh = true;
    Ok(clock.latest)
}

/// Waits until it is this late.
pub(super) fn sleep_until(host: &mut Asking<'_>, instant: u64) -> wasmtime::Result<()> {
    let Clock { latest, fresh } = host.wasi().clock;
    let now = if fresh { latest } else { read(host)? };
    if now < instant {
        let Answer::Nothing = host.need(Effect::ClockSleep { nanos: Exact(instant - now) })? else {
            return Err(WrongAnswer.into());
        };
        host.wasi().clock.latest = instant;
    }
    Ok(())
}

pub(super) fn monotonic(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    let asks = Kind::Asks("clock.monotonic");
    interface.asking("now", asks, |host, (): ()| Ok((read(host)?,)))?;
    interface.local("resolution", |_, (): ()| Ok((RESOLUTION,)))?;
    interface
        .local("subscribe-instant", |host, (instant,): (u64,)| Ok((host.table().push(Pollable::At(instant))?,)))?;
    interface.asking("subscribe-duration", asks, |host, (duration,): (u64,)| {
        let instant = read(host)?.saturating_add(duration);
        Ok((host.table().push(Pollable::At(instant))?,))
    })
}

pub(super) fn wall(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.asking("now", Kind::Asks("clock.now"), |host, (): ()| match host.need(Effect::ClockNow {})? {
        Answer::Time(Exact(nanos)) => Ok((Datetime::of(nanos),)),
        _ => Err(WrongAnswer.into()),
    })?;
    interface.local("resolution", |_, (): ()| Ok((Datetime::of(RESOLUTION),)))
}

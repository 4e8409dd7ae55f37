//! Caps on what the host keeps at hand.

use std::time::Duration;

/// Heaps of sleeping agents that stay mapped for their next turn, in bytes. Beyond this, the ones not used for longest
/// are let go and wake from disk.
pub(crate) const WARM_BYTES: usize = 512 << 20;

/// So much more is let go at once: to find the longest unused ones all agents are looked at, and that must not happen at the
/// end of every turn.
pub(crate) const LET_GO_BYTES: usize = WARM_BYTES / 8;

/// Programs that stay compiled in memory.
pub(crate) const WARM_PROGRAMS: usize = 64;

/// Turns taken to deliver agents' messages to each other before control returns to the caller.
pub(crate) const DELIVERIES: usize = 100;

/// Bytes of who did something to an agent, and of why: both stay in the journal for ever.
pub(crate) const MAX_WORD: usize = 4096;

/// Turns in one bundle.
pub(crate) const MAX_BUNDLE_TURNS: usize = 100_000;

/// The shortest run of turns that is replayed by itself: waking a small agent for it should cost little beside it.
pub(crate) const REPLAY_RUN: usize = 256;

/// Agents in memory for one replay, in bytes; each thread has one.
pub(crate) const REPLAY_BYTES: usize = 512 << 20;

/// Turns that are read at once to be replayed.
pub(crate) const READ_TURNS: usize = 64;

/// Bytes of their entries; the entry that goes beyond is the last.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// Times that a thread can tell what it has done before somebody hears of it.
pub(crate) const HEARD_LATER: usize = 64;

/// Schedules in a data root: all are in memory while a keeper runs.
pub(crate) const MAX_SCHEDULES_IN_ALL: usize = 10_000;

/// Bytes of a schedule's message. It stays in the journal for ever.
pub(crate) const MAX_SCHEDULE_MESSAGE: usize = 64 << 10;

/// Bytes of a cron expression.
pub(crate) const MAX_CRON: usize = 256;

/// The shortest interval of a schedule: more often would fill the journal with little else.
pub(crate) const SHORTEST_INTERVAL_MS: u64 = 1_000;

/// The longest: 366 days.
pub(crate) const LONGEST_INTERVAL_MS: u64 = 366 * 86_400_000;

/// A due time that is older was missed.
pub(crate) const LATE_MS: u64 = 60_000;

/// Missed due times that are made up for at once.
pub(crate) const MADE_UP: usize = 24;

/// Missed due times that are counted; beyond it was "at least so many".
pub(crate) const COUNTED_MISSED: u64 = 1_000;

/// A schedule that could not fire, or whose agent may not run, is looked at again so much later.
pub(crate) const SCHEDULE_RETRY_MS: u64 = 5_000;

/// The stack of a thread that takes turns: guest code may use 512 KiB of it (the engine's own limit), and the host's frames
/// lie above and below. Untouched, it is only addresses.
pub(crate) const TURN_STACK: usize = 2 << 20;

/// Turns that compute at once, for each processor. More than one: some wait for a lock or a page, and a few clients of a small
/// machine need not wait for each other.
pub(crate) const SEATS_PER_PROCESSOR: usize = 4;

/// And on a machine with one or two.
pub(crate) const LEAST_SEATS: usize = 8;

/// Who has computed for so long gives way if others wait. Guests are asked about every 10 ms.
pub(crate) const SEAT_FOR: Duration = Duration::from_millis(8);

/// Turns that begin or come back, before one that gave way has its next stretch.
pub(crate) const FRESH_IN_A_ROW: usize = 4;

/// Who waits for an agent that pauses for longer is told so, and waits no more: its message is kept.
pub(crate) const LONG_PAUSE_MS: u64 = 5_000;

/// A thread that had nothing to do for so long ends.
pub(crate) const IDLE_THREAD_MS: u64 = 10_000;

/// While everything is stopped, it is looked so often whether it goes on.
pub(crate) const HELD_LOOK_MS: u64 = 250;

/// How often somebody looks whether a revoked agent was restored: nobody waits for it more urgently than a person does.
pub(crate) const CLOSED_LOOK_MS: u64 = 500;

/// Whoever stops agents waits so long for what they are in the middle of. What takes its time looks every few milliseconds
/// whether it was stopped; a disk may be slower than that.
pub(crate) const SETTLE_MS: u64 = 10_000;

/// The wall clock may be set: it is looked at again after this, however far off the next schedule is.
pub(crate) const CLOCK_LOOK_MS: u64 = 60_000;

/// Schedules that are taken up at once: what each has missed is counted meanwhile, and whoever sends a message waits.
pub(crate) const DUE_AT_ONCE: usize = 16;

/// The clock looks more often than this, or it stands and somebody should start the keeper anew.
pub(crate) const CLOCK_STANDS_MS: u64 = 300_000;

/// If it fails, it tries again after this: what made it fail may last.
pub(crate) const CLOCK_AGAIN: Duration = Duration::from_secs(1);

/// How often an agent's row is read again if others change it at that very moment.
pub(crate) const ROW_LOOKS: usize = 4;

/// Changed pages up to which a turn's memory is tidied up while the disk works: that takes less time than the disk does, so
/// nobody whose turn is in the same commit waits for it.
pub(crate) const TIDIED_MEANWHILE: usize = 64;

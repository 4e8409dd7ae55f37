//! Caps on what the host keeps at hand.

/// Heaps of sleeping agents that stay mapped for their next turn, in bytes. Beyond this, the ones not used for longest
/// are let go and wake from disk.
pub(crate) const WARM_BYTES: usize = 512 << 20;

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

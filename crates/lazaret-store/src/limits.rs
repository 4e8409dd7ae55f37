//! The largest things the store keeps, each with its reason.

/// Messages that may wait for one agent. A sender that outruns its receiver is told so, instead of filling the disk.
pub const MAX_MAILBOX: u64 = 1_000;

/// Batches in one transaction. More would make the first of them wait for no further gain.
pub const MAX_GROUP: usize = 256;

/// One blob. Components are the largest; an image is pages.
pub const MAX_BLOB: usize = 256 << 20;

/// Below this, compression costs more than it saves.
pub(crate) const MIN_PACKED: usize = 64;

/// LZ4 can't expand further than this, so a larger promise is a lie and not a reason to allocate.
pub(crate) const MAX_EXPANSION: usize = 255;

/// Connections kept open for reading. More threads than this may read; the others open one and close it again.
pub(crate) const IDLE_READERS: usize = 4;

/// Frames in the write-ahead log after which it is carried over into the database: 4 MiB of pages.
pub(crate) const CARRY_OVER: u32 = 1_000;

/// The log's file grows by this many bytes at once, ahead of need: a flush that doesn't move the end of a file is
/// several times faster than one that does.
pub(crate) const LOG_STEP: u64 = 1 << 20;

/// Commits of one process before it grows the log's file ahead: a single command isn't worth it.
pub(crate) const LOG_STEP_AFTER: u64 = 4;

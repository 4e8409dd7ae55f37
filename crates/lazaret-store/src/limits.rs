//! The largest things the store keeps, each with its reason.

use std::time::Duration;

/// Messages that may wait for one agent. A sender that outruns its receiver is told so, instead of filling the disk.
pub const MAX_MAILBOX: u64 = 1_000;

/// Bytes of the messages that may wait for one agent: sixteen of the largest.
pub const MAX_MAILBOX_BYTES: u64 = 64 << 20;

/// Schedules of one agent. Each is a line of its row, which every turn writes.
pub const MAX_SCHEDULES: usize = 32;

/// Bytes of messages that are kept at hand so that a turn need not wait for the tables.
pub(crate) const MAX_RECENT_MAIL: usize = 16 << 20;

/// Batches in one transaction. More would make the first of them wait for no further gain.
pub const MAX_GROUP: usize = 256;

/// As many batches that wait when a group is written make a crowd, for which the clerk is called. One alone writes itself.
pub(crate) const CROWD: usize = 2;

/// How long the clerk waits, where the disk is quick, until half of those who commit are in line. A flush takes a tenth of a
/// millisecond of processors there, whatever it carries; a crowd is sooner in line than this, and one that has left makes those who
/// stay wait so long for some commits more, until it is forgotten.
pub(crate) const GATHER: Duration = Duration::from_micros(200);

/// Commits that are flushed at a time.
pub(crate) const FLIGHTS: usize = 2;

/// If the disk takes this long for a flush, another commit may be flushed meanwhile: with flushes of a millisecond, eight who
/// commit then make half as many more. Where a flush takes a tenth of that, a seventh fewer.
pub(crate) const SLOW_FLUSH: Duration = Duration::from_micros(400);

/// One blob. Components are the largest; an image is pages.
pub const MAX_BLOB: usize = 256 << 20;

/// Below this, compression costs more than it saves: of a turn, that are its image, the names of its pages and how it was
/// judged. They would get smaller by a twentieth of what a small agent's turn flushes, in a third of the time that its pages take.
pub(crate) const MIN_PACKED: usize = 1024;

/// What a thread keeps to compress into: more than a page, less than a component.
pub(crate) const KEPT_ROOM: usize = 64 << 10;

/// LZ4 can't expand further than this, so a larger promise is a lie and not a reason to allocate.
pub(crate) const MAX_EXPANSION: usize = 255;

/// Connections kept open for reading. More threads than this may read; the others open one and close it again.
pub(crate) const IDLE_READERS: usize = 4;

/// Bytes in SQLite's write-ahead log after which it is carried over into the database. What is written again and again is
/// carried over once. Meanwhile the disk has much to do: with twice this, a busy keeper's redo log ran full.
pub(crate) const CARRY_OVER: u64 = 128 << 20;

/// So much of the redo log can at most be on disk and not yet safe in the database, but for a single commit that is larger.
/// Making it safe flushes all that the tables were given since, and whoever commits meanwhile waits for the disk: with a
/// fifth of this, a busy keeper did so every tenth of a second.
pub(crate) const LOG_RING: u64 = 64 << 20;

/// From here on the redo log goes back to its beginning as soon as there is room. Who reads beside a keeper reads it whole,
/// and only a busy one needs more.
pub(crate) const LOG_LAP: u64 = 8 << 20;

/// When more than this is not safe, that is done with the next transaction, whoever asks: another one, a little later, would lay
/// down a few commits and have the disk to itself for them.
pub(crate) const LOG_SAFE_SOON: u64 = LOG_RING / 4;

/// When more than this is not safe, that is asked for, but of a busy keeper not more often than [`SAFE_EVERY`].
pub(crate) const LOG_SAFE: u64 = 4 << 20;
pub(crate) const SAFE_EVERY: Duration = Duration::from_secs(1);

/// The largest commit. The log is read whole when a data root is opened, so this is also the most that an opener reads.
pub(crate) const MAX_COMMIT: usize = 1 << 30;

/// The redo log grows by this many bytes at once, ahead of need: a flush that doesn't move the end of a file is several
/// times faster than one that does.
pub(crate) const LOG_STEP: u64 = 1 << 20;

/// Commits of one process before it grows the redo log ahead: a single command isn't worth it.
pub(crate) const LOG_STEP_AFTER: u64 = 4;

/// Commits that wait to be laid into the tables. When there are more, committers wait: who reads has to wait for all of
/// them.
pub(crate) const MAX_PENDING: usize = 4_096;

/// Commits that are laid into the tables in one transaction.
pub(crate) const MAX_APPLIED: usize = 2_048;

/// How long commits may be left waiting so that more of them share a transaction. Nobody waits for them meanwhile: who
/// does cuts it short.
pub(crate) const LINGER: Duration = Duration::from_millis(100);

/// If as many commits have come by then, they are left waiting for [`LINGER_ON`] more. Names of blobs are random: a
/// transaction of many turns writes most of their index anew, and twice as large a one doesn't write twice as much.
pub(crate) const BUSY: usize = 128;
pub(crate) const LINGER_ON: Duration = Duration::from_millis(300);

/// As many commits are worth a transaction at once.
pub(crate) const LINGER_UP_TO: usize = 2_048;

/// After the tables could not be written, the next attempt comes this much later, or when somebody waits for it.
pub(crate) const RETRY: Duration = Duration::from_millis(200);

/// How often the tables are tried before whoever waits for them is told that they can't be written. So often, too, when
/// the store is closed; the redo log keeps what could not be done.
pub(crate) const ATTEMPTS: u64 = 3;

/// Who opens a data root to read beside one who writes waits so often, so long, for the tables to hold what was
/// acknowledged before: two seconds, some times what it takes beside a busy keeper.
pub(crate) const CATCH_UP_LOOKS: u32 = 400;
pub(crate) const CATCH_UP_PAUSE: Duration = Duration::from_millis(5);

/// Bytes of values that are kept at hand after their commits are in the tables.
pub(crate) const MAX_RECENT_BYTES: usize = 4 << 20;

/// Agents whose rows are kept at hand after their commits are in the tables.
pub(crate) const MAX_RECENT_ROWS: usize = 4_096;

/// Who opens a data root to write looks so often, so far apart, whether one who reads it has brought a cut-off process's
/// commits into the tables: ten seconds, for a log that is as large as it gets.
pub(crate) const LOCK_LOOKS: u32 = 2_000;
pub(crate) const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The whole sealed vault. It is read and written whole, so this is also what opening one may cost.
pub const MAX_VAULT: usize = 64 << 20;

/// The plain line at the head of a vault: a key file's path is all in it that a person chooses.
pub(crate) const MAX_VAULT_HEADER: usize = 8 << 10;

/// Secrets in a vault. Each change writes all of them.
pub const MAX_SECRETS: usize = 16_384;

/// Bindings in a vault, for the same reason.
pub const MAX_BINDINGS: usize = 16_384;

/// One value. Larger than any key or token; a certificate chain fits too.
pub const MAX_SECRET: usize = 64 << 10;

/// The shortest value. What comes back from a host is searched for every value, and a shorter one would be found where it
/// isn't meant.
pub const MIN_SECRET: usize = 8;

/// A value is sealed with padding up to a power of two, and not less than this: a vault doesn't say how long it is.
pub(crate) const MIN_PADDED: usize = 32;

/// Letters of a secret's, slot's, app's or device's name.
pub const MAX_NAME: usize = 64;

/// Hosts, methods or paths of one binding. A longer list is a sign that it should be several.
pub const MAX_BOUND: usize = 32;

/// Letters of a path prefix.
pub const MAX_BOUND_PATH: usize = 512;

/// Letters of a header's or parameter's name, of a header's prefix, and of a user's name.
pub const MAX_FORM_TEXT: usize = 128;

/// Letters of a passphrase. Fewer are found by trying; a list of words that is this short has little in it.
pub const MIN_PASSPHRASE: usize = 12;

/// Bytes of a passphrase.
pub const MAX_PASSPHRASE: usize = 1_024;

/// What deriving a key from a passphrase must at least cost: 19 MiB and two passes, below which trying is cheap.
pub const MIN_KDF_MEMORY: u32 = 19 << 10;
/// Passes over that memory.
pub const MIN_KDF_PASSES: u32 = 2;

/// What it may at most cost, in KiB: the figure is read from a file before anything proves that file.
pub const MAX_KDF_MEMORY: u32 = 1 << 20;
/// Passes over that memory, at most.
pub const MAX_KDF_PASSES: u32 = 64;
/// Lanes of that memory, at most.
pub const MAX_KDF_LANES: u32 = 16;

//! What a client of the HTTP interface can take of a keeper, each cap with its reason.

use std::time::Duration;

/// Where it listens unless told otherwise.
pub(crate) const PORT: u16 = 7419;

/// Connections at once. A console has a handful, an event stream one each.
pub(crate) const CONNECTIONS: usize = 256;

/// Headers of a request. Ours has six; a browser's has twenty.
pub(crate) const HEADERS: usize = 64;

/// Bytes of a request's line and headers together.
pub(crate) const HEAD_BYTES: usize = 16 << 10;

/// How long a request's head may take, and how long a connection may say nothing between two.
pub(crate) const HEAD: Duration = Duration::from_secs(15);

/// How long a body may take from its first byte to its last.
pub(crate) const BODY: Duration = Duration::from_secs(15);

/// How long a client may take none of its answer.
pub(crate) const STALL: Duration = Duration::from_secs(20);

/// How long a request may take. A turn that takes longer goes on, and is read when it is on record.
pub(crate) const ANSWER: Duration = Duration::from_secs(120);

/// Bytes of an ordinary body: a set of rules is the largest.
pub(crate) const SMALL: usize = 2 << 20;

/// Bytes of a body with a message: 4 MiB in base64, and room for the rest.
pub(crate) const MESSAGE: usize = 6 << 20;

/// Bytes of a body with a component: 40 MiB in base64, and room for the rest.
pub(crate) const COMPONENT: usize = 56 << 20;

/// Bodies larger than an ordinary one that are in memory at once.
pub(crate) const LARGE_AT_ONCE: usize = 8;

/// Reads of the data root at once: each has a thread.
pub(crate) const READS: usize = 16;

/// Of those that go through the whole journal: verification, backtests.
pub(crate) const LONG_READS: usize = 2;

/// Event streams at once.
pub(crate) const STREAMS: usize = 32;

/// Entries that a stream reads at once.
pub(crate) const STREAM_ENTRIES: u64 = 64;

/// Bytes of events after which a stream writes before it reads on.
pub(crate) const STREAM_BYTES: usize = 256 << 10;

/// After the journal has grown, a stream waits this long for more before it reads: what reads makes the tables catch up.
pub(crate) const GATHER: Duration = Duration::from_millis(25);

/// How often a stream that has nothing to say says so.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);

/// How often it is looked whether questions wait, while anybody streams.
pub(crate) const QUESTIONS: Duration = Duration::from_millis(250);

/// Live events that a stream may be behind before it misses some. Those on record it never misses.
pub(crate) const LIVE: usize = 256;

/// Items on one page.
pub(crate) const PAGE: u64 = 1_000;

/// How long connections may take to end when the keeper does.
pub(crate) const CLOSE: Duration = Duration::from_millis(500);

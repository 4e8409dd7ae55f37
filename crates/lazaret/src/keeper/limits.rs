//! What strangers and clients can take of a keeper, each cap with its reason.

use std::time::Duration;

/// Connections at once. A command has one, for as long as it runs.
pub(crate) const CONNECTIONS: usize = 256;

/// Turns that are asked for at once, and readings of many. Each may hold a thread for as long as a guest or a person thinks.
pub(crate) const TURNS: usize = 256;

/// The same for what waits for nobody: looks, messages that are left, schedules.
pub(crate) const SHORT: usize = 64;

/// The same for what operators do with agents: each may have to wait until the agent's turn is over.
pub(crate) const ORDERS: usize = 64;

/// The same for what must not wait in any line: stops, switches, status.
pub(crate) const URGENT: usize = 32;

/// How long a request waits for room among those that are being answered, before it is told that there is none.
pub(crate) const STAND: Duration = Duration::from_secs(30);

/// Threads for those who only read: the HTTP interface and its streams.
pub(crate) const READING: usize = 32;

/// All of them. Each connection may have one thread that reads and one that writes; what waits for room has none.
pub(crate) const THREADS: usize = 2 * CONNECTIONS + TURNS + SHORT + ORDERS + URGENT + READING;

/// Answers that one connection may wait for; after that, nothing more is read from it.
pub(crate) const IN_FLIGHT: usize = 32;

/// How long a connection may say nothing while nothing is answered.
pub(crate) const IDLE: Duration = Duration::from_secs(300);

/// The same before it has shown the token.
pub(crate) const STRANGER_IDLE: Duration = Duration::from_secs(10);

/// How long a connection may stay without showing it. Who only asks for health can connect again.
pub(crate) const STRANGER_STAY: Duration = Duration::from_secs(60);

/// How long a line may take from its first byte to its last.
pub(crate) const LINE: Duration = Duration::from_secs(30);

/// The same before the token was shown: such lines are short.
pub(crate) const STRANGER_LINE: Duration = Duration::from_secs(5);

/// How long a client may take none of its answer.
pub(crate) const WRITE: Duration = Duration::from_secs(10);

/// Bytes that are read or written at once.
pub(crate) const CHUNK: usize = 64 << 10;

/// How long what is under way may take to end, unless somebody says otherwise.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// How long a keeper that starts waits for a command that has the data root open.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Connections of which it is told at once that something has come.
pub(crate) const EVENTS: usize = 64;

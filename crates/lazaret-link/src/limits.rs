//! The largest things that are read from a connection, each with its reason.

/// A line before its sender has shown the token: room for a hello and for every plain-text command.
pub const MAX_STRANGER_LINE: usize = 4 << 10;

/// A line after that. The largest thing that is asked for is a component, 40 MiB, in base64.
pub const MAX_LINE: usize = 64 << 20;

/// An answer. The largest is a bundle; one that is larger still is exported while no keeper runs.
pub const MAX_ANSWER: usize = 512 << 20;

/// Brackets within brackets. The deepest request that means anything has fewer than ten.
pub const MAX_DEPTH: usize = 32;

/// Versions that a hello may offer.
pub const MAX_VERSIONS: usize = 16;

/// Calls in a second, and at once, before the token was shown.
pub const STRANGER_RATE: u64 = 100;

/// The same after that: far above what a keeper can do, so that only a loop gone wild meets it.
pub const RATE: u64 = 20_000;

/// Turns, questions or agents that one request may name.
pub const MAX_NAMED: usize = 1_000;

/// Characters of a text that a person gave as a reason or note.
pub const MAX_NOTE: usize = 4 << 10;

/// Agents in trouble that a status names; of the others it says how many.
pub const MAX_TROUBLES: usize = 16;

/// Bytes of a token, at least and at most. What we make has 64.
pub const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

/// Bytes of a socket's address that every system has room for.
pub const MAX_ADDRESS: usize = 100;

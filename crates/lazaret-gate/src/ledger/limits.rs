//! The largest things that the accounts will hold, each with its reason.

use crate::limits::MAX_EXACT;

/// Any amount, cap or sum: what canonical JSON carries exactly. Of money that is nine billion of a currency's units.
pub const MAX_AMOUNT: u64 = MAX_EXACT;

/// Reservations open at once in one account. An agent has one; an app has one for each agent in a turn.
pub const MAX_OPEN: usize = 10_000;

/// Turns, and runs, that an account keeps apart at once. They end when the host says so, or when they are stale.
pub const MAX_CELLS: usize = 10_000;

/// A turn that was last heard of so many days ago is over: none lasts longer than one day of wall time.
pub const TURN_DAYS: u32 = 2;

/// A run that was last heard of so many days ago is over. Longer than people wait for one another.
pub const RUN_DAYS: u32 = 90;

/// The name of a rail, or of an app.
pub const MAX_NAME: usize = 64;

/// Rails in one set of caps.
pub const MAX_RAILS: usize = 64;

/// Hosts that have caps of their own in one set.
pub const MAX_HOSTS: usize = 64;

/// Whom money goes to: an account number or an address, not a letter.
pub const MAX_PAYEE: usize = 256;

/// A price table, as text.
pub const MAX_PRICES: usize = 1 << 20;

/// What a million tokens can cost: a million of the currency's units. More is a slip of the pen.
pub const MAX_PRICE: u64 = 1_000_000_000_000;

/// Tokens that a provider's own marks around each thing said can add to a prompt.
pub const TOKENS_PER_UTTERANCE: u64 = 16;

/// Tokens that a provider can add to a prompt once.
pub const TOKENS_PER_PROMPT: u64 = 64;

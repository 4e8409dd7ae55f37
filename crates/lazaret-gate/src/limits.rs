//! The largest things this crate will look at, each with its reason.

/// An agent's name. Long enough to describe, short enough for a line of output.
pub const MAX_AGENT_ID: usize = 64;

/// A storage key. Keys are paths, not payloads.
pub const MAX_KEY: usize = 1024;

/// One value that crosses between a guest and the host: a storage value, a request or response body, a message.
/// Every such value ends up whole in a turn record, so this also bounds what a record can hold.
pub const MAX_VALUE: usize = 1 << 20;

/// A text that crosses: a log line, a tool's arguments, a URL.
pub const MAX_TEXT: usize = 64 << 10;

/// A URL that is carried: more than servers take, and little enough to show whole.
pub const MAX_URL: usize = 8 << 10;

/// A host name, as DNS can carry it (RFC 1035).
pub const MAX_HOST: usize = 253;

/// One part of a host name between dots, as DNS can carry it (RFC 1035).
pub const MAX_LABEL: usize = 63;

/// Items in a list that crosses: headers, utterances, keys in one listing.
pub const MAX_ITEMS: usize = 1024;

/// The name of a slot that a secret fills: a word, as an operator types it.
pub const MAX_SLOT: usize = 64;

/// Slots that one agent may declare. They are part of its row, which is written at every turn.
pub const MAX_DECLARED_SLOTS: usize = 16;

/// Hosts that one slot may be declared for. More is no service that has one credential.
pub const MAX_DECLARED_HOSTS: usize = 8;

/// What a declared slot is for, in bytes: a line that an operator reads before binding it.
pub const MAX_PURPOSE: usize = 200;

/// A manifest, in bytes: room for all slots that may be declared, and for comments.
pub const MAX_MANIFEST: usize = 64 << 10;

/// Different slots that one request may use. Each is an ask of its own; ordinary requests have one or two.
pub const MAX_HANDLES: usize = 8;

/// Random bytes in one ask: enough for keys, too little to fill a tape with noise.
pub const MAX_RANDOM: u32 = 4096;

/// A turn's input. Larger things belong in storage, in pieces.
pub const MAX_INPUT: usize = 4 << 20;

/// A turn's output.
pub const MAX_OUTPUT: usize = 4 << 20;

/// Wall time an operator can give a turn: one day. A turn is one call, not a service.
pub const MAX_WALL_MS: u64 = 86_400_000;

/// The largest whole number that canonical JSON can carry (RFC 8785 numbers are IEEE doubles).
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// A journal entry, encoded: a turn with the largest input, output and byte budget in base64, and room for its frame.
pub const MAX_ENTRY: usize = 128 << 20;

/// A bundle. It is read whole into memory.
pub const MAX_BUNDLE: usize = 1 << 30;

/// Depth of a Merkle proof: a journal of 2^63 entries.
pub const MAX_PROOF: usize = 64;

//! What the world may send back, and how long it may take.

use std::time::Duration;

/// A response's body. What a guest could not hold is not read further.
pub const MAX_RESPONSE: u64 = lazaret_gate::limits::MAX_VALUE as u64;

/// A response's headers, each and all together.
pub const MAX_RESPONSE_HEADERS: usize = 64 << 10;

/// From the first byte dialled to the last byte read.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(30);

/// How often something that takes its time looks whether it was stopped.
pub const LOOK: Duration = Duration::from_millis(5);

/// A draft that the fixture mailbox keeps.
pub const MAX_DRAFT: usize = 64 << 10;

/// The longest single wait that an agent may ask for; its turn's wall time bounds the sum.
pub const MAX_SLEEP: Duration = Duration::from_secs(10);

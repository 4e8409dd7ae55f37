//! What the world may send back, and how long it may take.

use std::time::Duration;

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

/// To look a name up, all servers and tries together.
pub const RESOLVE_TIME: Duration = Duration::from_secs(5);

/// To connect to one of a name's addresses, all tries together.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);

/// To agree on keys: a few round trips and a few certificates.
pub const TLS_TIME: Duration = Duration::from_secs(10);

/// Until a response's head is there whole. A server that thinks for long, as models do, needs most of the whole time.
pub const HEAD_TIME: Duration = Duration::from_secs(25);

/// Between two pieces of a body: who sends nothing for so long has gone, or is wasting time on purpose.
pub const STALL_TIME: Duration = Duration::from_secs(10);

/// Addresses of one name that are tried before it is given up. All of them are checked.
pub const MAX_DIALS: usize = 4;

/// A request's headers: more than any interface asks for.
pub const MAX_ASK_HEADERS: usize = 128;

/// A request's headers, names and values together: what common servers take at most is 8 to 64 KiB.
pub const MAX_ASK_HEAD: usize = 64 << 10;

/// A response's headers: several times what servers send.
pub const MAX_REPLY_HEADERS: usize = 96;

/// How many times larger than what was sent an unpacked body may be. Text seldom reaches 20; bombs have 1,000 and more.
pub const MAX_RATIO: usize = 100;

/// Below this an unpacked body may be as well packed as it likes: small things of one letter pack better than any bomb.
pub const RATIO_FROM: usize = 1 << 20;

/// Open connections that wait for the next request, to one origin.
pub const MAX_IDLE: usize = 64;

/// Open connections that wait for the next request, in all: descriptors are shared with everything else.
pub const MAX_IDLE_ALL: usize = 256;

/// How long a connection may wait for the next request: below what common servers keep.
pub const IDLE_TIME: Duration = Duration::from_secs(4);

/// A connection that waited for longer is looked at before it is used: in less, hardly any server changes its mind.
pub const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A piece of a request's body as it is handed to the connection, so that progress can be seen.
pub const PIECE: usize = 64 << 10;

/// What is read from a connection at a time: one record of TLS, and somewhat more.
pub const READ: usize = 17 << 10;

/// From so many requests under way at once, whoever waits for an answer gives way to the others before it sleeps. Below that
/// there is nobody to give way to.
pub const CROWD: usize = 4;

/// How often it gives way. To be put to sleep and woken costs the system more than a few of these; if the answer takes longer
/// than others have to do, sleep is right.
pub const GIVE_WAY: usize = 4;

//! The way out, against real servers on 127.0.0.1.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test listens on sockets, reads the clock, and says what is wrong by failing"
)]

mod framing;
mod http2;
mod leave;
mod limits;
mod request;
mod support;

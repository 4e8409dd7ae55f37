//! The keeper as its users meet it: a real process on a real socket, started, asked, flooded, stopped and killed.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

#[allow(dead_code, reason = "shared by several tests")]
#[path = "support/station.rs"]
mod station;

mod keeper {
    mod asked;
    mod crash;
    mod crowded;
    mod deaf;
    mod flood;
    mod full;
    mod life;
    pub(crate) mod scene;
    mod service;
}

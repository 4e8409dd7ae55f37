//! The HTTP interface of a real keeper, as its clients see it: who is let in, what is answered, what is streamed, counted and
//! traced. The run of `schemathesis` over every route is `tests/api/run`.

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

mod http {
    mod door;
    mod doubt;
    mod events;
    mod figures;
    mod orders;
    mod routes;
    pub(crate) mod scene;
    mod schedules;
    mod traces;
    mod trust;
}

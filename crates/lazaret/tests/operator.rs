//! What an operator does to agents at work, with real processes: one runs the agent, others stop it, answer it, or are
//! killed in the middle.

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

mod operator {
    mod approvals;
    mod budgets;
    mod kill;
    pub(crate) mod scene;
    mod trust;
}

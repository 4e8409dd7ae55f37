//! ACTS. Executors: each accepts a permit and nothing else, and gives back an answer or the reason of a failure.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is where effects happen: files, sockets, clocks and randomness are its job"
)]

pub mod fixtures;
pub mod http;
pub mod limits;
pub mod model;
pub mod outside;
pub mod recorded;
pub mod tools;

pub use outside::Outside;
pub use recorded::{Recorded, Then};

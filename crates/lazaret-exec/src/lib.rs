//! ACTS. Executors: each accepts a permit and nothing else, and gives back an answer or the reason of a failure.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is where effects happen: files, sockets, clocks and randomness are its job"
)]

pub mod broker;
pub mod egress;
pub mod fixtures;
pub mod limits;
pub mod model;
pub mod outside;
pub mod recorded;
pub mod tools;
pub mod web;

pub use broker::Broker;
pub use egress::Egress;
pub use outside::Outside;
pub use recorded::{Recorded, Then};
pub use web::Web;

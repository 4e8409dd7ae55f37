//! KEEPS. The wiring: agents take turns, turns become records, records are replayed and handed to strangers.

#![forbid(unsafe_code)]

mod agents;
mod bundles;
mod error;
mod host;
mod limits;
mod live;
mod order;
mod programs;
mod recover;
mod replay;
mod runs;
mod turns;

pub use agents::NewAgent;
pub use bundles::{BundleReport, Selection, verify as verify_bundle};
pub use error::HostError;
pub use host::Host;
pub use recover::Recovered;
pub use replay::{Replayer, Source, Verdict};
pub use turns::Turn;

//! KEEPS. The wiring: agents take turns, turns become records, records are replayed and handed to strangers.

#![forbid(unsafe_code)]

mod agents;
mod answer;
mod asking;
mod books;
mod bundles;
mod drill;
mod error;
mod fault;
mod files;
mod host;
pub mod life;
mod limits;
mod lineage;
mod live;
mod mail;
mod observe;
mod order;
mod past;
mod present;
mod programs;
mod promises;
mod quarantine;
mod recover;
mod replay;
mod revocations;
mod rules;
mod runs;
pub mod schedule;
mod schedules;
pub mod supervisor;
mod switchboard;
mod trust;
mod turns;
mod vouch;

pub use agents::NewAgent;
pub use answer::{Keeper, Surroundings};
pub use asking::{Approvals, Person, Unanswerable, now};
pub use bundles::{BundleReport, Selection, verify as verify_bundle};
pub use error::HostError;
pub use host::{Host, Settings, stop_spending};
pub use life::Life;
pub use observe::{Observed, Observer, Timing};
pub use past::{EffectId, PastAsk, answered, backtest, past, past_ask};
pub use quarantine::quarantine_of;
pub use recover::Recovered;
pub use replay::{Replayer, Source, Verdict};
pub use revocations::{InForce, change_trust, conduct_of, events_of, is_told};
pub use rules::read_rules;
pub use schedules::{Scheduled, schedules};
pub use supervisor::{Drained, Pace, Supervisor};
pub use switchboard::{set_switch, switches};
pub use turns::Turn;

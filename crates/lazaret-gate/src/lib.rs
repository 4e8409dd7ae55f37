//! DECIDES. Effects, the typed stages that turn one into a permit or a refusal, and the records of what was decided.
//!
//! This crate does no I/O, holds no clock and has no `unsafe`: everything it needs is handed to it. That is what lets
//! a stranger run the same decisions again, years later, on a bundle and nothing else.
//!
//! Start with [`mediate`]: it is the whole life of an effect in one function.

#![forbid(unsafe_code)]

pub mod address;
pub mod approval;
pub mod blob;
pub mod budget;
pub mod bundle;
pub mod canonical;
pub mod checkpoint;
pub mod custody;
pub mod effect;
pub mod entry;
pub mod grant;
pub mod halted;
pub mod id;
pub mod image;
pub mod labels;
pub mod leak;
pub mod ledger;
pub mod limits;
pub mod lineage;
pub mod mediate;
pub mod merkle;
pub mod outcome;
pub mod policy;
pub mod record;
pub mod refusal;
pub mod response;
pub mod risk;
pub mod rulebook;
pub mod ruling;
pub mod schedule;
pub mod secret;
pub mod shown;
pub mod slots;
pub mod stages;
pub mod target;
pub mod trust;

pub use blob::Blob;
pub use budget::{Budget, Meter};
pub use canonical::{Bytes, Digest, Exact};
pub use effect::Effect;
pub use grant::{Grant, Grants};
pub use id::AgentId;
pub use labels::Labels;
pub use mediate::{Caller, Circumstances, Executor, Halt, Journal, Undone, mediate};
pub use outcome::{Answer, Outcome};
pub use record::{Body, Ending, TapeEntry, TurnRecord};
pub use refusal::Refusal;
pub use rulebook::Rulebook;
pub use ruling::{Circumstance, Ruling, Rulings};
pub use slots::Slots;
pub use stages::Permit;
pub use target::Target;

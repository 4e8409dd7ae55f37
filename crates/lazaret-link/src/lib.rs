//! SPEAKS. What can be asked of a keeper, how it answers, and the client that asks.
//!
//! A connection carries lines. A line that begins with `{` is one call, `{"id":1,"ask":…}`, and is answered by one line with
//! the same id; any other is a plain-text command for scripts (`PING`, `STATUS TOKEN`). What a connection has said so far is a
//! [`Session`]: bytes in, answers and requests out. It has no socket and no clock, so it can be tried with anything.

#![forbid(unsafe_code)]

mod client;
mod fault;
mod frame;
mod hidden;
pub mod limits;
mod place;
mod plain;
mod reply;
mod request;
mod session;
mod token;
mod vault;

pub use client::{Client, LinkError};
pub use fault::Fault;
pub use frame::{BadFrame, Lines, check};
pub use hidden::Hidden;
pub use place::{Place, SOCKET, TOKEN, socket};
pub use reply::{AgentView, Checkpoint, Health, Recovered, Replayed, Reply, Status, Taken, Trouble, Verdict};
pub use request::{
    AgentRequest, BudgetRequest, JournalRequest, KillRequest, Line, NewAgent, Request, RunRequest, ScheduleRequest,
    TrustRequest, TurnsRequest,
};
pub use session::{Ask, Call, Hello, Said, Session, Step, Ticket};
pub use token::{BadToken, Token};
pub use vault::{
    Bound, BoundForm, KeySource, SecretAudit, SecretRequest, SecretView, SlotUses, SlotView, SlotWanted, VaultRequest,
    VaultView,
};

/// The versions of the language that are spoken here, best first.
pub const VERSIONS: &[u32] = &[1];

//! How far an agent is trusted: a score from recorded facts, an operator's word on top of it, and revocation.
//!
//! The score is a sum of named terms over counters ([`Conduct`]), and the counters are counted from the journal: whoever has
//! the journal gets the same score. Nothing here is a float, reads a clock or forgets. `docs/trust.md` is the same formula
//! for people; a test keeps the two alike.

mod conduct;
mod score;
mod standing;
mod start;

pub use conduct::{Conduct, TERMS, Term, Weight, score, terms};
pub use score::{BadScore, Score};
pub use standing::{MailboxClosed, Revocations, Revoked, RevokedAgent, TrustChange, TrustEvent};
pub use start::BadStart;
pub(crate) use start::parse as parse_start;

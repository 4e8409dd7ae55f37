//! A question to a person, and the one answer it gets.
//!
//! A [`Question`] is a record of one exact effect. A [`Decision`] is an approver's signature over that record, the scope
//! and what was shown. [`machine::step`] is the only place that says what may happen to a question; it has no clock and no
//! store of its own, so the same code answers in the keeper, in a property test and in a model checker.

mod decision;
pub mod limits;
pub mod machine;
mod pattern;
mod question;

pub use decision::{Approver, Approvers, BadDecision, Decision, Scope, Verdict, Verified};
pub use machine::{Attempt, Event, Refused, State, step};
pub use pattern::{BadPattern, Pattern};
pub use question::{BadQuestion, Draft, Moment, Now, Question, Requester};

//! What the operator wrote down, asked about one effect.
//!
//! Rules are Cedar, checked strictly against the shipped schema when they are loaded. What isn't permitted is denied, a
//! `forbid` wins over everything, and a rule that can't be evaluated denies. A permit with `@requireApproval("reason")`
//! makes the answer a question; when several permits match, **one** of them with that annotation is enough to ask: the
//! stricter rule wins, so adding a permit never silences a question. In the same way the smallest `@maxResponse("bytes")` of the
//! permits that match holds.
//!
//! Everything here is pure. Texts, facts and the time are handed in:
//!
//! - [`Policies::load`] reads files and says what is wrong with them, with the place;
//! - [`Request::of`] turns an effect and its circumstances into all that a decision may read;
//! - [`Policies::decide`] answers, [`Cached::decide`] answers the same faster, [`Policies::why`] explains;
//! - [`testing`], [`compare()`] and [`matrix()`] are for people who write rules.

mod cache;
mod compare;
mod context;
mod decide;
mod load;
mod matrix;
mod nearest;
mod preset;
mod reads;
mod request;
mod scan;
mod schema;
mod scope;
mod slice;
pub mod testing;
mod url;
mod why;

pub use cache::Cached;
pub use compare::{Comparing, Comparison, Example, Recorded, compare};
pub use context::{Context, RiskFacts};
pub use decide::{Decision, MaxResponse, Verdict};
pub use load::{Place, Policies, Problem};
pub use matrix::matrix;
pub use preset::{PRESETS, preset};
pub use request::{BadRequest, Facts, Request, Who};
pub use schema::{ACTIONS, Action, Kind, SCHEMA, Shape, Uid};
pub use why::{Shown, Why};

/// One file of rules. A rule is a few lines; a megabyte of them is a generated list that belongs in fewer rules.
pub const MAX_FILE: usize = 1 << 20;

/// Files in one set: each is named in messages, so there are as many as a person can tell apart.
pub const MAX_FILES: usize = 128;

/// Rules in one set. Every one that speaks of an action is evaluated when that action is asked for.
pub const MAX_RULES: usize = 10_000;

/// Brackets, and `if`s, inside one another. The parser behind this recurses, and its stack is not ours to grow.
pub const MAX_NESTING: usize = 24;

/// `&&`, `||`, `.`, `!`, `+`, `-` and `*` in one rule: each is one level of the tree that is evaluated, and the deepest
/// tree has to fit a thread's stack of 2 MiB even in a build that isn't optimised.
pub const MAX_OPERATORS: usize = 100;

/// A rule's name. It stands in refusals and records.
pub const MAX_RULE_ID: usize = 64;

/// What an approver is told by `@requireApproval`.
pub const MAX_REASON: usize = 200;

/// Problems reported of one set: enough to start mending.
pub const MAX_PROBLEMS: usize = 100;

/// Names in a request. The longest lawful one is a URL's path.
pub const MAX_NAME: usize = crate::limits::MAX_TEXT;

/// Labels and parents of one asker.
pub const MAX_MARKS: usize = 256;

/// Permits that are looked at one clause at a time to find the nearest.
pub const MAX_CANDIDATES: usize = 256;

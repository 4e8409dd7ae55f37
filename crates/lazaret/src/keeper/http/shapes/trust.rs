//! Trust and schedules.

use utoipa::ToSchema;

use super::{AgentName, Message, Thrown};

/// How an agent has behaved, counted.
#[derive(ToSchema)]
pub(crate) struct Conduct {
    clean_turns: u64,
    refusals: u64,
    overruns: u64,
    stopped: u64,
    denied: u64,
    mismatches: u64,
}

/// How far an agent is trusted.
#[derive(ToSchema)]
pub(crate) struct Trust {
    agent: AgentName,
    /// In hundredths; 0 if it is revoked.
    #[schema(minimum = 0, maximum = 100)]
    score: u8,
    conduct: Conduct,
    /// Who has revoked it, when and why; null if nobody has.
    revoked: Option<Thrown>,
}

/// One term of a score.
#[derive(ToSchema)]
pub(crate) struct TrustTerm {
    name: String,
    /// How many of it there are; null for the base.
    count: Option<u64>,
    /// What it moves the score by, in hundredths.
    points: i64,
}

/// Something that happened to an agent's trust.
#[derive(ToSchema)]
pub(crate) struct TrustEvent {
    agent: AgentName,
    /// `set`, `revoked`, `restored` or `mismatch`.
    change: String,
    /// In hundredths: the base that was set, or the score from then on.
    #[schema(minimum = 0, maximum = 100)]
    score: u8,
    by: String,
    /// Milliseconds since 1970, UTC.
    at: u64,
    reason: String,
    /// The turn that a replay found not to be as recorded.
    turn: Option<u64>,
}

/// How far an agent is trusted, and why.
#[derive(ToSchema)]
pub(crate) struct TrustTold {
    agent: AgentName,
    /// In hundredths; 0 if it is revoked.
    #[schema(minimum = 0, maximum = 100)]
    score: u8,
    /// What it is counted from, in hundredths.
    #[schema(minimum = 0, maximum = 100)]
    base: u8,
    conduct: Conduct,
    terms: Vec<TrustTerm>,
    /// Who has revoked it, when and why; null if nobody has.
    revoked: Option<Thrown>,
    /// The score that it has, or would have if it weren't revoked, in hundredths.
    #[schema(minimum = 0, maximum = 100)]
    by_conduct: u8,
    /// Oldest first.
    events: Vec<TrustEvent>,
}

/// What becomes of due times that nobody could keep.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Missed {
    /// They are passed over.
    Skip,
    /// One message makes up for all of them.
    Once,
    /// One message for each, the last 24 at most.
    All,
}

/// When a schedule is due.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum When {
    /// By a calendar.
    Cron { expression: String, zone: String },
    /// At every multiple of an interval, in milliseconds, counted from a time in milliseconds since 1970.
    Every { from: u64, interval: u64 },
}

/// A schedule that stands.
#[derive(ToSchema)]
pub(crate) struct Schedule {
    agent: AgentName,
    schedule: String,
    when: When,
    missed: Missed,
    message: Message,
    by: String,
    /// When it is due next, in milliseconds since 1970, UTC; null if never.
    next: Option<u64>,
}

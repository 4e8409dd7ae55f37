//! How long, how wide, how large: each with its reason.

/// How long a question waits when nobody configured it: silence is denial after two minutes.
pub const PATIENCE_MS: u64 = 120_000;

/// The longest that a question can be told to wait: an approver asleep is not an approver.
pub const MAX_PATIENCE_MS: u64 = 24 * 60 * 60 * 1000;

/// The furthest that "until" reaches from the decision: who wants more writes a policy, where it can be reviewed.
pub const MAX_UNTIL_MS: u64 = 8 * 60 * 60 * 1000;

/// The longest that "this run" lasts, however long the run does.
pub const MAX_RUN_MS: u64 = 24 * 60 * 60 * 1000;

/// How far an approver's clock may be off before its decision is not believed.
pub const MAX_SKEW_MS: u64 = 60_000;

/// A question's id, run, rule, nonce (in bytes) or label.
pub const MAX_NAME: usize = 128;

/// A rule's reason.
pub const MAX_REASON: usize = 1024;

/// Labels of one question.
pub const MAX_LABELS: usize = 64;

/// A pattern's text: one that doesn't fit a few lines isn't read.
pub const MAX_PATTERN: usize = 512;

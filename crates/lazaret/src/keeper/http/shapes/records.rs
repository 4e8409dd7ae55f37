//! Records: turns, effects, questions.

use utoipa::ToSchema;

use super::{AgentName, Budget, Bytes, Digest};

/// What wakes an agent.
#[derive(ToSchema)]
pub(crate) struct Message {
    /// The agent that sent it, if one did.
    sender: Option<AgentName>,
    content_type: String,
    body: Bytes,
    /// What its sender had seen; left out if that is nothing.
    #[schema(required = false)]
    labels: Vec<String>,
}

/// What a turn answers.
#[derive(ToSchema)]
pub(crate) struct Reply {
    content_type: String,
    body: Bytes,
}

/// The gate's "no".
#[derive(ToSchema)]
pub(crate) struct Refusal {
    /// Why, for programs.
    code: String,
    /// Which stage decided.
    layer: String,
    reason: String,
    /// What change by the operator would let it pass.
    remedy: String,
}

/// One ask. `kind` says which; the other members depend on it.
#[derive(ToSchema)]
pub(crate) struct Effect {
    #[schema(example = "http.fetch")]
    kind: String,
}

/// How an ask ended.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// Permitted and done: the answer, by its kind.
    Done(serde_json::Value),
    /// Permitted, tried, and it did not work.
    Failed(String),
    /// The gate said no.
    Refused(Refusal),
}

/// One ask and how it ended.
#[derive(ToSchema)]
pub(crate) struct TapeEntry {
    effect: Effect,
    outcome: Outcome,
    /// Which of the turn's rulings it was judged by.
    ruling: Option<u32>,
}

/// Why the host stopped a turn.
#[derive(ToSchema)]
pub(crate) struct Stop {
    #[schema(example = "fuel")]
    cause: String,
    detail: String,
}

/// How a turn ended.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Ending {
    /// It answered. Its changes are kept.
    Replied(Reply),
    /// The agent said that it failed: `bad-input` or `failed`, and its words.
    Failed(serde_json::Value),
    /// The host stopped it.
    Stopped(Stop),
}

/// A turn, whole.
#[derive(ToSchema)]
pub(crate) struct TurnRecord {
    agent: AgentName,
    turn: u64,
    previous: Digest,
    component: Digest,
    engine: Digest,
    grants: Vec<String>,
    budget: Budget,
    image_before: Option<Digest>,
    input: Message,
    tape: Vec<TapeEntry>,
    /// How its asks were judged, by digest.
    judged: Digest,
    ending: Ending,
    fuel: u64,
    image_after: Option<Digest>,
}

/// A turn that is on record.
#[derive(ToSchema)]
pub(crate) struct Taken {
    /// Its place in the journal.
    seq: u64,
    hash: Digest,
    record: TurnRecord,
    /// Pages that it changed.
    pages: u64,
    /// How its asks were judged.
    #[schema(value_type = Vec<Object>)]
    rulings: Vec<serde_json::Value>,
    /// Budgets that the turn had brought near a cap when it was over.
    warnings: Vec<String>,
}

/// One reason for a score.
#[derive(ToSchema)]
pub(crate) struct Term {
    name: String,
    /// Thousandths.
    adds: u32,
}

/// How much harm an ask could do.
#[derive(ToSchema)]
pub(crate) struct Risk {
    /// `low`, `medium` or `high`.
    tier: String,
    /// 0 to 1000.
    score: u32,
    terms: Vec<Term>,
}

/// A reading of two clocks.
#[derive(ToSchema)]
pub(crate) struct Moment {
    wall_ms: u64,
    monotonic_ms: u64,
}

/// A question that an effect raised.
#[derive(ToSchema)]
pub(crate) struct Question {
    id: String,
    agent: AgentName,
    run: String,
    effect: Effect,
    arguments: Digest,
    policy: Digest,
    rule: String,
    reason: String,
    risk: Risk,
    labels: Vec<String>,
    created: Moment,
    expires: Moment,
    boot: String,
    nonce: Bytes,
    /// Who asked: `agent` or `key`.
    #[schema(value_type = Object)]
    requester: serde_json::Value,
}

/// A signed answer to a question.
#[derive(ToSchema)]
pub(crate) struct Decision {
    question: Digest,
    /// `approve` or `deny`.
    verdict: String,
    /// `"once"`, or `run` or `until` with the pattern.
    scope: serde_json::Value,
    shown: Digest,
    by: Digest,
    at: u64,
    signature: Bytes,
}

//! The operator's rules: read, checked, explained, tried on the past.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use lazaret_gate::policy::Problem as Flaw;
use lazaret_gate::{Outcome, Rulebook, shown};
use lazaret_host::{EffectId, past_ask};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Answer;
use crate::commands::policy::{comparison_json, explained, request};
use crate::failure::Failure;
use crate::keeper::http::problem::{Always, Missing, Problem, TooMany, WithBody};
use crate::keeper::http::take::{Sent, Wanted, whole};
use crate::keeper::http::{Api, shapes};

/// The rules in force.
#[derive(Serialize, ToSchema)]
pub(crate) struct Rules {
    #[schema(value_type = shapes::Digest)]
    rulebook: lazaret_gate::Digest,
    /// How many rules.
    rules: u64,
    /// File names and texts.
    #[schema(value_type = Object)]
    files: BTreeMap<String, String>,
    /// Why what lies in the policy folder is not in force.
    problems: Vec<Ill>,
}

/// What is wrong with a file of rules.
#[derive(Serialize, ToSchema)]
#[schema(as = PolicyProblem)]
pub(crate) struct Ill {
    file: String,
    line: u64,
    column: u64,
    what: String,
    hint: String,
}

fn ill(flaw: &Flaw) -> Ill {
    let (line, column) = (flaw.at.line as u64, flaw.at.column as u64);
    Ill { file: flaw.at.file.clone(), line, column, what: flaw.what.clone(), hint: flaw.hint.clone() }
}

/// Shows the rules in force.
#[utoipa::path(
    get, path = "/v1/policy", operation_id = "policy.show", tag = "policy",
    responses((status = 200, description = "The rules", body = Rules), Always)
)]
pub(crate) async fn show(State(api): State<Api>) -> Answer<Rules> {
    let look = |host: &lazaret_host::Host| {
        let (book, _, problems) = host.rules();
        let files = book.policies().texts().iter().map(|(name, text)| (name.clone(), text.clone())).collect();
        let rules = book.policies().len() as u64;
        Ok(Rules { rulebook: book.digest(), rules, files, problems: problems.iter().map(ill).collect() })
    };
    api.read(look).await.map(Json)
}

/// Files of rules.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PolicyDraft)]
pub(crate) struct Draft {
    /// File names, like `mine.cedar`, and texts.
    #[schema(value_type = Object, example = json!({ "mine.cedar": "permit(principal, action, resource);" }))]
    files: BTreeMap<String, String>,
}

impl Wanted for Draft {}

/// What is to be said about files of rules.
#[derive(Serialize, ToSchema)]
#[schema(as = PolicyCheck)]
pub(crate) struct Verdict {
    /// Whether they could be put in force.
    ok: bool,
    rules: Option<u64>,
    #[schema(value_type = Option<shapes::Digest>)]
    rulebook: Option<lazaret_gate::Digest>,
    problems: Vec<Ill>,
}

/// Checks files of rules against the schema. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/policy/check", operation_id = "policy.check", tag = "policy", request_body = Draft,
    responses((status = 200, description = "Whether they are rules", body = Verdict), WithBody, Always)
)]
pub(crate) async fn check(State(api): State<Api>, Sent(draft): Sent<Draft>) -> Answer<Verdict> {
    let look = move |_: &lazaret_host::Host| match Rulebook::load(draft.files) {
        Ok(book) => {
            let rules = Some(book.policies().len() as u64);
            Ok(Verdict { ok: true, rules, rulebook: Some(book.digest()), problems: Vec::new() })
        }
        Err(flaws) => Ok(Verdict { ok: false, rules: None, rulebook: None, problems: flaws.iter().map(ill).collect() }),
    };
    api.read(look).await.map(Json)
}

/// An effect of the past, or one that could be asked.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PolicyQuestion)]
pub(crate) struct Wondering {
    /// A recorded effect, as `ENTRY.NUMBER`; nothing else is given then.
    #[schema(example = "4.0")]
    effect: Option<String>,
    /// Who asks.
    agent: Option<String>,
    /// What is asked, like `http.fetch`.
    action: Option<String>,
    /// What for, like `Host::api.example.com`.
    resource: Option<String>,
    /// The circumstances; docs/policy.md lists them.
    #[schema(value_type = Option<Object>)]
    context: Option<Value>,
}

impl Wanted for Wondering {}

/// Why an effect was decided as it was, or would be.
#[derive(Serialize, ToSchema)]
#[schema(as = PolicyWhy)]
pub(crate) struct Explained {
    /// What the rules say: `verdict`, `rules`, `errors`, `reason`, `remedy`, `nearest`, and `max_response` with
    /// `bytes` and `rule` if a rule says how large the response may be. Null if they weren't asked.
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
    /// Of a recorded effect: what it was, whose, and how it ended.
    #[schema(value_type = Option<Object>)]
    recorded: Option<Value>,
}

fn why_recorded(host: &lazaret_host::Host, id: EffectId) -> Result<Explained, Problem> {
    let store = host.store();
    let ask = past_ask(store, id)?;
    let refusal = match &ask.entry.outcome {
        Outcome::Refused(refusal) => Some(refusal),
        _ => None,
    };
    let recorded = serde_json::json!({
        "effect": id.to_string(), "agent": ask.agent, "turn": ask.turn, "refusal": refusal,
        "summary": shown::text(&ask.entry.effect.summary()), "verdict": ask.entry.outcome.verdict(),
        "risk": ask.ruling.as_ref().map(|ruling| &ruling.risk),
        "asked": ask.ruling.as_ref().map(|ruling| &ruling.asked),
    });
    let policy = match ask.ruling.as_ref().zip(ask.request()) {
        Some((ruling, request)) => {
            let bytes = store.blob(&ruling.under.rulebook)?;
            let book = Rulebook::read(&bytes).map_err(|_| Failure::Failed("its rulebook can't be read".into()))?;
            Some(explained(&book, &request))
        }
        None => None,
    };
    Ok(Explained { policy, recorded: Some(recorded) })
}

/// Says why an effect was decided as it was, or how one would be.
#[utoipa::path(
    post, path = "/v1/policy/why", operation_id = "policy.why", tag = "policy", request_body = Wondering,
    responses((status = 200, description = "The grounds", body = Explained), Missing, WithBody, Always)
)]
pub(crate) async fn why(State(api): State<Api>, Sent(it): Sent<Wondering>) -> Answer<Explained> {
    let look = move |host: &lazaret_host::Host| match it {
        Wondering { effect: Some(id), agent: None, action: None, resource: None, context: None } => {
            why_recorded(host, id.parse()?)
        }
        Wondering { effect: None, agent, action: Some(action), resource: Some(resource), context } => {
            let agent = agent.unwrap_or_else(|| "anybody".to_owned());
            let context = context.map_or_else(|| "{}".to_owned(), |context| context.to_string());
            let request = request(&agent, &action, &resource, &context)?;
            let (book, _, _) = host.rules();
            Ok(Explained { policy: Some(explained(&book, &request)), recorded: None })
        }
        _ => Err(Failure::Input("give `effect` alone, or `action` and `resource`".into()).into()),
    };
    api.read(look).await.map(Json)
}

/// A draft, and how far back to try it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BacktestDraft)]
pub(crate) struct Trial {
    /// File names and texts.
    #[schema(value_type = Object, example = json!({ "mine.cedar": "permit(principal, action, resource);" }))]
    files: BTreeMap<String, String>,
    /// How far back, in milliseconds; seven days if it isn't given.
    #[serde(default, deserialize_with = "whole")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    since_ms: Option<u64>,
}

impl Wanted for Trial {}

/// How the recorded past would have been decided by a draft.
#[derive(Serialize, ToSchema)]
#[schema(as = Backtest)]
pub(crate) struct Tried {
    /// `same`, `newly_denied`, `newly_asked`, `newly_allowed`, `unknown`, and some `examples`.
    #[schema(value_type = Object)]
    past: Value,
}

/// Decides the recorded past again by a draft.
#[utoipa::path(
    post, path = "/v1/policy/backtest", operation_id = "policy.backtest", tag = "policy", request_body = Trial,
    responses((status = 200, description = "What would be different", body = Tried), TooMany, WithBody, Always)
)]
pub(crate) async fn backtest(State(api): State<Api>, Sent(trial): Sent<Trial>) -> Answer<Tried> {
    let look = move |host: &lazaret_host::Host| {
        let draft = Rulebook::load(trial.files).map_err(|flaws| {
            let text: Vec<_> = flaws.iter().map(|flaw| shown::text(&flaw.to_string())).collect();
            Failure::Input(text.join("\n"))
        })?;
        let (book, _, _) = host.rules();
        let now = lazaret_host::now().moment.wall_ms;
        let from = now.saturating_sub(trial.since_ms.unwrap_or(7 * 86_400_000));
        let found = lazaret_host::backtest(host.store(), from, book.policies(), draft.policies())?;
        Ok(Tried { past: comparison_json(&found) })
    };
    api.read_all(look).await.map(Json)
}

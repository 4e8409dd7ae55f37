//! Questions that wait, and answers to them.
//!
//! A decision is signed here, with the approver's key of the data root, as `lazaret approvals` does it: whoever has the
//! token can read that key too. To answer, a client names the digest of the question that it has shown; one that was shown
//! something else decides nothing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lazaret_gate::Digest;
use lazaret_gate::approval::{Decision, Pattern, Question, Scope, Verdict};
use lazaret_gate::shown;
use lazaret_host::HostError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use crate::commands::approvals::{find, reach};
use crate::failure::Failure;
use crate::keeper::http::problem::{Always, Missing, NotNow, Problem, WithBody};
use crate::keeper::http::take::{At, Sent, Wanted};
use crate::keeper::http::{Api, shapes};

/// Lists the questions that wait, oldest first.
#[utoipa::path(
    get, path = "/v1/approvals", operation_id = "approvals.list", tag = "approvals",
    responses((status = 200, description = "Those that wait", body = Vec<shapes::Question>), Always)
)]
pub(crate) async fn list(State(api): State<Api>) -> Answer<Vec<Question>> {
    api.read(|host| Ok(host.approvals().pending()?)).await.map(Json)
}

/// A question as an approver has to see it.
#[derive(Serialize, ToSchema)]
#[schema(as = QuestionShown)]
pub(crate) struct Shown {
    #[schema(value_type = shapes::Question)]
    question: Question,
    /// What a decision has to name.
    #[schema(value_type = shapes::Digest)]
    digest: Digest,
    /// The lines that are signed for, with everything invisible made visible.
    lines: Vec<String>,
    /// Part of it can't be shown, so it can only be denied.
    hidden: bool,
}

/// Shows a question that waits.
#[utoipa::path(
    get, path = "/v1/approvals/{question}", operation_id = "approvals.show", tag = "approvals",
    params(("question" = String, Path, description = "Its id, or the beginning of it")),
    responses((status = 200, description = "The question", body = Shown), Missing, NotNow,
              (status = 422, description = "More than one begins so", body = shapes::Fault), Always)
)]
pub(crate) async fn show(State(api): State<Api>, At(id): At<String>) -> Answer<Shown> {
    let look = move |host: &lazaret_host::Host| {
        let question = find(host.approvals(), host.store(), &id)?;
        let digest = question.digest().map_err(HostError::from)?;
        let shown = shown::decision(&question, &Scope::Once);
        Ok(Shown { question, digest, lines: shown.lines, hidden: shown.hidden })
    };
    api.read(look).await.map(Json)
}

/// Yes or no.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(rename_all = "lowercase")]
#[schema(as = Verdict)]
pub(crate) enum Said {
    Approve,
    Deny,
}

/// An answer to a question.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDecision)]
pub(crate) struct Deciding {
    verdict: Said,
    /// The digest of the question that was shown.
    #[schema(value_type = shapes::Digest)]
    digest: Digest,
    /// A yes to all that the pattern covers, for the rest of the run.
    #[serde(default)]
    for_run: bool,
    /// A yes to all that the pattern covers, for so many minutes.
    #[schema(minimum = 1, maximum = 480)]
    for_minutes: Option<u64>,
    /// Which effects, like `http.fetch GET https://api.example.com/v1/*`; the narrowest that fits if it isn't given.
    pattern: Option<String>,
}

impl Wanted for Deciding {}

fn bad(text: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-input", text)
}

/// Answers a question. The first answer stands.
#[utoipa::path(
    post, path = "/v1/approvals/{question}/decision", operation_id = "approvals.decide", tag = "approvals",
    params(("question" = String, Path, description = "Its id, or the beginning of it")), request_body = Deciding,
    responses((status = 200, description = "The signed decision", body = shapes::Decision), Missing, NotNow, WithBody,
              Always)
)]
pub(crate) async fn decide(State(api): State<Api>, At(id): At<String>, Sent(said): Sent<Deciding>) -> Answer<Decision> {
    if said.for_minutes.is_some_and(|minutes| !(1..=480).contains(&minutes)) {
        return Err(bad("`for_minutes` is 1 to 480"));
    }
    if said.for_run && said.for_minutes.is_some() {
        return Err(bad("a yes is for the run or for some minutes, not both; leave one out"));
    }
    let pattern =
        said.pattern.as_deref().map(str::parse::<Pattern>).transpose().map_err(|why| bad(&why.to_string()))?;
    let look = move |host: &lazaret_host::Host| {
        let approvals = host.approvals();
        let question = find(approvals, host.store(), &id)?;
        if question.digest().map_err(HostError::from)? != said.digest {
            let text = "the digest is not that of this question; show it again and decide again";
            return Err(Problem::new(StatusCode::CONFLICT, "other-question", text));
        }
        let (verdict, scope) = match said.verdict {
            Said::Deny => (Verdict::Deny, Scope::Once),
            Said::Approve => {
                let scope = reach(host.store(), &question, said.for_run, said.for_minutes, pattern.as_ref())?;
                (Verdict::Approve, scope)
            }
        };
        Ok(approvals.decide(&question, verdict, scope).map_err(Failure::from)?)
    };
    api.read(look).await.map(Json)
}

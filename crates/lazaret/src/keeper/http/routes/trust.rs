//! How far agents are trusted, and who is not at all.

use axum::Json;
use axum::extract::State;
use lazaret_gate::AgentId;
use lazaret_gate::trust::Score;
use lazaret_host::{TrustTold, Trusted};
use lazaret_link::{Request, TrustRequest};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Answer, Why, known, somebody};
use crate::keeper::http::problem::{Always, Missing, NotNow, WithBody};
use crate::keeper::http::take::{Asked, At, Sent, Wanted};
use crate::keeper::http::{Api, shapes};

/// Lists the agents with their scores.
#[utoipa::path(
    get, path = "/v1/trust", operation_id = "trust.list", tag = "trust",
    responses((status = 200, description = "By name", body = Vec<shapes::Trust>), Always)
)]
pub(crate) async fn list(State(api): State<Api>) -> Answer<Vec<Trusted>> {
    api.read(move |host| Ok(Trusted::all(host.store(), &host.in_force())?)).await.map(Json)
}

/// Shows an agent's score, term by term, counted from the journal.
#[utoipa::path(
    get, path = "/v1/agents/{agent}/trust", operation_id = "trust.show", tag = "trust", params(("agent" = shapes::AgentName, Path)),
    responses((status = 200, description = "The score, its terms and what led there", body = shapes::TrustTold), Missing, Always)
)]
pub(crate) async fn show(State(api): State<Api>, At(agent): At<AgentId>) -> Answer<TrustTold> {
    let look = move |host: &lazaret_host::Host| {
        let row = known(host, &agent)?;
        Ok(TrustTold::of(host.store(), &host.in_force(), &row)?)
    };
    api.read(look).await.map(Json)
}

/// Changes something, and says how far the agent is trusted then.
async fn change(api: &Api, agent: AgentId, request: TrustRequest) -> Answer<Trusted> {
    api.ask(Request::Trust(request)).await?;
    let look = move |host: &lazaret_host::Host| {
        let row = known(host, &agent)?;
        Ok(Trusted::of(host.store(), &host.in_force(), &row)?)
    };
    api.read(look).await.map(Json)
}

/// A base to be set.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBase)]
pub(crate) struct Base {
    /// What the score is counted from, in hundredths.
    #[schema(value_type = u8, minimum = 0, maximum = 100, example = 50)]
    score: Score,
    /// Who does it; recorded.
    #[serde(default = "somebody")]
    #[schema(max_length = 4096, default = "the HTTP interface")]
    by: String,
    /// Why; recorded.
    #[serde(default)]
    #[schema(max_length = 4096, default = "")]
    reason: String,
}

impl Wanted for Base {}

/// Sets the base that an agent's score is counted from. What it has done stays counted.
#[utoipa::path(
    put, path = "/v1/agents/{agent}/trust", operation_id = "trust.set", tag = "trust", params(("agent" = shapes::AgentName, Path)),
    request_body = Base,
    responses((status = 200, description = "How far it is trusted now", body = shapes::Trust), Missing, NotNow, WithBody,
              Always)
)]
pub(crate) async fn set(State(api): State<Api>, At(agent): At<AgentId>, Sent(base): Sent<Base>) -> Answer<Trusted> {
    let Base { score, by, reason } = base;
    change(&api, agent.clone(), TrustRequest::Set { agent, score, by, reason }).await
}

/// Revokes an agent at once: no turn, no effect, no message, in the middle of those that are under way too. The first
/// revocation stands until the agent is restored.
#[utoipa::path(
    put, path = "/v1/agents/{agent}/revocation", operation_id = "trust.revoke", tag = "trust",
    params(("agent" = shapes::AgentName, Path)), request_body = Why,
    responses((status = 200, description = "It is revoked", body = shapes::Trust), Missing, NotNow, WithBody, Always)
)]
pub(crate) async fn revoke(State(api): State<Api>, At(agent): At<AgentId>, Sent(why): Sent<Why>) -> Answer<Trusted> {
    let Why { by, reason } = why;
    change(&api, agent.clone(), TrustRequest::Revoke { agent, by, reason }).await
}

/// Lets a revoked agent go on, with the score that its conduct gives it.
#[utoipa::path(
    delete, path = "/v1/agents/{agent}/revocation", operation_id = "trust.restore", tag = "trust",
    params(("agent" = shapes::AgentName, Path), Why),
    responses((status = 200, description = "It is not revoked", body = shapes::Trust),
              (status = 413, description = "The reason is too long", body = shapes::Fault), Missing, NotNow, Always)
)]
pub(crate) async fn restore(State(api): State<Api>, At(agent): At<AgentId>, Asked(why): Asked<Why>) -> Answer<Trusted> {
    let Why { by, reason } = why;
    change(&api, agent.clone(), TrustRequest::Restore { agent, by, reason }).await
}

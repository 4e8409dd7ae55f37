//! What operators do with an agent that is there: another one made of its past, put back, set apart, let go of.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lazaret_gate::{AgentId, Digest};
use lazaret_link::{AgentRequest, AgentView, Reply, Request};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::agents::show;
use super::{Answer, Why, somebody};
use crate::keeper::http::problem::{Always, Missing, NotNow, Problem, WithBody};
use crate::keeper::http::take::{Asked, At, Sent, Wanted};
use crate::keeper::http::{Api, shapes};

/// A fork to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewFork)]
pub(crate) struct New {
    /// The new agent's name, never used before.
    #[schema(value_type = shapes::AgentName, example = "clerk-again")]
    agent: AgentId,
    /// After which turn of the other; 0 is before the first. As it is now if it isn't given.
    #[schema(example = 1)]
    turn: Option<u64>,
}

impl Wanted for New {}

/// An agent that was made from another.
#[derive(Serialize, ToSchema)]
#[schema(as = Fork)]
pub(crate) struct Forked {
    #[schema(value_type = shapes::Agent)]
    agent: AgentView,
    /// Whose past it has.
    #[schema(value_type = shapes::AgentName)]
    from: AgentId,
    /// After which turn of that one; 0 is before the first.
    turn: u64,
    /// Hash of the journal's entry that says what it was like then.
    #[schema(value_type = shapes::Digest)]
    entry: Digest,
}

/// Makes an agent from another, as that one was after one of its turns, or is now.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/forks", operation_id = "agents.fork", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    request_body = New,
    responses((status = 201, description = "It is made", body = Forked), Missing, NotNow, WithBody, Always)
)]
pub(crate) async fn fork(
    State(api): State<Api>,
    At(from): At<AgentId>,
    Sent(New { agent, turn }): Sent<New>,
) -> Result<(StatusCode, Json<Forked>), Problem> {
    let fork = AgentRequest::Fork { from: from.clone(), agent: agent.clone(), turn };
    let Reply::Forked { turn, entry } = api.ask(Request::Agent(fork)).await? else {
        return Err(Problem::unexpected());
    };
    let Json(agent) = show(State(api), At(agent)).await?;
    Ok((StatusCode::CREATED, Json(Forked { agent, from, turn, entry })))
}

/// Where to put an agent back.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRollback)]
pub(crate) struct Back {
    /// After which of its turns; 0 is before the first.
    #[schema(example = 1)]
    turn: u64,
    /// Who does it; recorded.
    #[serde(default = "somebody")]
    #[schema(max_length = 4096, default = "the HTTP interface")]
    by: String,
}

impl Wanted for Back {}

/// Puts an agent back to where one of its turns had left it, memory and storage. Its turns go on counting.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/rollback", operation_id = "agents.rollback", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    request_body = Back,
    responses((status = 200, description = "As it stands", body = shapes::Agent), Missing, NotNow, WithBody, Always)
)]
pub(crate) async fn rollback(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Sent(Back { turn, by }): Sent<Back>,
) -> Answer<AgentView> {
    api.ask(Request::Agent(AgentRequest::Rollback { agent: agent.clone(), turn, by })).await?;
    show(State(api), At(agent)).await
}

/// Lets an agent take no turn until it is woken; its mail waits. Answers when a turn that is under way is over.
#[utoipa::path(
    put, path = "/v1/agents/{agent}/quarantine", operation_id = "agents.quarantine", tag = "agents",
    params(("agent" = shapes::AgentName, Path)), request_body = Why,
    responses((status = 200, description = "It is set apart", body = shapes::Agent), Missing, NotNow, WithBody, Always)
)]
pub(crate) async fn quarantine(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Sent(Why { by, reason }): Sent<Why>,
) -> Answer<AgentView> {
    api.ask(Request::Agent(AgentRequest::Quarantine { agent: agent.clone(), by, reason })).await?;
    show(State(api), At(agent)).await
}

/// Who does it.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Who {
    /// Who does it; recorded.
    #[serde(default = "somebody")]
    #[param(max_length = 4096, default = "the HTTP interface")]
    by: String,
}

/// Lets a quarantined agent go on: with a turn that was cut off, if there is one, and with its mail.
#[utoipa::path(
    delete, path = "/v1/agents/{agent}/quarantine", operation_id = "agents.wake", tag = "agents",
    params(("agent" = shapes::AgentName, Path), Who),
    responses((status = 200, description = "As it stands", body = shapes::Agent),
              (status = 413, description = "The name is too long", body = shapes::Fault), Missing, NotNow, Always)
)]
pub(crate) async fn wake(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Asked(Who { by }): Asked<Who>,
) -> Answer<AgentView> {
    api.ask(Request::Agent(AgentRequest::Wake { agent: agent.clone(), by })).await?;
    show(State(api), At(agent)).await
}

/// What was let go of.
#[derive(Serialize, ToSchema)]
#[schema(as = LetGo)]
pub(crate) struct LetGo {
    /// Whether anything of it was in memory.
    let_go: bool,
}

/// Lets go of what an agent has in memory; its next message wakes it from disk.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/sleep", operation_id = "agents.sleep", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    responses((status = 200, description = "Nothing of it is in memory", body = LetGo), Missing, NotNow, Always)
)]
pub(crate) async fn sleep(State(api): State<Api>, At(agent): At<AgentId>) -> Answer<LetGo> {
    match api.ask(Request::Agent(AgentRequest::Sleep { agent })).await? {
        Reply::LetGo(let_go) => Ok(Json(LetGo { let_go })),
        _ => Err(Problem::unexpected()),
    }
}

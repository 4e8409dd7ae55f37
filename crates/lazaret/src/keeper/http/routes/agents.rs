//! Agents: made, shown, settled, removed, and their mail.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lazaret_gate::ledger::Caps;
use lazaret_gate::{AgentId, Budget, Bytes, Grants, Slots};
use lazaret_link::{AgentRequest, AgentView, NewAgent, Recovered, Reply, Request};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Answer, known};
use crate::keeper::http::problem::{Always, Missing, NotNow, Problem, TooMany, WithBody};
use crate::keeper::http::take::{Asked, At, Sent, Wanted};
use crate::keeper::http::{Api, limits, shapes};

/// Which agents.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Removed ones too.
    #[serde(default)]
    #[param(default = false)]
    all: bool,
}

/// Lists the agents.
#[utoipa::path(
    get, path = "/v1/agents", operation_id = "agents.list", tag = "agents", params(Which),
    responses((status = 200, description = "By name", body = Vec<shapes::Agent>), Always)
)]
pub(crate) async fn list(State(api): State<Api>, Asked(which): Asked<Which>) -> Answer<Vec<AgentView>> {
    match api.ask(Request::Agent(AgentRequest::List { all: which.all })).await? {
        Reply::Agents(agents) => Ok(Json(agents)),
        _ => Err(Problem::unexpected()),
    }
}

/// An agent to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewAgent)]
pub(crate) struct New {
    /// Its name, never used before.
    #[schema(value_type = shapes::AgentName)]
    agent: AgentId,
    /// A WebAssembly component, in base64.
    #[schema(value_type = shapes::Bytes)]
    component: Bytes,
    /// What it may ask for; storage, log, clock and random if it isn't given.
    #[schema(value_type = Option<Vec<String>>)]
    grants: Option<Grants>,
    /// What each turn may cost.
    #[schema(value_type = Option<shapes::Budget>)]
    budget: Option<Budget>,
    /// What it may spend beyond one turn.
    #[schema(value_type = Option<Object>)]
    caps: Option<Caps>,
    /// The slots for secrets that its author declares; each is granted with it.
    #[schema(value_type = Option<Vec<shapes::Slot>>)]
    slots: Option<Slots>,
}

impl Wanted for New {
    const MOST: usize = limits::COMPONENT;
}

/// Makes an agent.
#[utoipa::path(
    post, path = "/v1/agents", operation_id = "agents.create", tag = "agents", request_body = New,
    responses((status = 201, description = "It is made", body = shapes::Agent), NotNow, WithBody, Always)
)]
pub(crate) async fn create(
    State(api): State<Api>,
    Sent(new): Sent<New>,
) -> Result<(StatusCode, Json<AgentView>), Problem> {
    let New { agent, component, grants, budget, caps, slots } = new;
    let grants = grants.unwrap_or_else(Grants::basic);
    let (budget, caps, slots) = (budget.unwrap_or_default(), caps.unwrap_or_default(), slots.unwrap_or_default());
    let new = NewAgent { agent, component, grants, budget, caps, slots };
    match api.ask(Request::Agent(AgentRequest::Create(Box::new(new)))).await? {
        Reply::Agent(agent) => Ok((StatusCode::CREATED, Json(*agent))),
        _ => Err(Problem::unexpected()),
    }
}

/// Shows an agent.
#[utoipa::path(
    get, path = "/v1/agents/{agent}", operation_id = "agents.show", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    responses((status = 200, description = "As it stands", body = shapes::Agent), Missing, Always)
)]
pub(crate) async fn show(State(api): State<Api>, At(agent): At<AgentId>) -> Answer<AgentView> {
    match api.ask(Request::Agent(AgentRequest::Show { agent })).await? {
        Reply::Agent(agent) => Ok(Json(*agent)),
        _ => Err(Problem::unexpected()),
    }
}

/// That exactly this agent is meant.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Removal {
    /// The agent's name once more, if it has schedules: those go with it, and nobody misses them until they should have fired.
    confirm: Option<String>,
}

/// Removes an agent; its records stay, and its name is not used again. If it has schedules, that has to be confirmed.
#[utoipa::path(
    delete, path = "/v1/agents/{agent}", operation_id = "agents.remove", tag = "agents",
    params(("agent" = shapes::AgentName, Path), Removal),
    responses((status = 204, description = "It is gone"),
              (status = 422, description = "It has schedules, and that is not confirmed", body = shapes::Fault), Missing, NotNow, Always)
)]
pub(crate) async fn remove(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Asked(Removal { confirm }): Asked<Removal>,
) -> Result<StatusCode, Problem> {
    let named = agent.clone();
    let many = api.read(move |host| Ok(host.store().agent(&named)?.map_or(0, |row| row.schedules.len()))).await?;
    if many > 0 && confirm.as_deref() != Some(agent.as_str()) {
        let text = format!(
            "removing `{agent}` removes its {many} schedules too, and has to be confirmed; say its name once more, as `confirm` \
             behind the question mark"
        );
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unconfirmed", &text));
    }
    api.ask(Request::Agent(AgentRequest::Remove { agent })).await.map(|_| StatusCode::NO_CONTENT)
}

/// What a person says of an effect in doubt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settlement {
    /// Why it counts as failed; recorded.
    #[schema(max_length = 4096)]
    note: String,
}

impl Wanted for Settlement {}

/// Settles an effect in doubt: it counts as failed, and the turn goes on.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/settle", operation_id = "agents.settle", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    request_body = Settlement,
    responses((status = 200, description = "What became of the turn", body = shapes::Recovered),
              Missing, NotNow, WithBody, Always)
)]
pub(crate) async fn settle(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Sent(Settlement { note }): Sent<Settlement>,
) -> Answer<Recovered> {
    match api.ask(Request::Agent(AgentRequest::Settle { agent, note })).await? {
        Reply::Recovered(recovered) => Ok(Json(*recovered)),
        _ => Err(Problem::unexpected()),
    }
}

/// A message. Its body is `text` or `base64`, not both.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMessage)]
pub(crate) struct Mail {
    /// What the body is; `text/plain` or `application/octet-stream` if it isn't said.
    #[schema(max_length = 1024, example = "text/plain")]
    content_type: Option<String>,
    /// The body, as text.
    #[schema(example = "hello")]
    text: Option<String>,
    /// The body, as bytes.
    #[schema(value_type = Option<shapes::Bytes>)]
    base64: Option<Bytes>,
}

impl Wanted for Mail {
    const MOST: usize = limits::MESSAGE;
}

impl Mail {
    /// The content type and the body.
    pub(super) fn parts(self) -> Result<(String, Bytes), Problem> {
        let (usual, body) = match (self.text, self.base64) {
            (Some(text), None) => ("text/plain", Bytes(text.into_bytes())),
            (None, Some(bytes)) => ("application/octet-stream", bytes),
            (None, None) => ("text/plain", Bytes::default()),
            (Some(_), Some(_)) => {
                let text = "a message has `text` or `base64`, not both; leave one out";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-input", text));
            }
        };
        Ok((self.content_type.unwrap_or_else(|| usual.to_owned()), body))
    }
}

/// An agent's mailbox.
#[derive(Serialize, ToSchema)]
pub(crate) struct Mailbox {
    /// The messages that wait, oldest first, by number.
    waiting: Vec<u64>,
    /// The oldest of them.
    #[schema(value_type = Option<shapes::Message>)]
    next: Option<lazaret_gate::record::Message>,
}

/// Shows an agent's mailbox.
#[utoipa::path(
    get, path = "/v1/agents/{agent}/messages", operation_id = "agents.mailbox", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    responses((status = 200, description = "What waits", body = Mailbox), Missing, Always)
)]
pub(crate) async fn mailbox(State(api): State<Api>, At(agent): At<AgentId>) -> Answer<Mailbox> {
    let look = move |host: &lazaret_host::Host| {
        let row = known(host, &agent)?;
        let next = if row.queued.is_empty() { None } else { host.store().mailbox_next(&agent)? };
        Ok(Mailbox { waiting: row.queued, next: next.map(|(_, message)| message) })
    };
    api.read(look).await.map(Json)
}

/// Puts a message into an agent's mailbox. It is on disk when this is answered; the turn comes later.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/messages", operation_id = "agents.post", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    request_body = Mail,
    responses((status = 202, description = "It waits"), Missing, NotNow, TooMany, WithBody, Always)
)]
pub(crate) async fn post(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Sent(mail): Sent<Mail>,
) -> Result<StatusCode, Problem> {
    let (content_type, body) = mail.parts()?;
    let request = AgentRequest::Post { agent, content_type, body };
    api.ask(Request::Agent(request)).await.map(|_| StatusCode::ACCEPTED)
}

//! What agents may spend beyond one turn, and what they have.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use lazaret_gate::AgentId;
use lazaret_gate::ledger::Caps;
use lazaret_link::{BudgetRequest, Reply, Request};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Answer, known};
use crate::commands::budget::{Capped, capped};
use crate::failure::Failure;
use crate::keeper::http::problem::{Always, Missing, NotNow, Problem, WithBody};
use crate::keeper::http::take::{At, Sent, Wanted};
use crate::keeper::http::{Api, shapes};

/// An agent's caps and what it has spent.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentBudget)]
pub(crate) struct Budget {
    #[schema(value_type = shapes::AgentName)]
    agent: AgentId,
    #[schema(value_type = shapes::Caps)]
    caps: Caps,
    /// One for each cap: `period`, `unit`, `cap`, `used`, `left`.
    #[schema(value_type = Vec<Object>)]
    lines: Vec<serde_json::Value>,
}

/// Shows an agent's caps and what it has spent.
#[utoipa::path(
    get, path = "/v1/agents/{agent}/budget", operation_id = "budgets.show", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    responses((status = 200, description = "As it stands", body = Budget), Missing, Always)
)]
pub(crate) async fn show(State(api): State<Api>, At(agent): At<AgentId>) -> Answer<Budget> {
    let look = move |host: &lazaret_host::Host| {
        let row = known(host, &agent)?;
        let lines = capped(&row).map_err(|why| Failure::Mismatch(why.to_string()))?;
        let lines = lines.iter().map(Capped::json).collect();
        Ok(Budget { agent, caps: row.caps, lines })
    };
    api.read(look).await.map(Json)
}

/// Caps to change: `day.effects`, `currency`, … and their values, as `lazaret budget set` takes them; `none` takes one away.
#[derive(Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object, example = json!({ "day.effects": "1000" }))]
#[schema(as = CapChanges)]
pub(crate) struct Changes(BTreeMap<String, String>);

impl Wanted for Changes {}

/// Changes an agent's caps.
#[utoipa::path(
    patch, path = "/v1/agents/{agent}/budget", operation_id = "budgets.set", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    request_body = Changes,
    responses((status = 200, description = "The caps now", body = shapes::Caps), Missing, NotNow, WithBody, Always)
)]
pub(crate) async fn set(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Sent(Changes(changes)): Sent<Changes>,
) -> Answer<Caps> {
    let caps = changes.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    match api.ask(Request::Budget(BudgetRequest::Set { agent, caps })).await? {
        Reply::Caps(caps) => Ok(Json(*caps)),
        _ => Err(Problem::unexpected()),
    }
}

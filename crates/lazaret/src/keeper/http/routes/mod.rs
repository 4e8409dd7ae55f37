//! Every route, each beside the words that document it. A new family is one file and one line here.

mod agents;
mod approvals;
mod budgets;
mod doctor;
mod journal;
mod operator;
mod orders;
mod policy;
mod schedules;
mod trust;
mod turns;

pub(crate) use turns::ending;

use axum::{Json, Router};
use lazaret_gate::AgentId;
use serde::Deserialize;
use utoipa::{IntoParams, OpenApi as _, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::document::{self, About};
use super::problem::Problem;
use super::take::Wanted;
use super::{Api, events, metrics};

/// What a handler answers.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

/// The routes, and the document that is made of them.
pub(super) fn all() -> (Router<Api>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(About::openapi())
        .routes(routes!(operator::health))
        .routes(routes!(operator::status))
        .routes(routes!(doctor::doctor))
        .routes(routes!(document::serve))
        .routes(routes!(metrics::serve))
        .routes(routes!(events::serve))
        .routes(routes!(agents::list, agents::create))
        .routes(routes!(agents::show, agents::remove))
        .routes(routes!(agents::settle))
        .routes(routes!(agents::mailbox, agents::post))
        .routes(routes!(orders::fork))
        .routes(routes!(orders::rollback))
        .routes(routes!(orders::quarantine, orders::wake))
        .routes(routes!(orders::sleep))
        .routes(routes!(turns::list, turns::send))
        .routes(routes!(turns::show))
        .routes(routes!(turns::replay))
        .routes(routes!(budgets::show, budgets::set))
        .routes(routes!(trust::list))
        .routes(routes!(trust::show, trust::set))
        .routes(routes!(trust::revoke, trust::restore))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::add))
        .routes(routes!(schedules::remove))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::show))
        .routes(routes!(approvals::decide))
        .routes(routes!(policy::show))
        .routes(routes!(policy::check))
        .routes(routes!(policy::why))
        .routes(routes!(policy::backtest))
        .routes(routes!(operator::switches))
        .routes(routes!(operator::throw, operator::lift))
        .routes(routes!(journal::list))
        .routes(routes!(journal::checkpoint, journal::sign))
        .routes(routes!(journal::verify))
        .routes(routes!(journal::show))
        .routes(routes!(journal::proof))
        .split_for_parts()
}

/// Who does something, and why.
#[derive(Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[schema(as = Reason)]
pub(crate) struct Why {
    /// Who does it; recorded.
    #[serde(default = "somebody")]
    #[schema(max_length = 4096, default = "the HTTP interface")]
    #[param(max_length = 4096, default = "the HTTP interface")]
    by: String,
    /// Why; recorded.
    #[serde(default)]
    #[schema(max_length = 4096, default = "")]
    #[param(max_length = 4096, default = "")]
    reason: String,
}

impl Wanted for Why {}

/// Who did it, if nobody says.
fn somebody() -> String {
    "the HTTP interface".to_owned()
}

/// An agent's row, or that there is none.
fn known(host: &lazaret_host::Host, agent: &AgentId) -> Result<lazaret_store::AgentRow, Problem> {
    let row = host.store().agent(agent)?;
    let row = row.ok_or_else(|| lazaret_host::HostError::NoAgent(agent.to_string()))?;
    Ok(std::sync::Arc::unwrap_or_clone(row))
}

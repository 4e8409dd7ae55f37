//! How things are, and the kill switches.

use axum::Json;
use axum::extract::State;
use lazaret_gate::ledger::{Switch, Switches};
use lazaret_link::{Health, KillRequest, Reply, Request, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Answer, Why};
use crate::keeper::http::problem::{Always, Missing, NotNow, Problem, WithBody};
use crate::keeper::http::take::{Asked, At, Sent};
use crate::keeper::http::{Api, shapes};

/// How the keeper is.
#[derive(Serialize, ToSchema)]
#[schema(as = HealthAnswer)]
pub(crate) struct Well {
    #[schema(value_type = shapes::Health)]
    health: Health,
}

/// Says how the keeper is, to anybody, and nothing else.
#[utoipa::path(
    get, path = "/v1/health", operation_id = "health", tag = "operator", security(()),
    responses((status = 200, description = "It is there", body = Well), Always)
)]
pub(crate) async fn health(State(api): State<Api>) -> Answer<Well> {
    match api.ask(Request::Health).await? {
        Reply::Health(health) => Ok(Json(Well { health })),
        _ => Err(Problem::unexpected()),
    }
}

/// Says what is going on.
#[utoipa::path(
    get, path = "/v1/status", operation_id = "status", tag = "operator",
    responses((status = 200, description = "What is going on", body = shapes::Status), Always)
)]
pub(crate) async fn status(State(api): State<Api>) -> Answer<Status> {
    match api.ask(Request::Status).await? {
        Reply::Status(status) => Ok(Json(*status)),
        _ => Err(Problem::unexpected()),
    }
}

/// A kill switch.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(rename_all = "lowercase")]
#[schema(as = KillSwitch)]
pub(crate) enum Which {
    /// Effects that can cost money.
    Spend,
    /// Every turn and every effect.
    All,
}

impl From<Which> for Switch {
    fn from(which: Which) -> Self {
        match which {
            Which::Spend => Self::Spend,
            Which::All => Self::All,
        }
    }
}

async fn turn(api: &Api, switch: Switch, lift: bool, why: Why) -> Answer<Switches> {
    let Why { by, reason } = why;
    match api.ask(Request::Kill(KillRequest { switch, lift, by, reason })).await? {
        Reply::Switches(switches) => Ok(Json(switches)),
        _ => Err(Problem::unexpected()),
    }
}

/// Says which kill switches are thrown.
#[utoipa::path(
    get, path = "/v1/kill", operation_id = "kill.show", tag = "operator",
    responses((status = 200, description = "The switches", body = shapes::Switches), Always)
)]
pub(crate) async fn switches(State(api): State<Api>) -> Answer<Switches> {
    api.read(|host| Ok(host.rules().1)).await.map(Json)
}

/// Stops all spending, or everything, at once: turns in the middle and effects in flight too.
#[utoipa::path(
    put, path = "/v1/kill/{switch}", operation_id = "kill.throw", tag = "operator",
    params(("switch" = inline(Which), Path, description = "What to stop")), request_body = Why,
    responses((status = 200, description = "The switches now", body = shapes::Switches), Missing, NotNow, WithBody, Always)
)]
pub(crate) async fn throw(State(api): State<Api>, At(which): At<Which>, Sent(why): Sent<Why>) -> Answer<Switches> {
    turn(&api, which.into(), false, why).await
}

/// Lets it go on again.
#[utoipa::path(
    delete, path = "/v1/kill/{switch}", operation_id = "kill.lift", tag = "operator",
    params(("switch" = inline(Which), Path, description = "What to let go on"), Why),
    responses((status = 200, description = "The switches now", body = shapes::Switches),
              (status = 413, description = "The reason is too long", body = shapes::Fault), Missing, NotNow, Always)
)]
pub(crate) async fn lift(State(api): State<Api>, At(which): At<Which>, Asked(why): Asked<Why>) -> Answer<Switches> {
    turn(&api, which.into(), true, why).await
}

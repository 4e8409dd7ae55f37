//! When agents are woken by themselves.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lazaret_gate::AgentId;
use lazaret_gate::record::Message;
use lazaret_gate::schedule::{Missed, ScheduleAdded, When};
use lazaret_host::{Scheduled, now, schedules};
use lazaret_link::{Reply, Request, ScheduleRequest};
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::agents::Mail;
use super::{Answer, somebody};
use crate::commands::schedule::described;
use crate::keeper::http::problem::{Always, Missing, NotNow, Problem, WithBody};
use crate::keeper::http::take::{Asked, At, Sent, Wanted};
use crate::keeper::http::{Api, shapes};

/// Lists the schedules of all agents.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "schedules.list", tag = "schedules",
    responses((status = 200, description = "By agent and name", body = Vec<shapes::Schedule>), Always)
)]
pub(crate) async fn list(State(api): State<Api>) -> Answer<Vec<Value>> {
    api.read(|host| Ok(schedules(host.store())?.iter().map(described).collect())).await.map(Json)
}

/// A schedule to be made. It is due by a calendar (`cron`, and `zone`) or at intervals (`every_ms`), not both.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSchedule)]
pub(crate) struct New {
    /// Its name among the agent's schedules.
    #[schema(pattern = "^[a-z][a-z0-9-]{0,63}$", example = "evening")]
    schedule: String,
    /// Minute, hour, day of the month, month, day of the week.
    #[schema(max_length = 256, example = "30 20 * * MON-FRI")]
    cron: Option<String>,
    /// The time zone that the calendar is meant in, by its name in the tz database; UTC if it isn't given.
    #[schema(max_length = 64, example = "Europe/Berlin")]
    zone: Option<String>,
    /// Milliseconds from one due time to the next, counted from now: one second to 366 days.
    #[schema(minimum = 1_000, maximum = 31_622_400_000_u64)]
    every_ms: Option<u64>,
    /// What becomes of due times that nobody could keep: `skip` passes them over, `once` makes up for all of them with one
    /// message, `all` for each of the last 24.
    #[serde(default = "once")]
    #[schema(value_type = shapes::Missed, default = "once")]
    missed: Missed,
    /// What it says then, 64 KiB at most; nothing if it isn't given.
    #[serde(default)]
    message: Mail,
    /// Who makes it; recorded.
    #[serde(default = "somebody")]
    #[schema(max_length = 4096, default = "the HTTP interface")]
    by: String,
}

impl Wanted for New {}

fn once() -> Missed {
    Missed::Once
}

fn wrong(code: &str, text: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, text)
}

impl New {
    fn of(self, agent: AgentId) -> Result<ScheduleAdded, Problem> {
        let when = match (self.cron, self.zone, self.every_ms) {
            (Some(expression), zone, None) => When::Cron { expression, zone: zone.unwrap_or_else(|| "UTC".to_owned()) },
            (None, None, Some(interval)) => When::Every { from: now().moment.wall_ms, interval },
            (None, Some(_), Some(_)) => return Err(wrong("bad-input", "`zone` belongs to `cron`; leave it out")),
            (Some(_), _, Some(_)) => {
                return Err(wrong("bad-input", "a schedule has `cron` or `every_ms`, not both; leave one out"));
            }
            (None, _, None) => return Err(wrong("bad-input", "say when it is due: `cron` or `every_ms`")),
        };
        let (content_type, body) = self.message.parts()?;
        let message = Message::outside(content_type, body);
        Ok(ScheduleAdded { agent, by: self.by, message, missed: self.missed, schedule: self.schedule, when })
    }
}

/// Makes a schedule: when it is due, a message is put into the agent's mailbox.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/schedules", operation_id = "schedules.add", tag = "schedules",
    params(("agent" = shapes::AgentName, Path)), request_body = New,
    responses((status = 201, description = "It stands", body = shapes::Schedule), Missing, NotNow, WithBody, Always)
)]
pub(crate) async fn add(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Sent(new): Sent<New>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let schedule = new.of(agent)?;
    match api.ask(Request::Schedule(ScheduleRequest::Add(Box::new(schedule.clone())))).await? {
        Reply::Scheduled { next } => Ok((StatusCode::CREATED, Json(described(&Scheduled { schedule, next })))),
        _ => Err(Problem::unexpected()),
    }
}

/// That exactly this schedule is meant, who removes it and why.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Removal {
    /// The schedule's name once more. Nobody misses a schedule that is gone until it should have fired, so that whoever
    /// removes one says so twice.
    #[param(required = true, value_type = String, example = "morning")]
    confirm: Option<String>,
    /// Who does it; recorded.
    #[serde(default = "somebody")]
    #[param(max_length = 4096, default = "the HTTP interface")]
    by: String,
    /// Why; recorded.
    #[serde(default)]
    #[param(max_length = 4096, default = "")]
    reason: String,
}

/// Removes a schedule, if that is confirmed. What it has left in the mailbox stays there.
#[utoipa::path(
    delete, path = "/v1/agents/{agent}/schedules/{schedule}", operation_id = "schedules.remove", tag = "schedules",
    params(("agent" = shapes::AgentName, Path), ("schedule" = String, Path, description = "Its name", example = "morning"), Removal),
    responses((status = 204, description = "It is gone"),
              (status = 413, description = "The reason is too long", body = shapes::Fault),
              (status = 422, description = "It is not confirmed", body = shapes::Fault), Missing, NotNow, Always)
)]
pub(crate) async fn remove(
    State(api): State<Api>,
    At((agent, schedule)): At<(AgentId, String)>,
    Asked(Removal { confirm, by, reason }): Asked<Removal>,
) -> Result<StatusCode, Problem> {
    if confirm.as_deref() != Some(schedule.as_str()) {
        let text = format!(
            "removing schedule `{schedule}` of `{agent}` has to be confirmed; say its name once more, as `confirm` behind \
             the question mark"
        );
        return Err(wrong("unconfirmed", &text));
    }
    let remove = ScheduleRequest::Remove { agent, schedule, by, reason };
    api.ask(Request::Schedule(remove)).await.map(|_| StatusCode::NO_CONTENT)
}

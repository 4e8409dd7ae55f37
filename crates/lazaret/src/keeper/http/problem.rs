//! Errors, as a client of the HTTP interface sees them: a status, and the same fault that the socket gives.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lazaret_host::HostError;
use lazaret_link::Fault;
use lazaret_store::StoreError;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use crate::failure::Failure;

/// A request that was not done.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) fault: Fault,
}

/// The status of a fault. Codes that aren't named here are the keeper's own trouble.
fn status(code: &str) -> StatusCode {
    match code {
        "no-agent" | "no-turn" | "no-entry" | "no-question" | "no-effect" | "no-schedule" => StatusCode::NOT_FOUND,
        "name-taken" | "removed" | "in-doubt" | "not-in-doubt" | "answered" | "expired" | "others" | "killed"
        | "spent" | "halted" | "other-engine" | "unresumable" | "other-question" => StatusCode::CONFLICT,
        "quarantined" | "not-quarantined" | "revoked" | "revocations" | "not-running" | "unfinished" | "stateless"
        | "gone" | "slot-empty" | "vault-locked" | "no-vault" | "schedule-taken" | "too-many-schedules"
        | "still-acting" => StatusCode::CONFLICT,
        "bad-cap" | "bad-budget" | "inadmissible" | "selection" | "bad-decision" | "ambiguous" | "bad-input"
        | "bad-schedule" | "unconfirmed" | "preflight" => StatusCode::UNPROCESSABLE_ENTITY,
        "input-too-large" => StatusCode::PAYLOAD_TOO_LARGE,
        "mailbox-full" | "too-many" => StatusCode::TOO_MANY_REQUESTS,
        "stopping" | "delayed" | "busy" | "disk-full" | "read-only" | "unwritten" | "unsaved" | "begun" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl Problem {
    /// A problem with the request itself.
    pub(crate) fn new(status: StatusCode, code: &str, text: &str) -> Self {
        Self { status, fault: Fault::new(code, text, 3) }
    }

    /// An answer that belongs to another request.
    pub(crate) fn unexpected() -> Self {
        let text = "the keeper answered something else; that is a bug of lazaret, please report it";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", text)
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self { status: status(&fault.code), fault }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let fault = match failure {
            Failure::Store(why) => Failure::Host(HostError::Store(why)).fault(),
            Failure::Input(text) => Fault::new("bad-input", &text, 3),
            Failure::Mismatch(text) => Fault::new("mismatch", &text, 4),
            other => other.fault(),
        };
        fault.into()
    }
}

impl From<HostError> for Problem {
    fn from(why: HostError) -> Self {
        Failure::from(why).into()
    }
}

impl From<StoreError> for Problem {
    fn from(why: StoreError) -> Self {
        HostError::from(why).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // It is kept, or in force: whoever asks again has it done twice.
        let is_done = matches!(&*self.fault.code, "delayed" | "begun" | "unsaved");
        let mut response = (self.status, Json(self.fault)).into_response();
        let more = match self.status {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
            _ if is_done => None,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = more {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

type Documented = BTreeMap<String, RefOr<utoipa::openapi::Response>>;

fn documented(rows: &[(u16, &str)]) -> Documented {
    let fault = || ContentBuilder::new().schema(Some(Ref::from_schema_name("Fault"))).build();
    let row = |(status, text): &(u16, &str)| {
        let response = ResponseBuilder::new().description(*text).content("application/json", fault()).build();
        (status.to_string(), RefOr::T(response))
    };
    rows.iter().map(row).collect()
}

/// What any request can be answered with.
pub(crate) struct Always;

impl utoipa::IntoResponses for Always {
    fn responses() -> Documented {
        let mut all = documented(&[
            (400, "The request can't be read: a name, number or parameter that is none"),
            (401, "The token is missing or wrong"),
            (403, "The request comes from another website's page"),
            (405, "The path has no such method"),
            (421, "The request's `Host` is not this keeper"),
            (500, "The keeper failed; nothing of it is known to be done"),
            (503, "The keeper stops, or its disk is full: the fault says what was done"),
            (504, "It takes too long to wait for; it goes on, and is read when it is on record"),
        ]);
        // Said before there is a request to be answered, so without a fault.
        let head = ResponseBuilder::new().description("The head is too large, or has too many headers").build();
        all.insert("431".to_owned(), RefOr::T(head));
        all
    }
}

/// What any request with a body can be answered with as well.
pub(crate) struct WithBody;

impl utoipa::IntoResponses for WithBody {
    fn responses() -> Documented {
        documented(&[
            (408, "The body came too slowly"),
            (413, "The body, or something in it, is too large"),
            (415, "The body is not `application/json`"),
            (422, "The body is JSON, but not what is asked for, or can't be done as it is"),
        ])
    }
}

/// What a request about something that may not be there can be answered with.
pub(crate) struct Missing;

impl utoipa::IntoResponses for Missing {
    fn responses() -> Documented {
        documented(&[(404, "There is no such thing")])
    }
}

/// What a request that has to wait for another state of affairs can be answered with.
pub(crate) struct NotNow;

impl utoipa::IntoResponses for NotNow {
    fn responses() -> Documented {
        documented(&[(409, "It can't be done as things stand: the code says why")])
    }
}

/// What a request can be answered with of which there may only be so many.
pub(crate) struct TooMany;

impl utoipa::IntoResponses for TooMany {
    fn responses() -> Documented {
        documented(&[(429, "Too many of these are under way, or wait")])
    }
}

#[cfg(test)]
mod tests {
    use lazaret_gate::AgentId;
    use lazaret_host::schedule::BadSchedule;
    use lazaret_store::Unscheduled;

    use super::*;

    fn said(why: HostError) -> (u16, String) {
        let problem = Problem::from(why);
        (problem.status.as_u16(), problem.fault.code)
    }

    #[test]
    fn what_the_caller_can_change_is_not_the_keepers_failure() {
        let agent = || "a".parse::<AgentId>().unwrap();
        let schedule = |why| HostError::Store(StoreError::Schedule { agent: agent(), schedule: "x".into(), why });
        let life = lazaret_host::Life::Revoked;
        for (why, status, code) in [
            (schedule(Unscheduled::Taken), 409, "schedule-taken"),
            (schedule(Unscheduled::Full), 409, "too-many-schedules"),
            (schedule(Unscheduled::Absent), 404, "no-schedule"),
            (HostError::Schedules(10_000), 409, "too-many-schedules"),
            (HostError::Schedule(BadSchedule::Interval(0)), 422, "bad-schedule"),
            (HostError::NotQuarantined(agent()), 409, "not-quarantined"),
            (HostError::Unfinished { agent: agent(), turn: 1 }, 409, "unfinished"),
            (HostError::Stateless(agent()), 409, "stateless"),
            (HostError::Gone { agent: agent(), turn: 1, why: "x".into() }, 409, "gone"),
            (HostError::NotRunning { agent: agent(), life, help: "x".into() }, 409, "not-running"),
            (HostError::Revocations("x".into()), 409, "revocations"),
            (HostError::Wordy { len: 2, most: 1 }, 413, "input-too-large"),
            (HostError::Stopping, 503, "stopping"),
            (HostError::Unvouched(agent()), 500, "unvouched"),
        ] {
            assert_eq!(said(why), (status, code.to_owned()));
        }
    }
}

//! Turns: taken, listed, shown, run again.

use axum::Json;
use axum::extract::State;
use lazaret_gate::record::{Body, Ending, Judged, TurnRecord};
use lazaret_gate::{AgentId, Digest, Rulings, canonical};
use lazaret_host::HostError;
use lazaret_link::{AgentRequest, Replayed, Reply, Request, Taken, TurnsRequest};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::agents::Mail;
use super::{Answer, known};
use crate::keeper::http::problem::{Always, Missing, NotNow, Problem, TooMany, WithBody};
use crate::keeper::http::take::{Asked, At, Sent, page, whole};
use crate::keeper::http::{Api, shapes};

/// Takes a turn with a message, and answers when it is on record.
///
/// A turn that takes longer than a request may goes on: it is answered with 504 and read when it is on record.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/turns", operation_id = "turns.send", tag = "agents", params(("agent" = shapes::AgentName, Path)),
    request_body = Mail,
    responses((status = 200, description = "The turn", body = shapes::Taken), Missing, NotNow, TooMany, WithBody, Always)
)]
pub(crate) async fn send(State(api): State<Api>, At(agent): At<AgentId>, Sent(mail): Sent<Mail>) -> Answer<Taken> {
    let (content_type, body) = mail.parts()?;
    match api.ask(Request::Agent(AgentRequest::Send { agent, content_type, body })).await? {
        Reply::Taken(taken) => Ok(Json(*taken)),
        _ => Err(Problem::unexpected()),
    }
}

/// Which page of turns.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Only turns after this one.
    #[serde(default, deserialize_with = "whole")]
    #[param(default = 0, maximum = 9_007_199_254_740_991_u64)]
    after: Option<u64>,
    /// At most so many.
    #[serde(default, deserialize_with = "page")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u64>,
}

/// A turn in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = TurnLine)]
pub(crate) struct Line {
    /// Its place in the journal.
    seq: u64,
    turn: u64,
    /// When it was put on record, in milliseconds since 1970, UTC.
    time: u64,
    /// `replied`, `failed` or `stopped`.
    ending: &'static str,
    /// Why the host stopped it, if it did.
    cause: Option<&'static str>,
    fuel: u64,
    effects: u64,
    refused: u64,
}

/// Turns of an agent, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = TurnPage)]
pub(crate) struct Lines {
    turns: Vec<Line>,
    /// Ask for more with `after` set to this; null if there are none.
    next: Option<u64>,
}

/// How a turn ended, in a word, and why the host stopped it.
pub(crate) fn ending(ending: &Ending) -> (&'static str, Option<&'static str>) {
    match ending {
        Ending::Replied(_) => ("replied", None),
        Ending::Failed(_) => ("failed", None),
        Ending::Stopped(stop) => ("stopped", Some(stop.cause.name())),
    }
}

fn line(seq: u64, time: u64, record: &TurnRecord) -> Line {
    let refused = record.tape.iter().filter(|entry| entry.outcome.verdict() == "refusal").count() as u64;
    let (ending, cause) = ending(&record.ending);
    let (turn, fuel, effects) = (record.turn, record.fuel, record.tape.len() as u64);
    Line { seq, turn, time, ending, cause, fuel, effects, refused }
}

/// Lists the turns of an agent, oldest first.
#[utoipa::path(
    get, path = "/v1/agents/{agent}/turns", operation_id = "turns.list", tag = "agents", params(("agent" = shapes::AgentName, Path), Page),
    responses((status = 200, description = "A page of them", body = Lines), Missing, Always)
)]
pub(crate) async fn list(
    State(api): State<Api>,
    At(agent): At<AgentId>,
    Asked(Page { after, limit }): Asked<Page>,
) -> Answer<Lines> {
    let (after, limit) = (after.unwrap_or(0), limit.unwrap_or(100));
    let look = move |host: &lazaret_host::Host| {
        known(host, &agent)?;
        let store = host.store();
        let places = store.agent_entries(&agent, Some("turn"), None)?;
        let mut turns = Vec::new();
        for seq in places.into_iter().skip(usize::try_from(after).unwrap_or(usize::MAX)) {
            let entry = store.entry(seq)?;
            let Body::Turn(record) = entry.body else { continue };
            if record.turn <= after {
                continue;
            }
            if turns.len() as u64 == limit {
                let next = turns.last().map(|line: &Line| line.turn);
                return Ok(Lines { turns, next });
            }
            turns.push(line(seq, entry.time, &record));
        }
        Ok(Lines { turns, next: None })
    };
    api.read(look).await.map(Json)
}

/// A turn on record, and how its asks were judged.
#[derive(Serialize, ToSchema)]
#[schema(as = TurnShown)]
pub(crate) struct Shown {
    /// Its place in the journal.
    seq: u64,
    #[schema(value_type = shapes::Digest)]
    hash: Digest,
    /// When it was put on record, in milliseconds since 1970, UTC.
    time: u64,
    #[schema(value_type = shapes::TurnRecord)]
    record: TurnRecord,
    #[schema(value_type = Vec<Object>)]
    rulings: Rulings,
}

/// Shows a turn, whole.
#[utoipa::path(
    get, path = "/v1/agents/{agent}/turns/{turn}", operation_id = "turns.show", tag = "agents",
    params(("agent" = shapes::AgentName, Path), ("turn" = u64, Path, description = "Counts from 1", example = 1)),
    responses((status = 200, description = "The turn", body = Shown), Missing, Always)
)]
pub(crate) async fn show(State(api): State<Api>, At((agent, turn)): At<(AgentId, u64)>) -> Answer<Shown> {
    let look = move |host: &lazaret_host::Host| {
        let taken = known(host, &agent)?.turn;
        let store = host.store();
        let none = || HostError::NoTurn { agent: agent.clone(), turn, taken };
        let seq = if i64::try_from(turn).is_ok() { store.turn_entry(&agent, turn)? } else { None };
        let seq = seq.ok_or_else(none)?;
        let bytes = store.entry_bytes(seq)?;
        let entry = lazaret_gate::entry::Entry::read(&bytes).map_err(HostError::from)?;
        let Body::Turn(record) = entry.body else { return Err(none().into()) };
        let judged: Judged = canonical::decode(&store.blob(&record.judged)?).map_err(HostError::from)?;
        Ok(Shown { seq, hash: Digest::of(&bytes), time: entry.time, record: *record, rulings: judged.rulings })
    };
    api.read(look).await.map(Json)
}

/// Runs a turn again and compares.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/turns/{turn}/replay", operation_id = "turns.replay", tag = "agents",
    params(("agent" = shapes::AgentName, Path), ("turn" = u64, Path, description = "Counts from 1", example = 1)),
    responses((status = 200, description = "What it said", body = shapes::Replayed),
              (status = 422, description = "It can't be selected", body = shapes::Fault), Missing, NotNow, Always)
)]
pub(crate) async fn replay(State(api): State<Api>, At((agent, turn)): At<(AgentId, u64)>) -> Answer<Replayed> {
    let turns = format!("{agent}:{turn}");
    match api.ask(Request::Turns(TurnsRequest::Replay { turns })).await? {
        Reply::Replayed(mut replayed) => replayed.pop().map(Json).ok_or_else(Problem::unexpected),
        _ => Err(Problem::unexpected()),
    }
}

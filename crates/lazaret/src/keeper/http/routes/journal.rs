//! The journal: read, proven, signed, checked.

use axum::Json;
use axum::extract::State;
use lazaret_gate::entry::Entry;
use lazaret_gate::{AgentId, Bytes, Digest};
use lazaret_host::HostError;
use lazaret_link::{Checkpoint, JournalRequest, Reply, Request};
use lazaret_store::{Reader, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Answer, known};
use crate::commands::journal::{Checked, Proven, checked, headline, proven};
use crate::keeper::http::problem::{Always, Missing, Problem, TooMany};
use crate::keeper::http::take::{Asked, At, page, whole};
use crate::keeper::http::{Api, shapes};

/// Which entries.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// From this place on; without it, the newest.
    #[serde(default, deserialize_with = "whole")]
    #[param(maximum = 9_007_199_254_740_991_u64)]
    from: Option<u64>,
    /// At most so many.
    #[serde(default, deserialize_with = "page")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u64>,
    /// Only this agent's.
    #[param(value_type = Option<String>, pattern = "^[a-z][a-z0-9-]{0,63}$")]
    agent: Option<AgentId>,
}

/// An entry in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = JournalLine)]
pub(crate) struct Line {
    seq: u64,
    /// Milliseconds since 1970, UTC.
    time: u64,
    kind: &'static str,
    agent: Option<String>,
    /// In a few words.
    text: String,
}

/// A part of the journal, in order.
#[derive(Serialize, ToSchema)]
#[schema(as = JournalPage)]
pub(crate) struct Lines {
    entries: Vec<Line>,
    /// Entries of the whole journal.
    len: u64,
    /// Ask for more with `from` set to this; null if there are none.
    next: Option<u64>,
}

fn line(entry: &Entry) -> Line {
    let agent = entry.body.agent().map(ToString::to_string);
    Line { seq: entry.seq, time: entry.time, kind: entry.body.kind(), agent, text: headline(entry) }
}

/// The places on a page, and where the next one begins.
fn cut_out(places: &[u64], from: Option<u64>, limit: usize) -> (Vec<u64>, Option<u64>) {
    let begin = match from {
        Some(from) => places.partition_point(|place| *place < from),
        None => places.len().saturating_sub(limit),
    };
    let end = places.len().min(begin.saturating_add(limit));
    (places[begin..end].to_vec(), places.get(end).copied())
}

/// Lists entries of the journal.
#[utoipa::path(
    get, path = "/v1/journal", operation_id = "journal.list", tag = "journal", params(Page),
    responses((status = 200, description = "A page of it", body = Lines), Missing, Always)
)]
pub(crate) async fn list(State(api): State<Api>, Asked(wanted): Asked<Page>) -> Answer<Lines> {
    let limit = wanted.limit.unwrap_or(100);
    let look = move |host: &lazaret_host::Host| {
        let (store, len) = (host.store(), host.store().journal_len()?);
        let (places, next) = match &wanted.agent {
            Some(agent) => {
                known(host, agent)?;
                cut_out(&store.agent_entries(agent, None, None)?, wanted.from, usize::try_from(limit).unwrap_or(1))
            }
            None => {
                let from = wanted.from.unwrap_or(len.saturating_sub(limit)).min(len);
                let end = len.min(from.saturating_add(limit));
                ((from..end).collect(), Some(end).filter(|end| *end < len))
            }
        };
        let entries = places.into_iter().map(|seq| store.entry(seq).map(|entry| line(&entry)));
        Ok(Lines { entries: entries.collect::<Result<_, _>>()?, len, next })
    };
    api.read(look).await.map(Json)
}

/// An entry, whole.
#[derive(Serialize, ToSchema)]
#[schema(as = JournalEntry)]
pub(crate) struct Shown {
    #[schema(value_type = shapes::Digest)]
    hash: Digest,
    /// `body` has one member, named by the entry's kind; `prev` is the hash of the entry before.
    #[schema(value_type = Object)]
    entry: Entry,
}

fn bytes_of(reader: &Reader, seq: u64) -> Result<Vec<u8>, Problem> {
    // Places that the database can't even name are not there.
    let len = reader.journal_len()?;
    if seq >= len {
        return Err(StoreError::NoSuchEntry { seq, len }.into());
    }
    Ok(reader.entry_bytes(seq)?)
}

/// Shows an entry, whole.
#[utoipa::path(
    get, path = "/v1/journal/{entry}", operation_id = "journal.show", tag = "journal",
    params(("entry" = u64, Path, description = "Its place, from 0", example = 0)),
    responses((status = 200, description = "The entry", body = Shown), Missing, Always)
)]
pub(crate) async fn show(State(api): State<Api>, At(seq): At<u64>) -> Answer<Shown> {
    let look = move |host: &lazaret_host::Host| {
        let bytes = bytes_of(host.store(), seq)?;
        let entry = Entry::read(&bytes).map_err(HostError::from)?;
        Ok(Shown { hash: Digest::of(&bytes), entry })
    };
    api.read(look).await.map(Json)
}

/// Proves that an entry is in the signed journal.
#[utoipa::path(
    get, path = "/v1/journal/{entry}/proof", operation_id = "journal.proof", tag = "journal",
    params(("entry" = u64, Path, description = "Its place, from 0", example = 0)),
    responses((status = 200, description = "An inclusion proof (RFC 6962)", body = Proven), Missing, Always)
)]
pub(crate) async fn proof(State(api): State<Api>, At(seq): At<u64>) -> Answer<Proven> {
    let look = move |host: &lazaret_host::Host| {
        bytes_of(host.store(), seq)?;
        Ok(proven(host.store(), seq)?)
    };
    api.read(look).await.map(Json)
}

/// The newest signed checkpoint, over the whole journal.
#[utoipa::path(
    get, path = "/v1/journal/checkpoint", operation_id = "journal.checkpoint", tag = "journal",
    responses((status = 200, description = "The checkpoint", body = shapes::Checkpoint), Always)
)]
pub(crate) async fn checkpoint(State(api): State<Api>) -> Answer<Checkpoint> {
    let look = |host: &lazaret_host::Host| {
        let (checkpoint, note) = host.store().head()?;
        Ok(Checkpoint { size: checkpoint.size, root: Bytes(checkpoint.root.to_vec()), note })
    };
    api.read(look).await.map(Json)
}

/// Signs and keeps a checkpoint.
#[utoipa::path(
    post, path = "/v1/journal/checkpoint", operation_id = "journal.sign", tag = "journal",
    responses((status = 200, description = "The checkpoint", body = shapes::Checkpoint), Always)
)]
pub(crate) async fn sign(State(api): State<Api>) -> Answer<Checkpoint> {
    match api.ask(Request::Journal(JournalRequest::Checkpoint)).await? {
        Reply::Checkpoint(checkpoint) => Ok(Json(checkpoint)),
        _ => Err(Problem::unexpected()),
    }
}

/// Checks the journal from its first byte, its signatures, and all else in the data root. A journal that is not what was
/// signed is answered with 500 and the code `mismatch` or `damaged`.
#[utoipa::path(
    post, path = "/v1/journal/verify", operation_id = "journal.verify", tag = "journal",
    responses((status = 200, description = "It is what was signed", body = Checked), TooMany, Always)
)]
pub(crate) async fn verify(State(api): State<Api>) -> Answer<Checked> {
    api.read_all(|host| Ok(checked(host.store(), |_| ())?)).await.map(Json)
}

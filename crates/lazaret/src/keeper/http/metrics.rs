//! Figures for Prometheus. No label has values that an agent or client can choose: there are never more series than there
//! are kinds of things.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use lazaret_store::Committed;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::connections::OPEN;
use super::limits::STREAMS;
use super::problem::{Always, Problem};
use super::{Api, Watcher};

type One = [(&'static str, &'static str); 1];
type Two = [(&'static str, &'static str); 2];

/// Seconds; a flush takes 0.1 ms on a good disk and 50 ms on a bad one.
const COMMIT: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0];
const TURN: [f64; 10] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// All of them.
pub(crate) struct Metrics {
    registry: Registry,
    turns: Family<One, Counter>,
    stops: Family<One, Counter>,
    effects: Family<Two, Counter>,
    refusals: Family<One, Counter>,
    answers: Family<One, Counter>,
    turn_time: Histogram,
    commit_time: Histogram,
    batches: Counter,
    journal: Gauge,
    now: Now,
}

/// What is looked up when somebody asks.
#[derive(Default)]
struct Now {
    agents: Family<One, Gauge>,
    pending: Gauge,
    mail: Gauge,
    longest: Gauge,
    under_way: Gauge,
    in_flight: Gauge,
    connections: Gauge,
    streams: Gauge,
    killed: Family<One, Gauge>,
    troubled: Gauge,
    unwritten: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("lazaret");
        let metrics = Self {
            turns: Family::default(),
            stops: Family::default(),
            effects: Family::default(),
            refusals: Family::default(),
            answers: Family::default(),
            turn_time: Histogram::new(TURN),
            commit_time: Histogram::new(COMMIT),
            batches: Counter::default(),
            journal: Gauge::default(),
            now: Now::default(),
            registry: Registry::default(),
        };
        registry.register("turns", "Turns on record, by how they ended", metrics.turns.clone());
        registry.register("turns_stopped", "Turns that the host stopped, by cause", metrics.stops.clone());
        registry.register("effects", "Asks on record, by kind and verdict", metrics.effects.clone());
        registry.register("refusals", "Asks that the gate refused, by code", metrics.refusals.clone());
        registry.register("approvals_answered", "Questions that are over, by answer", metrics.answers.clone());
        let seconds = Unit::Seconds;
        registry.register_with_unit("turn", "How long turns took, people included", seconds, metrics.turn_time.clone());
        registry.register_with_unit(
            "commit",
            "How long commits took to write and flush",
            Unit::Seconds,
            metrics.commit_time.clone(),
        );
        registry.register("batches_committed", "Batches in those commits", metrics.batches.clone());
        registry.register("journal_entries", "Entries of the journal", metrics.journal.clone());
        metrics.now.register(&mut registry);
        Self { registry, ..metrics }
    }

    pub(crate) fn committed(&self, committed: &Committed) {
        self.commit_time.observe(committed.took.as_secs_f64());
        self.batches.inc_by(committed.batches as u64);
        self.journal.set(i64::try_from(committed.journal).unwrap_or(i64::MAX));
    }

    pub(crate) fn turned(&self, ending: &'static str, took: Duration) {
        self.turns.get_or_create(&[("ending", ending)]).inc();
        self.turn_time.observe(took.as_secs_f64());
    }

    pub(crate) fn stopped(&self, cause: &'static str) {
        self.stops.get_or_create(&[("cause", cause)]).inc();
    }

    pub(crate) fn asked(&self, kind: &'static str, verdict: &'static str) {
        self.effects.get_or_create(&[("kind", kind), ("verdict", verdict)]).inc();
    }

    pub(crate) fn refused(&self, code: &'static str) {
        self.refusals.get_or_create(&[("code", code)]).inc();
    }

    pub(crate) fn answered(&self, verdict: &'static str) {
        self.answers.get_or_create(&[("verdict", verdict)]).inc();
    }
}

impl Now {
    fn register(&self, registry: &mut Registry) {
        registry.register("agents", "Agents, by state", self.agents.clone());
        registry.register("approvals_pending", "Questions that wait", self.pending.clone());
        registry.register("mailbox_messages", "Messages that wait in mailboxes", self.mail.clone());
        registry.register("mailbox_longest", "Messages in the fullest mailbox", self.longest.clone());
        registry.register("requests_under_way", "Requests that the keeper answers", self.under_way.clone());
        registry.register("requests_unwritten", "Requests whose answers aren't written yet", self.in_flight.clone());
        registry.register("http_connections", "Open connections to the HTTP interface", self.connections.clone());
        registry.register("event_streams", "Open event streams", self.streams.clone());
        registry.register("agents_troubled", "Agents that want a turn and can't have it", self.troubled.clone());
        registry.register("commits_failing", "Whether the last commit could not be written", self.unwritten.clone());
        registry.register("killed", "Whether a kill switch is thrown", self.killed.clone());
    }
}

/// What has to be read from the data root.
struct Figures {
    agents: BTreeMap<&'static str, i64>,
    mail: usize,
    longest: usize,
    pending: usize,
    journal: u64,
    killed: [(&'static str, bool); 2],
}

fn figures(host: &lazaret_host::Host) -> Result<Figures, Problem> {
    let mut agents = BTreeMap::new();
    let (mut mail, mut longest) = (0, 0);
    for row in host.store().agents_now()? {
        *agents.entry(row.state.name()).or_insert(0) += 1;
        mail += row.queued.len();
        longest = longest.max(row.queued.len());
    }
    let (pending, journal) = (host.approvals().pending()?.len(), host.store().acknowledged());
    let switches = host.rules().1;
    let killed = [("spend", switches.spend.is_some()), ("all", switches.all.is_some())];
    Ok(Figures { agents, mail, longest, pending, journal, killed })
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn text(api: &Api, watcher: &Watcher, figures: &Figures) -> Result<String, std::fmt::Error> {
    let (metrics, shared) = (&watcher.metrics, api.shared());
    let now = &metrics.now;
    // A state that no agent is in any more is not listed.
    now.agents.clear();
    for (state, count) in &figures.agents {
        now.agents.get_or_create(&[("state", *state)]).set(*count);
    }
    for (switch, thrown) in figures.killed {
        now.killed.get_or_create(&[("switch", switch)]).set(i64::from(thrown));
    }
    now.pending.set(whole(figures.pending));
    now.mail.set(whole(figures.mail));
    now.longest.set(whole(figures.longest));
    now.under_way.set(i64::try_from(shared.keeper.under_way()).unwrap_or(i64::MAX));
    now.in_flight.set(i64::try_from(shared.in_flight()).unwrap_or(i64::MAX));
    now.connections.set(OPEN.load(Ordering::Relaxed));
    now.streams.set(whole(STREAMS.saturating_sub(api.streams().available_permits())));
    let troubled = shared.keeper.supervisor().map_or(0, |supervisor| supervisor.status().troubles.len());
    now.troubled.set(whole(troubled));
    now.unwritten.set(i64::from(shared.keeper.host().store().unwritten().is_some()));
    metrics.journal.set(i64::try_from(figures.journal).unwrap_or(i64::MAX));
    let mut text = String::new();
    encode(&mut text, &metrics.registry)?;
    Ok(text)
}

/// Figures for Prometheus, in the OpenMetrics text format.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "operator",
    responses((status = 200, description = "The figures", body = String,
               content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"), Always)
)]
pub(crate) async fn serve(State(api): State<Api>) -> Result<Response, Problem> {
    let figures = api.read(figures).await?;
    let text = text(&api, api.watcher(), &figures).map_err(|_| Problem::unexpected())?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

//! Traces over OTLP/HTTP: one span for each turn, with a child for each of its effects, named and described as
//! OpenTelemetry's conventions for generative AI and HTTP have it where they fit.
//!
//! Written as the protocol's JSON by hand: the crates for it cost a minute of building and bring a second HTTP client.
//! What agents' requests leave by sends it, to the one place that the operator's environment names. A turn hands its spans over if there is room and goes on; a thread of its own sends them. If nobody takes them they are
//! dropped, and that is logged now and then.

mod span;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use lazaret_exec::egress::{Ask, Egress, Limits, Settings};
use lazaret_gate::address::Destinations;
use lazaret_gate::{Target, shown};
use lazaret_host::Observed;
use serde_json::{Value, json};
use tracing::{info, warn};

/// Where a collector listens; paths are added as OpenTelemetry has it.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The same for traces alone, used as it is.
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// `name=value` each, with commas between.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Who the collector is told that this is.
const SERVICE: &str = "OTEL_SERVICE_NAME";

/// Whether prompts, arguments and answers are sent too.
const CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Turns that may wait to be sent.
const QUEUE: usize = 256;

/// Spans in one request.
const BATCH: usize = 2_000;

/// How long spans are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(500);

/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of spans in one request: many times what a batch has, if contents aren't sent.
const MAX_SPANS: usize = 64 << 20;

/// How often it is logged that spans are lost.
const COMPLAIN: Duration = Duration::from_secs(60);

/// How long the last spans may take when the keeper ends.
const LAST: Duration = Duration::from_secs(1);

/// Hands spans to the thread that sends them.
pub(crate) struct Exporter {
    queue: Mutex<Option<SyncSender<Vec<Value>>>>,
    content: bool,
    lost: std::sync::Arc<AtomicU64>,
    done: std::sync::Arc<AtomicBool>,
}

/// Where spans go.
struct Collector {
    url: Target,
    headers: Vec<(String, String)>,
    service: String,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A header's value as OpenTelemetry has it in the environment: in percent escapes where that is needed.
fn decoded(value: &str) -> String {
    percent_encoding::percent_decode_str(value).decode_utf8().map_or_else(|_| value.to_owned(), Into::into)
}

impl Collector {
    fn find() -> Option<Self> {
        let url = variable(TRACES).or_else(|| {
            let base = variable(ENDPOINT)?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        })?;
        let url = match Target::parse(&url) {
            Ok(url) => url,
            Err(why) => {
                // A password may stand in it, and then it says so without that.
                let url = if url.contains('@') { "(with a name or password in it)".into() } else { shown::text(&url) };
                warn!(url, %why, "not an address of a collector: no traces are sent");
                return None;
            }
        };
        let headers = variable(HEADERS).unwrap_or_default();
        let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.trim().into(), decoded(value.trim())));
        let headers = headers.split(',').filter_map(pair).collect();
        Some(Self { url, headers, service: variable(SERVICE).unwrap_or_else(|| "lazaret".to_owned()) })
    }

    fn send(&self, egress: &Egress, spans: &[Value]) -> Result<(), String> {
        let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        let resource = [text("service.name", &self.service), text("service.version", env!("CARGO_PKG_VERSION"))];
        let body = json!({ "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "lazaret", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
        }] });
        let own = [("content-type", "application/json"), ("user-agent", "lazaret")];
        let own = own.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        let given = self.headers.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec()));
        let ask = Ask {
            method: "POST".to_owned(),
            url: self.url.clone(),
            headers: own.into_iter().chain(given).collect(),
            body: body.to_string().into_bytes(),
            most: None,
        };
        // Whoever starts the keeper named it, wherever it is.
        let answer = egress.fetch(ask, &Destinations::everywhere(), &mut || false);
        match answer.ok_or("it was cut off")?.map_err(|why| why.to_string())?.status {
            200..=299 => Ok(()),
            status => Err(format!("it answers {status}")),
        }
    }
}

impl Exporter {
    /// Starts to export, if the environment names a collector.
    pub(crate) fn start() -> Option<Self> {
        let collector = Collector::find()?;
        let (queue, spans) = sync_channel(QUEUE);
        let (lost, done) = (std::sync::Arc::new(AtomicU64::new(0)), std::sync::Arc::new(AtomicBool::new(false)));
        let (lost_too, done_too) = (std::sync::Arc::clone(&lost), std::sync::Arc::clone(&done));
        info!(url = shown::text(collector.url.as_str()), "traces are sent");
        let started = std::thread::Builder::new().name("lazaret-otlp".into()).spawn(move || {
            export(&collector, &spans, &lost_too);
            done_too.store(true, Ordering::SeqCst);
        });
        if let Err(why) = started {
            warn!(%why, "no traces are sent");
            return None;
        }
        let content = variable(CONTENT).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        Some(Self { queue: Mutex::new(Some(queue)), content, lost, done })
    }

    /// Hands a turn's spans over, if there is room.
    pub(crate) fn turned(&self, observed: &Observed<'_>) {
        let spans = span::of_turn(observed, self.content);
        let count = spans.len() as u64;
        let queue = self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if queue.is_none_or(|queue| queue.try_send(spans).is_err()) {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Takes no more, and waits a moment for what there is to be sent.
    pub(crate) fn end(&self) {
        drop(self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
        let begun = Instant::now();
        while !self.done.load(Ordering::SeqCst) && begun.elapsed() < LAST {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Sends what comes until nobody hands over any more.
fn export(collector: &Collector, queue: &Receiver<Vec<Value>>, lost: &AtomicU64) {
    let limits = Limits { total: PATIENCE, ask_body: MAX_SPANS, ..Limits::default() };
    let egress = Egress::new(Settings { limits, ..Settings::default() });
    let mut complained: Option<Instant> = None;
    while let Ok(mut spans) = queue.recv() {
        let until = Instant::now() + GATHER;
        while spans.len() < BATCH {
            match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(more) => spans.extend(more),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let sent = collector.send(&egress, &spans);
        if sent.is_err() {
            lost.fetch_add(spans.len() as u64, Ordering::Relaxed);
        }
        let quiet = complained.is_none_or(|at| at.elapsed() >= COMPLAIN);
        if quiet && lost.load(Ordering::Relaxed) > 0 {
            let why = sent.err().unwrap_or_else(|| "it is too slow".to_owned());
            let spans = lost.swap(0, Ordering::Relaxed);
            warn!(spans, why = shown::text(&why), "the collector of traces does not take them");
            complained = Some(Instant::now());
        }
    }
}

//! Hears of commits and turns as they happen, and passes them on: to figures, to streams, to traces. Called on the threads
//! that take turns, so it counts, hands over if there is room, and never waits.

use std::sync::Arc;

use lazaret_gate::record::Ending;
use lazaret_gate::{AgentId, Outcome};
use lazaret_host::{Host, Observed, Observer};
use tokio::sync::{broadcast, watch};

use super::limits::LIVE;
use super::metrics::Metrics;
use crate::keeper::traces::Exporter;

/// Something that happens and is not on record as such.
#[derive(Clone, Debug)]
pub(crate) struct Warning {
    pub(crate) agent: AgentId,
    pub(crate) turn: u64,
    pub(crate) seq: u64,
    pub(crate) text: String,
}

/// Whoever watches a host.
pub(crate) struct Watcher {
    pub(crate) metrics: Metrics,
    /// Entries of the journal.
    grown: watch::Sender<u64>,
    live: broadcast::Sender<Arc<Warning>>,
    exporter: Option<Exporter>,
}

impl Watcher {
    /// Watches a host from here on.
    pub(crate) fn new(host: &Host, exporter: Option<Exporter>) -> Arc<Self> {
        let len = host.store().journal_len().unwrap_or(0);
        let watcher = Arc::new(Self {
            metrics: Metrics::new(),
            grown: watch::channel(len).0,
            live: broadcast::channel(LIVE).0,
            exporter,
        });
        let told = Arc::downgrade(&watcher);
        host.store().listen(Box::new(move |committed| {
            if let Some(watcher) = told.upgrade() {
                watcher.metrics.committed(&committed);
                // Commits without entries tell nobody anything new.
                watcher.grown.send_if_modified(|len| std::mem::replace(len, committed.journal) != committed.journal);
            }
        }));
        let observer: Arc<dyn Observer> = Arc::<Self>::clone(&watcher);
        host.observe(observer);
        watcher
    }

    /// Changes when the journal has grown.
    pub(crate) fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Budgets that come near a cap when a turn is over.
    pub(crate) fn live(&self) -> broadcast::Receiver<Arc<Warning>> {
        self.live.subscribe()
    }

    /// Sends what traces there still are, if that is quick.
    pub(crate) fn end(&self) {
        if let Some(exporter) = &self.exporter {
            exporter.end();
        }
    }
}

impl Observer for Watcher {
    fn turned(&self, observed: Observed<'_>) {
        let turn = observed.turn;
        let (ending, _) = super::routes::ending(&turn.record.ending);
        self.metrics.turned(ending, observed.took);
        if let Ending::Stopped(stop) = &turn.record.ending {
            self.metrics.stopped(stop.cause.name());
        }
        for ask in &turn.record.tape {
            let verdict = match &ask.outcome {
                Outcome::Done(_) => "done",
                Outcome::Failed(_) => "failed",
                Outcome::Refused(refusal) => {
                    self.metrics.refused(refusal.code.name());
                    "refused"
                }
            };
            self.metrics.asked(ask.effect.kind(), verdict);
        }
        for asked in turn.rulings.iter().flat_map(|ruling| &ruling.asked) {
            self.metrics.answered(super::events::verdict(asked));
        }
        for text in &turn.warnings {
            let (agent, turn, seq) = (turn.record.agent.clone(), turn.record.turn, turn.seq);
            let _ = self.live.send(Arc::new(Warning { agent, turn, seq, text: text.clone() }));
        }
        if let Some(exporter) = &self.exporter {
            exporter.turned(&observed);
        }
    }
}

//! What happens, as it happens: server-sent events.
//!
//! What is on record comes from the journal. Every stream reads it from its own place, so that one that is slow falls behind
//! alone; an event's id is that place, and whoever shows it again goes on after it. An entry that makes several events
//! numbers all but the last: `17.0`, `17.1`, `17`. Questions that wait, and budgets that a turn has brought near a cap, are
//! told as they are, without an id.

mod tell;
mod wish;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use lazaret_gate::approval::Question;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::connections::told;
use super::limits::{GATHER, HEARTBEAT, QUESTIONS, STREAMS};
use super::problem::{Always, Problem, TooMany};
use super::take::Asked;
use super::{Api, limits, shapes};
use crate::keeper::shared::Phase;
pub(crate) use tell::verdict;
use tell::{Event, Teller};
use wish::{Place, Wish};

/// The questions that wait, for all streams. Looked at only while there are any.
static WAITING: std::sync::LazyLock<watch::Sender<Arc<Vec<Question>>>> =
    std::sync::LazyLock::new(|| watch::channel(Arc::default()).0);

/// Looks for questions while anybody streams.
pub(crate) async fn look_for_questions(api: Api) {
    loop {
        sleep(QUESTIONS).await;
        if api.streams().available_permits() == STREAMS {
            // Whoever comes next isn't told of what is over by then.
            WAITING.send_if_modified(|known| !std::mem::take(known).is_empty());
            continue;
        }
        if let Ok(found) = api.read(|host| Ok(host.approvals().pending()?)).await {
            WAITING.send_if_modified(|known| {
                let same = known.iter().map(|it| &it.id).eq(found.iter().map(|it| &it.id));
                *known = Arc::new(found);
                !same
            });
        }
    }
}

/// Streams what happens.
///
/// Types: `turn`, `effect-proposed`, `effect-asked`, `approval-answered`, `effect-permitted`, `effect-refused`,
/// `effect-executed`, `budget-warning`, `switch-changed`, `agent-created`, `agent-removed`, `in-doubt`, `settled` and every
/// other kind of journal entry by its name; and, without an id, `question` and `question-over`.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "journal",
    params(Wish, ("Last-Event-ID" = Option<String>, Header, description = "Go on after this event; before `since`")),
    responses((status = 200, description = "Events", body = shapes::Event,
               content_type = "text/event-stream"), TooMany, Always)
)]
pub(crate) async fn serve(
    State(api): State<Api>,
    headers: HeaderMap,
    Asked(wish): Asked<Wish>,
) -> Result<Response, Problem> {
    let wanted = wish.understood()?;
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let from = match last.or(wish.since.as_deref()) {
        Some(text) => {
            let from = text.parse::<Place>().map_err(|()| wish::bad("an event's id", text))?;
            // Of another journal, or of this one before it was put back: to wait until it is as long again would pass over all
            // that is new in it.
            let entries = api.shared().keeper.host().store().acknowledged();
            if from > Place::after_all(entries) {
                return Err(wish::bad(&format!("an event of this journal, which has {entries} entries"), text));
            }
            from
        }
        None => Place::after_all(*api.watcher().grown().borrow()),
    };
    let place = Arc::clone(api.streams()).try_acquire_owned().map_err(|_| {
        let text = format!("{STREAMS} event streams are open, which is the most; close one");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", &text)
    })?;
    let (sender, receiver) = mpsc::channel(1);
    let stream = Stream {
        teller: Some(Teller::new(wanted)),
        from,
        told: from,
        follow: wish.follow,
        sender,
        questions: BTreeMap::new(),
    };
    tokio::spawn(stream.run(api, place));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::new(Events(receiver))).into_response())
}

/// Returns when the keeper takes no more work.
async fn ending(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| !matches!(phase, Phase::Up)).await;
}

/// The stream as the client gets it.
struct Events(mpsc::Receiver<Bytes>);

impl HttpBody for Events {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The stream as it is written.
struct Stream {
    /// Away while it reads.
    teller: Option<Teller>,
    /// Where it reads on.
    from: Place,
    /// The last place that the client knows of.
    told: Place,
    follow: bool,
    sender: mpsc::Sender<Bytes>,
    /// The questions that the client knows of.
    questions: BTreeMap<String, ()>,
}

/// The client is gone.
struct Gone;

impl Stream {
    async fn run(mut self, api: Api, place: OwnedSemaphorePermit) {
        // Said at once, so that whoever connects knows that it is heard, and how soon to come back.
        if self.say("retry: 1000\n\n").await.is_ok() {
            let _ = self.go_on(&api).await;
        }
        drop(place);
    }

    async fn go_on(&mut self, api: &Api) -> Result<(), Gone> {
        let (mut grown, mut live) = (api.watcher().grown(), api.watcher().live());
        let (mut waiting, mut stop) = (WAITING.subscribe(), api.stop());
        let mut phase = api.shared().ending.watch();
        waiting.mark_changed();
        loop {
            let len = *grown.borrow_and_update();
            if self.from.seq < len {
                let before = self.from;
                self.read(api).await?;
                if self.from == before {
                    // Told of, but not to be read yet.
                    sleep(QUESTIONS).await;
                }
                if phase.has_changed().is_err() || !matches!(*phase.borrow(), Phase::Up) {
                    return Ok(());
                }
                continue;
            }
            if !self.follow {
                return Ok(());
            }
            let beat = sleep_until(Instant::now() + HEARTBEAT);
            let sender = self.sender.clone();
            tokio::select! {
                changed = grown.changed() => {
                    changed.map_err(|_| Gone)?;
                    sleep(GATHER).await;
                }
                changed = waiting.changed() => {
                    changed.map_err(|_| Gone)?;
                    let now = Arc::clone(&waiting.borrow_and_update());
                    self.tell_questions(&now).await?;
                }
                warned = live.recv() => match warned {
                    Ok(it) => {
                        let it = json!({ "agent": it.agent, "turn": it.turn, "seq": it.seq, "text": it.text });
                        self.tell_live("budget-warning", it).await?;
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = beat => self.beat().await?,
                () = told(&mut stop) => return Ok(()),
                () = ending(&mut phase) => return Ok(()),
                () = sender.closed() => return Err(Gone),
            }
        }
    }

    /// Reads some of the journal and tells of it.
    async fn read(&mut self, api: &Api) -> Result<(), Gone> {
        let Some(mut teller) = self.teller.take() else { return Err(Gone) };
        let from = self.from;
        let read = api.read(move |host| {
            let read = teller.read(host.store(), from);
            Ok((teller, read))
        });
        match read.await {
            Ok((teller, Ok((events, next)))) => {
                self.teller = Some(teller);
                let mut text = String::new();
                for event in &events {
                    event.write(&mut text);
                    self.told = event.place;
                }
                if !text.is_empty() {
                    self.say(&text).await?;
                }
                self.from = next;
                Ok(())
            }
            Ok((_, Err(problem))) | Err(problem) => {
                let why = problem.fault.text();
                warn!(why = lazaret_gate::shown::text(&why), "an event stream can't read the journal");
                let text = Event::live("error", &json!({ "code": problem.fault.code, "message": why }));
                let _ = self.say(&text).await;
                Err(Gone)
            }
        }
    }

    async fn tell_questions(&mut self, now: &[Question]) -> Result<(), Gone> {
        let over: Vec<_> = self.questions.keys().filter(|id| !now.iter().any(|it| it.id == **id)).cloned().collect();
        for id in over {
            self.questions.remove(&id);
            self.tell_live("question-over", json!({ "question": id })).await?;
        }
        for question in now {
            if self.questions.insert(question.id.clone(), ()).is_none() {
                let Some(teller) = &self.teller else { continue };
                let told = teller.question(question);
                self.tell_live("question", told).await?;
            }
        }
        Ok(())
    }

    async fn tell_live(&mut self, kind: &str, data: serde_json::Value) -> Result<(), Gone> {
        let wanted = self.teller.as_ref().is_some_and(|teller| teller.wants(kind, &data));
        if wanted { self.say(&Event::live(kind, &data)).await } else { Ok(()) }
    }

    /// A sign of life; and, if all that came was not asked for, how far the stream is.
    async fn beat(&mut self) -> Result<(), Gone> {
        let at = Place::after_all(self.from.seq);
        if at > self.told {
            self.told = at;
            return self.say(&format!("id: {at}\n\n")).await;
        }
        self.say(":\n\n").await
    }

    /// Hands a piece over, which waits for the client to have taken those before.
    async fn say(&mut self, text: &str) -> Result<(), Gone> {
        // A client that takes nothing is cut off by its connection; this is the backstop.
        let patience = limits::STALL + Duration::from_secs(10);
        let said = tokio::time::timeout(patience, self.sender.send(Bytes::from(text.to_owned()))).await;
        said.map_err(|_| Gone)?.map_err(|_| Gone)
    }
}

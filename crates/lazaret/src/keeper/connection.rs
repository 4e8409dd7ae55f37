//! One connection on the local socket.

use std::sync::Arc;
use std::time::Duration;

use lazaret_link::{Ask, Fault, Session, Step, Ticket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, warn};
use zeroize::Zeroize as _;

use super::limits::{CHUNK, IDLE, IN_FLIGHT, LINE, STRANGER_IDLE, STRANGER_LINE, WRITE};
use super::shared::Shared;

/// Why a connection ends that did nothing wrong.
fn say(code: &str, text: &str) -> Vec<u8> {
    Ticket::unasked().say(Err(Fault::new(code, text, 7)))
}

/// Says that there is no room. Never waits: the other side may not listen.
pub(crate) fn turn_away(stream: &UnixStream) {
    let _ = stream.try_write(&say("too-many", "too many connections; try again when some have ended"));
}

/// Whether whoever connected is the user that the keeper runs as, or root.
fn may_ask(stream: &UnixStream) -> bool {
    let me = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == me || peer.uid() == 0)
}

pub(crate) async fn serve(stream: UnixStream, shared: Arc<Shared>) {
    if !may_ask(&stream) {
        warn!("somebody else's process was turned away");
        let _ = stream.try_write(&say("not-you", "this keeper answers only its own user"));
        return;
    }
    let (reader, writer) = stream.into_split();
    let session = Session::new(shared.token.clone());
    let writer = Arc::new(Mutex::new(writer));
    let waiting = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut connection = Connection { session, shared, reader, writer, waiting, begun: Instant::now(), partial: None };
    connection.run().await;
    // What was asked is answered, even if nothing more is asked.
    let _ = connection.waiting.acquire_many(IN_FLIGHT as u32).await;
}

struct Connection {
    session: Session,
    shared: Arc<Shared>,
    reader: OwnedReadHalf,
    writer: Arc<Mutex<OwnedWriteHalf>>,
    /// A permit for each answer that may still be waited for.
    waiting: Arc<Semaphore>,
    begun: Instant,
    /// Since when a line waits for its end.
    partial: Option<Instant>,
}

impl Connection {
    async fn run(&mut self) {
        let mut bytes = vec![0; CHUNK];
        loop {
            let until = self.until();
            let steps = match timeout_at(until, self.reader.read(&mut bytes)).await {
                Ok(Ok(0)) | Ok(Err(_)) => self.session.end(false),
                Ok(Ok(len)) => {
                    let now_ms = self.begun.elapsed().as_millis() as u64;
                    let steps = self.session.take(&bytes[..len], now_ms);
                    // A value may have come this way.
                    bytes[..len].zeroize();
                    self.note_partial(!steps.is_empty());
                    if self.follow(steps).await {
                        continue;
                    }
                    return;
                }
                Err(_) if self.partial.is_some() => self.session.end(true),
                // Somebody who waits for an answer has nothing to say.
                Err(_) if self.waiting.available_permits() < IN_FLIGHT => continue,
                Err(_) => {
                    let text = "nothing was said for too long; connect again";
                    self.write(&say("idle", text)).await;
                    return;
                }
            };
            self.follow(steps).await;
            return;
        }
    }

    /// Until when something has to come.
    fn until(&self) -> Instant {
        let known = self.session.is_known();
        match self.partial {
            Some(since) => since + if known { LINE } else { STRANGER_LINE },
            None => Instant::now() + if known { IDLE } else { STRANGER_IDLE },
        }
    }

    /// A line has its time from its first byte on, however slowly the others come.
    fn note_partial(&mut self, ended: bool) {
        if !self.session.is_partial() {
            self.partial = None;
        } else if ended || self.partial.is_none() {
            self.partial = Some(Instant::now());
        }
    }

    /// Does what follows from what was said. False if that is the end.
    async fn follow(&mut self, steps: Vec<Step>) -> bool {
        for step in steps {
            let goes_on = match step {
                Step::Say(bytes) => self.write(&bytes).await,
                Step::Ask(ask) => self.answer(*ask).await,
                Step::Close => false,
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    async fn write(&self, bytes: &[u8]) -> bool {
        write(&self.writer, bytes).await
    }

    async fn answer(&self, ask: Ask) -> bool {
        let Ask { ticket, request } = ask;
        let begun = self.shared.begin();
        if request.is_open() || ticket.is_plain() {
            // Plain text has no ids: its answers come in order.
            let answer = self.shared.ask(request).await;
            let written = self.write(&ticket.say(answer)).await;
            drop(begun);
            return written;
        }
        let Ok(place) = Arc::clone(&self.waiting).acquire_owned().await else { return false };
        let (shared, writer) = (Arc::clone(&self.shared), Arc::clone(&self.writer));
        tokio::spawn(async move {
            let answer = shared.ask(request).await;
            write(&writer, &ticket.say(answer)).await;
            drop((begun, place));
        });
        true
    }
}

/// Writes all of it, for as long as the other side takes some.
async fn write(writer: &Mutex<OwnedWriteHalf>, bytes: &[u8]) -> bool {
    let mut writer = writer.lock().await;
    for chunk in bytes.chunks(CHUNK) {
        match timeout(WRITE, writer.write_all(chunk)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return false,
            Err(_) => {
                debug!(after = ?Duration::as_secs(&WRITE), "a client does not take its answer");
                return false;
            }
        }
    }
    true
}

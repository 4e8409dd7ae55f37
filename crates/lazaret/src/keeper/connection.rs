//! One connection on the local socket, and the thread that attends to it.
//!
//! The thread reads what is asked, answers it itself and reads on: a request is handed to no other thread, which would cost a
//! tenth of what a small agent's turn takes, each time. What comes while it answers is the porter's to see, who has another
//! thread read on from there; so a long turn keeps nobody from saying `kill` on the same connection.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lazaret_link::{Ask, Fault, Session, Step, Ticket, Token};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroize as _;

use super::limits::{CHUNK, IDLE, IN_FLIGHT, LINE, STRANGER_IDLE, STRANGER_LINE, STRANGER_STAY};
use super::outbox::{Begun, Outbox};
use super::porter::Porter;
use super::shared::{InFlight, Place};

/// Why a connection ends that did nothing wrong.
pub(crate) fn say(ticket: Ticket, code: &str, text: &str) -> Vec<u8> {
    ticket.say(Err(Fault::new(code, text, 7)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection, for as long as anybody reads from it or writes to it.
pub(crate) struct Connection {
    /// By which the porter knows it.
    pub(crate) number: u64,
    pub(crate) stream: UnixStream,
    porter: Arc<Porter>,
    outbox: Outbox<Option<Held>>,
    /// A permit for each answer that may still be waited for.
    waiting: Arc<Semaphore>,
    /// What was read so far, while nobody reads. Whoever takes it reads on.
    parked: Mutex<Option<Reading>>,
    _place: OwnedSemaphorePermit,
}

/// What came so far. Whoever has it reads.
pub(crate) struct Reading {
    session: Session,
    bytes: Vec<u8>,
    begun: Instant,
    /// Since when a line waits for its end.
    partial: Option<Instant>,
    /// How long the socket waits, as it was last told.
    patience: Option<Duration>,
}

/// What follows from what came, or did not come.
enum Heard {
    Steps(Vec<Step>),
    /// Nothing more comes.
    End(Vec<Step>),
    /// Nothing came for so long that nothing will.
    Idle,
}

/// An ask that has to be answered, and what it holds until its answer is written.
struct Duty {
    ask: Ask,
    held: Held,
}

struct Held {
    _begun: InFlight,
    _waiting: Option<OwnedSemaphorePermit>,
}

impl Reading {
    pub(crate) fn new(token: Token) -> Self {
        let session = Session::new(token);
        Self { session, bytes: vec![0; CHUNK], begun: Instant::now(), partial: None, patience: None }
    }

    /// Waits for something to come. `is_awaited` says whether the other side waits for an answer.
    fn hear(&mut self, mut stream: &UnixStream, is_awaited: impl Fn() -> bool) -> Heard {
        loop {
            let patience = Some(self.patience());
            if self.patience != patience && stream.set_read_timeout(patience).is_ok() {
                self.patience = patience;
            }
            match stream.read(&mut self.bytes) {
                Ok(0) => return Heard::End(self.session.end(false)),
                Ok(len) => {
                    let now_ms = self.begun.elapsed().as_millis() as u64;
                    let steps = self.session.take(&self.bytes[..len], now_ms);
                    // A value may have come this way.
                    self.bytes[..len].zeroize();
                    self.note_partial(!steps.is_empty());
                    // Something of it comes now and then, but it had its time.
                    if self.left().is_some_and(|left| left.is_zero()) {
                        return Heard::End(self.session.end(true));
                    }
                    return Heard::Steps(steps);
                }
                Err(why) => match why.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut if self.partial.is_some() => {
                        return Heard::End(self.session.end(true));
                    }
                    // Somebody who waits for an answer has nothing to say.
                    ErrorKind::WouldBlock | ErrorKind::TimedOut if is_awaited() => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Heard::Idle,
                    _ => return Heard::End(self.session.end(false)),
                },
            }
        }
    }

    /// How long a line may still take, if one has begun.
    fn left(&self) -> Option<Duration> {
        let whole = if self.session.is_known() { LINE } else { STRANGER_LINE };
        self.partial.map(|since| whole.saturating_sub(since.elapsed()))
    }

    /// Nobody has read for a while: a line whose beginning is known gets its time again.
    fn read_on(&mut self) {
        self.partial = self.partial.map(|_| Instant::now());
    }

    /// For how long it is waited for something to come. At least a moment: to a socket, none is for ever.
    fn patience(&self) -> Duration {
        match self.left() {
            Some(left) => left.max(Duration::from_millis(1)),
            None if self.session.is_known() => IDLE,
            None => STRANGER_IDLE,
        }
    }

    /// Whether somebody has been here for long and never shown the token: places are few.
    fn has_outstayed(&self) -> bool {
        !self.session.is_known() && self.begun.elapsed() > STRANGER_STAY
    }

    /// A line has its time from its first byte on, however slowly the others come.
    fn note_partial(&mut self, ended: bool) {
        if !self.session.is_partial() {
            self.partial = None;
        } else if ended || self.partial.is_none() {
            self.partial = Some(Instant::now());
        }
    }
}

impl Connection {
    /// One that was just made, from whoever may ask.
    pub(crate) fn new(number: u64, stream: UnixStream, porter: Arc<Porter>, place: OwnedSemaphorePermit) -> Self {
        let waiting = Arc::new(Semaphore::new(IN_FLIGHT));
        Self { number, stream, porter, outbox: Outbox::default(), waiting, parked: Mutex::default(), _place: place }
    }

    /// Reads and answers, until nothing more comes or another thread reads on.
    pub(crate) fn attend(self: Arc<Self>, mut reading: Reading) {
        reading.read_on();
        loop {
            let is_awaited = || self.waiting.available_permits() < IN_FLIGHT;
            let (steps, is_end) = match reading.hear(&self.stream, is_awaited) {
                Heard::Steps(steps) => (steps, false),
                Heard::End(steps) => (steps, true),
                Heard::Idle => {
                    self.say(say(reading.session.unasked(), "idle", "nothing was said for too long; connect again"));
                    return;
                }
            };
            if !is_end && reading.has_outstayed() {
                let text = "the token was not shown for too long; connect again";
                self.say(say(reading.session.unasked(), "idle", text));
                return;
            }
            let heard = !steps.is_empty();
            let Ok(last) = self.follow(steps) else { return };
            // To follow may take its time; who sends a line byte by byte gets none of that.
            if heard {
                reading.read_on();
            }
            if is_end {
                return last.into_iter().for_each(|duty| self.delegate(duty));
            }
            let Some(duty) = last else { continue };
            let Some(place) = self.porter.shared.place_now(&duty.ask.request) else {
                self.delegate(duty);
                continue;
            };
            self.park(reading);
            let Duty { ask, held } = duty;
            let answer = self.answer(ask, place);
            // Before it is written: who is answered may ask again at once, and then it is this thread that reads.
            let mut parked = self.resume();
            if self.outbox.begin(&self.stream, answer, Some(held)) == Begun::Stuck {
                // Who is slow to listen may have something to say meanwhile.
                parked.into_iter().for_each(|reading| self.park(reading));
                self.outbox.finish(&self.stream);
                parked = self.resume();
            }
            match parked {
                Some(parked) => reading = parked,
                None => return,
            }
        }
    }

    /// Has another thread read on from here, when something comes.
    fn park(&self, reading: Reading) {
        *lock(&self.parked) = Some(reading);
        self.porter.watch(self);
    }

    /// Reads on, unless another thread does.
    fn resume(&self) -> Option<Reading> {
        let parked = self.take_up();
        if parked.is_some() {
            self.porter.ignore(self);
        }
        parked.map(|mut reading| {
            reading.read_on();
            reading
        })
    }

    /// What was read so far, if nobody reads.
    pub(crate) fn take_up(&self) -> Option<Reading> {
        lock(&self.parked).take()
    }

    /// Does what follows from what was said, but for the last ask, which is given back. `Err` is the end.
    fn follow(self: &Arc<Self>, steps: Vec<Step>) -> Result<Option<Duty>, ()> {
        let mut last = None;
        for step in steps {
            last.take().into_iter().for_each(|duty| self.delegate(duty));
            match step {
                Step::Say(bytes) => {
                    if !self.say(bytes) {
                        return Err(());
                    }
                }
                // Plain text has no ids: its answers come in order.
                Step::Ask(ask) if ask.request.is_open() || ask.ticket.is_plain() => {
                    let shared = &self.porter.shared;
                    let _begun = shared.begin();
                    let answer = match self.porter.handle.block_on(shared.place(&ask.request)) {
                        Ok(place) => self.answer(*ask, place),
                        Err(fault) => ask.ticket.say(Err(fault)),
                    };
                    if !self.say(answer) {
                        return Err(());
                    }
                }
                Step::Ask(ask) => last = Some(self.duty(*ask)),
                Step::Close => return Err(()),
            }
        }
        Ok(last)
    }

    /// Waits until so few answers are awaited that one more may be.
    fn duty(&self, ask: Ask) -> Duty {
        let (begun, waiting) = (self.porter.shared.begin(), Arc::clone(&self.waiting));
        let waiting = match Arc::clone(&waiting).try_acquire_owned() {
            Ok(one_more) => Some(one_more),
            Err(_) => self.porter.handle.block_on(waiting.acquire_owned()).ok(),
        };
        Duty { ask, held: Held { _begun: begun, _waiting: waiting } }
    }

    /// Has another thread answer, when there is room for one more.
    fn delegate(self: &Arc<Self>, duty: Duty) {
        let connection = Arc::clone(self);
        self.porter.handle.spawn(async move {
            let Duty { ask, held } = duty;
            let place = connection.porter.shared.place(&ask.request).await;
            tokio::task::spawn_blocking(move || {
                let answer = match place {
                    Ok(place) => connection.answer(ask, place),
                    Err(fault) => ask.ticket.say(Err(fault)),
                };
                connection.outbox.leave(&connection.stream, answer, Some(held));
            });
        });
    }

    /// The answer as bytes.
    fn answer(&self, ask: Ask, place: Place) -> Vec<u8> {
        let Ask { ticket, request } = ask;
        ticket.say(self.porter.shared.answer(request, place))
    }

    /// Says something that nothing is held for; false if it is not heard. Whoever reads says so, and reads no further until then.
    fn say(&self, bytes: Vec<u8>) -> bool {
        self.outbox.say(&self.stream, bytes, None)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.porter.forget(self.number);
    }
}

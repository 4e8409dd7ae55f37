//! What every way into the keeper shares: the keeper, the token, the lines that requests wait in, and the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lazaret_host::{HostError, Keeper, Surroundings};
use lazaret_link::{Fault, Line, Reply, Request, Token};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::limits::{ORDERS, SHORT, STAND, TURNS, URGENT};
use crate::failure::Failure;

/// How far the keeper is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// It takes work.
    Up,
    /// It takes none, and waits until then for what is under way.
    Stopping(Instant),
    /// It waits for nothing.
    Over,
}

/// Ends the keeper.
#[derive(Clone)]
pub(crate) struct Ending(watch::Sender<Phase>);

impl Ending {
    pub(crate) fn new() -> (Self, watch::Receiver<Phase>) {
        let (sender, receiver) = watch::channel(Phase::Up);
        (Self(sender), receiver)
    }

    /// Takes no more work, and ends when what is under way is done or the time is over. The sooner end stands.
    pub(crate) fn within(&self, within: Duration) {
        let until = Instant::now() + within;
        self.0.send_if_modified(|phase| {
            let sooner = match phase {
                Phase::Up => true,
                Phase::Stopping(before) => until < *before,
                Phase::Over => false,
            };
            if sooner {
                *phase = Phase::Stopping(until);
            }
            sooner
        });
    }

    /// How far it is, for whoever has to end before the keeper does.
    pub(crate) fn watch(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }

    /// Ends at once.
    pub(crate) fn now(&self) {
        self.0.send_replace(Phase::Over);
    }
}

impl Surroundings for Ending {
    fn stop(&self, within: Duration) {
        self.within(within);
    }

    fn crash(&self) {
        crash();
    }
}

/// Ends this process as if the power had gone.
pub(crate) fn crash() {
    let me = rustix::process::getpid();
    let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
}

/// The keeper as its servers see it.
pub(crate) struct Shared {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) token: Token,
    pub(crate) ending: Ending,
    lines: Lines,
    in_flight: AtomicU64,
}

/// Counts a request from when it was read until its answer was written.
pub(crate) struct InFlight(Arc<Shared>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Room among those that are being answered.
struct Lines {
    turns: Arc<Semaphore>,
    orders: Arc<Semaphore>,
    short: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
}

impl Lines {
    /// Where a request of this kind finds room, and for how many there is some. None needs none.
    fn of(&self, line: Line) -> Option<(&Arc<Semaphore>, usize)> {
        match line {
            Line::Open => None,
            Line::Urgent => Some((&self.urgent, URGENT)),
            Line::Short => Some((&self.short, SHORT)),
            Line::Orders => Some((&self.orders, ORDERS)),
            Line::Turns => Some((&self.turns, TURNS)),
        }
    }
}

/// Room for a request that is being answered, until it is.
pub(crate) struct Place {
    _held: Option<OwnedSemaphorePermit>,
}

impl Shared {
    pub(crate) fn new(keeper: Arc<Keeper>, token: Token, ending: Ending) -> Arc<Self> {
        let room = [TURNS, ORDERS, SHORT, URGENT];
        let [turns, orders, short, urgent] = room.map(|most| Arc::new(Semaphore::new(most)));
        let lines = Lines { turns, orders, short, urgent };
        Arc::new(Self { keeper, token, ending, lines, in_flight: AtomicU64::new(0) })
    }

    /// Requests whose answers are not written yet.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Held until the answer is written, so that the keeper doesn't end before.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        InFlight(Arc::clone(self))
    }

    /// Whether threads are to be had, the database answers and agents' turns are seen to.
    pub(crate) async fn is_well(&self) -> bool {
        let keeper = Arc::clone(&self.keeper);
        let is_well = move || {
            let seen_to = keeper.supervisor().is_none_or(|supervisor| supervisor.is_well());
            seen_to && keeper.host().store().answers().is_ok()
        };
        tokio::task::spawn_blocking(is_well).await.unwrap_or(false)
    }

    /// Answers a request of somebody who has shown the token, or one that needs none.
    pub(crate) async fn ask(self: &Arc<Self>, request: Request) -> Result<Reply, Fault> {
        let place = self.place(&request).await?;
        if request.is_open() {
            // Needs no thread: it is answered even if all are taken.
            return self.answer(request, place);
        }
        let shared = Arc::clone(self);
        let answered = tokio::task::spawn_blocking(move || shared.answer(request, place));
        answered.await.unwrap_or_else(|_| Err(broke()))
    }

    /// Waits until there is room for one more request that is being answered; if there is none for long, that is the answer.
    pub(crate) async fn place(&self, request: &Request) -> Result<Place, Fault> {
        let Some((line, most)) = self.lines.of(request.line()) else { return Ok(Place { _held: None }) };
        match tokio::time::timeout(STAND, Arc::clone(line).acquire_owned()).await {
            Ok(held) => Ok(Place { _held: held.ok() }),
            Err(_) => Err(no_room(request, most)),
        }
    }

    /// Room for one more, if there is some.
    pub(crate) fn place_now(&self, request: &Request) -> Option<Place> {
        match self.lines.of(request.line()) {
            None => Some(Place { _held: None }),
            Some((line, _)) => Arc::clone(line).try_acquire_owned().ok().map(|held| Place { _held: Some(held) }),
        }
    }

    /// As [`Self::ask`], in the thread that calls, for as long as it takes.
    pub(crate) fn answer(&self, request: Request, _place: Place) -> Result<Reply, Fault> {
        let (name, is_open, is_routine) = (request.name(), request.is_open(), request.is_routine());
        let begun = Instant::now();
        let answered = catch_unwind(AssertUnwindSafe(|| {
            let reply = self.keeper.answer(request)?;
            Keeper::is_sendable(&reply)?;
            Ok::<Reply, HostError>(reply)
        }));
        let answer = match answered {
            Ok(answer) => answer.map_err(|why| Failure::from(why).fault()),
            Err(_) => Err(broke()),
        };
        let ms = begun.elapsed().as_millis() as u64;
        match &answer {
            Ok(_) if is_open => {}
            Ok(_) if is_routine => debug!(request = name, ms, "answered"),
            Ok(_) => info!(request = name, ms, "answered"),
            Err(fault) => {
                let why = lazaret_gate::shown::text(&fault.text());
                warn!(request = name, ms, code = fault.code, why, "not done");
            }
        }
        answer
    }
}

fn no_room(request: &Request, most: usize) -> Fault {
    let (name, seconds) = (request.name(), STAND.as_secs());
    let text = format!(
        "`{name}` was not begun: the keeper has been answering {most} requests of its kind for {seconds} s, as many as it does \
         at once; ask again later, or revoke or kill what keeps them from their end: `lazaret status` and `lazaret agent list` \
         are answered meanwhile"
    );
    warn!(request = name, most, "no room for a request");
    Fault::new("busy", &text, Failure::Busy(String::new()).code() as u8)
}

fn broke() -> Fault {
    Fault::new("bug", "the keeper failed to answer; that is a bug of lazaret, please report it", 1)
}

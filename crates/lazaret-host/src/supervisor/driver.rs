//! Carries out what the core decides: threads that take turns, a clock, and those who wait for answers.

mod clock;
mod status;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lazaret_gate::AgentId;
use lazaret_gate::record::{Cause, Ending, Message};
use lazaret_store::{AgentRow, AgentState};

use crate::asking;
use crate::error::HostError;
use crate::host::{Host, lock};
use crate::life::Life;
use crate::limits::{CLOCK_STANDS_MS, IDLE_THREAD_MS, ROW_LOOKS, TURN_STACK};
use crate::quarantine::streak_after;
use crate::schedule::{Plan, Timetable};
use crate::supervisor::core::{Claim, Core, Ended, Event, Order};
use crate::supervisor::pace::Pace;
use crate::supervisor::seams;
use crate::turns::{Turn, check_message};

pub use status::Status;

/// Runs the agents of a data root.
pub struct Supervisor {
    shared: Arc<Shared>,
}

/// What came of stopping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Turns that came to their end meanwhile.
    pub finished: usize,
    /// Agents whose turns are left under way. What they have begun is taken up at the next start.
    pub left: Vec<AgentId>,
}

type Waiter = SyncSender<Result<Turn, HostError>>;

struct Shared {
    host: Arc<Host>,
    pace: Pace,
    state: Mutex<State>,
    /// There are orders.
    work: Condvar,
    /// Something else has come up before the clock's next look.
    clock: Condvar,
    /// A turn is over.
    rest: Condvar,
}

struct State {
    core: Core,
    timetable: Timetable,
    orders: VecDeque<Order>,
    /// Threads that take turns, and how many of them wait for one.
    threads: usize,
    idle: usize,
    /// Who waits for the answer to which message.
    waiters: BTreeMap<(AgentId, u64), Waiter>,
    /// Senders whose message is being written, by agent, and answers that came before they could say that they wait.
    arriving: BTreeMap<AgentId, usize>,
    early: BTreeMap<(AgentId, u64), Turn>,
    /// Messages that a turn has answered that is over, until their senders are told.
    answering: BTreeSet<(AgentId, u64)>,
    /// Schedules that can't be kept, and why; without a name, all of an agent's.
    unkept: BTreeMap<(AgentId, String), String>,
    /// Revoked agents. Whoever restores one tells a file, and not us.
    closed: BTreeSet<AgentId>,
    finished: usize,
    /// When the clock last looked, in [`waking`] milliseconds.
    ticked: u64,
    stopping: bool,
}

impl Supervisor {
    /// Begins: every unfinished turn is taken up, each in its agent's own time, and mail that waits is answered.
    pub fn start(host: Arc<Host>, pace: Pace) -> Result<Arc<Self>, HostError> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|why| HostError::Halted(format!("there is no randomness: {why}")))?;
        let state = State {
            core: Core::new(pace, u64::from_le_bytes(seed)),
            timetable: Timetable::default(),
            orders: VecDeque::new(),
            threads: 0,
            idle: 0,
            waiters: BTreeMap::new(),
            arriving: BTreeMap::new(),
            early: BTreeMap::new(),
            answering: BTreeSet::new(),
            unkept: BTreeMap::new(),
            closed: BTreeSet::new(),
            finished: 0,
            ticked: waking(),
            stopping: false,
        };
        let (work, clock, rest) = (Condvar::new(), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { host, pace, state: Mutex::new(state), work, clock, rest });
        let rows = shared.host.store().agents()?;
        let mut state = lock(&shared.state);
        let held = shared.host.running().is_err();
        state.core.on(monotonic(), Event::Hold(held));
        for row in rows.iter().filter(|row| row.state != AgentState::Removed) {
            shared.plan(&mut state, &row.agent, shared.host.plans(row));
            shared.take_in(&mut state, row);
        }
        drop(state);
        let ticking = shared.clone();
        thread("lazaret-clock", move || ticking.keep_time())?;
        Ok(Arc::new(Self { shared }))
    }

    /// Has an agent answer a message; returns when its turn is on record. If that can't be at once, the message waits in
    /// the mailbox, durably, and so does the caller.
    pub fn send(&self, agent: &AgentId, message: Message) -> Result<Turn, HostError> {
        self.shared.send(agent, message)
    }

    /// As [`Self::send`], by way of the mailbox even if the agent could answer at once.
    pub(crate) fn send_in_line(&self, agent: &AgentId, message: Message) -> Result<Turn, HostError> {
        check_message(&message)?;
        self.shared.able(agent)?;
        self.shared.wait_in_line(agent, message)
    }

    /// Leaves a message for an agent. It is on disk when this returns; the answer is its number.
    pub fn post(&self, agent: &AgentId, message: Message) -> Result<u64, HostError> {
        let shared = &self.shared;
        if shared.life(agent)?.is_some_and(|life| !life.takes_mail()) {
            // Somebody may have restored it by way of a file.
            shared.look(agent);
            if let Some(life) = shared.life(agent)?.filter(|life| !life.takes_mail()) {
                return Err(shared.why_not(agent, life));
            }
        }
        let number = shared.host.enqueue(agent, message)?;
        shared.hear(&mut lock(&shared.state), Event::Mail { agent: agent.clone() });
        Ok(number)
    }

    /// Something but a turn has changed an agent: it was made, settled, woken, restored, revoked, quarantined, removed, or
    /// its schedules or caps were changed. It is looked at again.
    pub fn nudge(&self, agent: &AgentId) {
        self.shared.look(agent);
    }

    /// Somebody may have stopped everything, or let it go on. Heard sooner this way than at the next turn.
    pub fn heed_switches(&self) {
        let shared = &self.shared;
        let stopped = shared.host.running().is_err();
        let mut state = lock(&shared.state);
        if state.core.is_held() != stopped {
            shared.hear(&mut state, Event::Hold(stopped));
            shared.clock.notify_one();
        }
        shared.tell_held(&mut state);
    }

    /// Whether the clock goes. Waits for whoever decides something just now.
    pub fn is_well(&self) -> bool {
        waking().saturating_sub(lock(&self.shared.state).ticked) < CLOCK_STANDS_MS
    }

    /// No turn begins any more; those under way get up to `limit` to end. Mail that waits goes on waiting.
    pub fn drain(&self, limit: Duration) -> Drained {
        let shared = &self.shared;
        let mut state = lock(&shared.state);
        shared.hear(&mut state, Event::Drain);
        let before = state.finished;
        state.leave_waiting(false);
        let busy = |state: &mut State| state.core.awake() > 0;
        let mut state = shared.rest.wait_timeout_while(state, limit, busy).unwrap_or_else(PoisonError::into_inner).0;
        state.leave_waiting(true);
        state.stopping = true;
        shared.work.notify_all();
        shared.clock.notify_all();
        Drained { finished: state.finished - before, left: state.core.busy() }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.core.on(monotonic(), Event::Drain);
        state.stopping = true;
        self.shared.work.notify_all();
        self.shared.clock.notify_all();
    }
}

fn left_waiting(agent: &AgentId, number: u64) -> HostError {
    HostError::Draining(format!("message {number} waits in the mailbox of `{agent}` for the next start"))
}

/// Milliseconds since the machine was started.
fn monotonic() -> u64 {
    asking::now().moment.monotonic_ms
}

/// Milliseconds of a clock that stands still while the machine sleeps, as threads that wait do.
fn waking() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).map_or(0, |since| since.as_millis() as u64)
}

fn wall() -> u64 {
    asking::now().moment.wall_ms
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), HostError> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(TURN_STACK);
    builder.spawn(run).map(drop).map_err(|why| HostError::Halted(format!("no thread can be had: {why}")))
}

impl Shared {
    /// Tells the core, and has its orders carried out.
    fn hear(self: &Arc<Self>, state: &mut MutexGuard<'_, State>, event: Event) {
        let due = state.core.next_due();
        let orders = state.core.on(monotonic(), event);
        state.orders.extend(orders);
        if state.core.next_due() != due {
            self.clock.notify_one();
        }
        for _ in 0..state.orders.len().min(state.idle) {
            self.work.notify_one();
        }
        // One more than turns at once, so that an agent is quarantined even while all of them wait for people.
        while state.orders.len() > state.idle && state.threads <= self.pace.awake {
            let worker = self.clone();
            if thread("lazaret-turns", move || worker.work()).is_err() {
                // Those that there are will come to it.
                break;
            }
            state.threads += 1;
            state.idle += 1;
        }
    }

    /// Looks at an agent anew.
    fn look(self: &Arc<Self>, agent: &AgentId) {
        let read = || self.host.store().agent(agent).ok().flatten();
        let Some(mut row) = read() else { return };
        // Reading what schedules are takes its time, which others need not wait for. If others have changed something
        // meanwhile, their word is the newer one.
        let mut plans = self.host.plans(&row);
        let mut state = lock(&self.state);
        for _ in 0..ROW_LOOKS {
            let Some(now) = read() else { return };
            if now.schedules == row.schedules && now.state == row.state {
                row = now;
                break;
            }
            drop(state);
            plans = self.host.plans(&now);
            row = now;
            state = lock(&self.state);
        }
        self.plan(&mut state, agent, plans);
        self.clock.notify_one();
        self.take_in(&mut state, &row);
        self.turn_away(&mut state, agent);
        state.core.forget_dead(agent);
    }

    /// Takes in how an agent stands.
    fn take_in(self: &Arc<Self>, state: &mut MutexGuard<'_, State>, row: &AgentRow) {
        let (agent, standing) = (row.agent.clone(), seams::standing(&self.host, row));
        match standing.life {
            Life::Revoked => drop(state.closed.insert(agent.clone())),
            _ => drop(state.closed.remove(&agent)),
        }
        self.hear(state, Event::Seen { agent, standing });
    }

    /// Takes in an agent's schedules. One that can't be kept doesn't keep the others from starting, and status tells.
    fn plan(&self, state: &mut State, agent: &AgentId, plans: Result<Vec<(String, Plan)>, HostError>) {
        state.unkept.retain(|(of, _), _| of != agent);
        if let Err(why) = &plans {
            let why = format!("its schedules can't be kept: {why}");
            state.unkept.insert((agent.clone(), String::new()), why);
        }
        state.timetable.set(agent, plans.unwrap_or_default());
    }

    /// What an agent is doing; looked up if it isn't known yet.
    fn life(self: &Arc<Self>, agent: &AgentId) -> Result<Option<Life>, HostError> {
        if let Some(life) = lock(&self.state).core.life(agent) {
            return Ok(Some(life));
        }
        self.host.known(agent)?;
        self.look(agent);
        Ok(lock(&self.state).core.life(agent))
    }

    /// Whether a message need not wait for as long as an operator takes to bind a secret. One that is left for the agent may.
    fn able(self: &Arc<Self>, agent: &AgentId) -> Result<(), HostError> {
        match self.life(agent)? {
            Some(life) if life.is_idle() || life.is_awake() => self.host.equipped(&*self.host.known(agent)?),
            // There is more to say than that.
            _ => Ok(()),
        }
    }

    fn send(self: &Arc<Self>, agent: &AgentId, message: Message) -> Result<Turn, HostError> {
        check_message(&message)?;
        self.host.running()?;
        self.able(agent)?;
        let mut claim = lock(&self.state).core.claim(monotonic(), agent);
        if matches!(claim, Claim::Not(_)) {
            // Somebody may have woken or restored it by way of a file.
            self.look(agent);
            claim = lock(&self.state).core.claim(monotonic(), agent);
        }
        match claim {
            Claim::Now => {
                let turn =
                    catch_unwind(AssertUnwindSafe(|| self.host.send(agent, message))).unwrap_or_else(|_| broke());
                self.turned(agent, &turn);
                turn
            }
            Claim::Queue => self.wait_in_line(agent, message),
            Claim::Not(life) => Err(self.why_not(agent, life)),
            Claim::Draining => Err(HostError::Draining("send it again after the next start".to_owned())),
            Claim::Unknown => Err(HostError::NoAgent(agent.to_string())),
        }
    }

    /// A thread that takes turns.
    fn work(self: Arc<Self>) {
        let mut state = lock(&self.state);
        loop {
            let patience = Duration::from_millis(IDLE_THREAD_MS);
            let nothing = |state: &mut State| state.orders.is_empty() && !state.stopping;
            state = self.work.wait_timeout_while(state, patience, nothing).unwrap_or_else(PoisonError::into_inner).0;
            let Some(order) = state.orders.pop_front() else {
                state.threads -= 1;
                state.idle -= 1;
                return;
            };
            state.idle -= 1;
            drop(state);
            self.carry_out(order);
            state = lock(&self.state);
            state.idle += 1;
        }
    }

    fn carry_out(self: &Arc<Self>, order: Order) {
        match order {
            Order::Begin { agent } => {
                let done = catch_unwind(AssertUnwindSafe(|| self.host.next_turn(&agent))).unwrap_or_else(|_| broke());
                match done {
                    Ok(Some((number, turn))) => {
                        self.answering(&agent, number);
                        let turn = Ok(turn);
                        self.turned(&agent, &turn);
                        turn.into_iter().for_each(|turn| self.answer(&agent, number, turn));
                    }
                    Ok(None) => self.ended(&agent, Ended::Nothing, &[]),
                    Err(why) => self.turned(&agent, &Err(why)),
                }
            }
            Order::Quarantine { agent, reason } => match seams::quarantine(&self.host, &agent, &reason) {
                Ok(()) => self.turn_away(&mut lock(&self.state), &agent),
                Err(_) => self.hear(&mut lock(&self.state), Event::AtLarge { agent }),
            },
        }
    }

    /// A turn is over, one way or another.
    fn turned(self: &Arc<Self>, agent: &AgentId, turn: &Result<Turn, HostError>) {
        let ended = match turn {
            Ok(turn) => match &turn.record.ending {
                Ending::Replied(_) | Ending::Failed(_) => Ended::Kept,
                Ending::Stopped(stop) if streak_after(0, &turn.record.ending) > 0 => {
                    let streak = self.host.store().agent(agent).ok().flatten().map_or(1, |row| row.streak);
                    Ended::Stopped { streak: streak.max(1), cause: stop.cause.name().to_owned() }
                }
                Ending::Stopped(_) => Ended::Cut,
            },
            Err(why) => seams::failed(why),
        };
        let told = turn.as_ref().ok().map_or_else(Vec::new, seams::recipients);
        if matches!(turn, Err(HostError::Killed(_))) {
            self.hear(&mut lock(&self.state), Event::Hold(true));
            self.clock.notify_one();
        }
        // Before its next turn is thought of.
        if is_revoked(turn) {
            self.look(agent);
        }
        let may_pause = turn.is_err() || matches!(ended, Ended::Stopped { .. });
        self.ended(agent, ended, &told);
        if may_pause {
            self.tell_delayed(&mut lock(&self.state), agent);
        }
        if matches!(turn, Err(HostError::SlotEmpty { .. } | HostError::SlotUnknown { .. })) {
            self.tell_unequipped(&mut lock(&self.state), agent);
        }
        // Whatever kept it from its turn may be on disk by now.
        let is_off_duty = || self.host.store().agent(agent).is_ok_and(|row| row.is_some_and(|row| off_duty(&row)));
        if turn.as_ref().is_err() && is_off_duty() {
            self.look(agent);
        }
    }

    fn ended(self: &Arc<Self>, agent: &AgentId, ended: Ended, told: &[AgentId]) {
        let mut state = lock(&self.state);
        // Asked while nobody else can tell the core of mail: what comes later is told later.
        let row = self.host.store().agent(agent).ok().flatten();
        let (mail, unfinished) =
            row.as_ref().map_or((true, false), |row| (!row.queued.is_empty(), row.unfinished.is_some()));
        state.finished += usize::from(!matches!(ended, Ended::Nothing));
        self.hear(&mut state, Event::Ended { agent: agent.clone(), ended, mail, unfinished });
        let mut strangers = Vec::new();
        for to in told {
            if state.core.life(to).is_none() {
                strangers.push(to);
            }
            self.hear(&mut state, Event::Mail { agent: to.clone() });
        }
        self.turn_away(&mut state, agent);
        self.tell_held(&mut state);
        state.core.forget_dead(agent);
        // To notify is a call of the kernel even if nobody waits.
        if state.core.is_draining() {
            self.rest.notify_all();
        }
        drop(state);
        strangers.into_iter().for_each(|to| self.look(to));
    }
}

fn broke<T>() -> Result<T, HostError> {
    Err(HostError::Halted("the host failed in the middle of it; that is a bug".to_owned()))
}

/// Whether a turn was cut, or did not begin, because its agent is revoked.
fn is_revoked(turn: &Result<Turn, HostError>) -> bool {
    match turn {
        Ok(turn) => matches!(&turn.record.ending, Ending::Stopped(stop) if stop.cause == Cause::Revoked),
        Err(why) => matches!(why, HostError::Revoked { .. }),
    }
}

fn off_duty(row: &AgentRow) -> bool {
    row.state != AgentState::Asleep
}

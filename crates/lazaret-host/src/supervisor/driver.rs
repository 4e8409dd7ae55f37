//! Carries out what the core decides: threads that take turns, a clock, and those who wait for answers.

mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lazaret_gate::AgentId;
use lazaret_gate::record::{Cause, Ending, Message};
use lazaret_store::{AgentRow, AgentState};

use crate::asking;
use crate::error::HostError;
use crate::host::{Host, lock};
use crate::life::Life;
use crate::limits::{CLOCK_LOOK_MS, CLOSED_LOOK_MS, HELD_LOOK_MS, IDLE_THREAD_MS, TURN_STACK};
use crate::quarantine::streak_after;
use crate::schedule::{Due, Timetable};
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
    /// Agents whose schedules can't be kept, and why.
    unkept: BTreeMap<AgentId, String>,
    /// Revoked agents. Whoever restores one tells a file, and not us.
    closed: BTreeSet<AgentId>,
    finished: usize,
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
            unkept: BTreeMap::new(),
            closed: BTreeSet::new(),
            finished: 0,
            stopping: false,
        };
        let (work, clock, rest) = (Condvar::new(), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { host, pace, state: Mutex::new(state), work, clock, rest });
        let rows = shared.host.store().agents()?;
        let mut state = lock(&shared.state);
        let held = shared.host.running().is_err();
        state.core.on(monotonic(), Event::Hold(held));
        for row in rows.iter().filter(|row| row.state != AgentState::Removed) {
            shared.plan(&mut state, row);
            let standing = seams::standing(&shared.host, row);
            shared.hear(&mut state, Event::Seen { agent: row.agent.clone(), standing });
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

    /// No turn begins any more; those under way get up to `limit` to end. Mail that waits goes on waiting.
    pub fn drain(&self, limit: Duration) -> Drained {
        let shared = &self.shared;
        let mut state = lock(&shared.state);
        shared.hear(&mut state, Event::Drain);
        let before = state.finished;
        for ((agent, number), waiter) in std::mem::take(&mut state.waiters) {
            if !state.core.busy().contains(&agent) {
                let _ = waiter.try_send(Err(left_waiting(&agent, number)));
            } else {
                state.waiters.insert((agent, number), waiter);
            }
        }
        let busy = |state: &mut State| state.core.awake() > 0;
        let mut state = shared.rest.wait_timeout_while(state, limit, busy).unwrap_or_else(PoisonError::into_inner).0;
        for ((agent, number), waiter) in std::mem::take(&mut state.waiters) {
            let _ = waiter.try_send(Err(left_waiting(&agent, number)));
        }
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
        let Ok(Some(row)) = self.host.store().agent(agent) else { return };
        let standing = seams::standing(&self.host, &row);
        let mut state = lock(&self.state);
        match standing.life {
            Life::Revoked => drop(state.closed.insert(agent.clone())),
            _ => drop(state.closed.remove(agent)),
        }
        self.plan(&mut state, &row);
        self.clock.notify_one();
        self.hear(&mut state, Event::Seen { agent: agent.clone(), standing });
        self.turn_away(&mut state, agent);
    }

    /// Takes in an agent's schedules. One that can't be kept doesn't keep the others from starting, and status tells.
    fn plan(&self, state: &mut State, row: &AgentRow) {
        let plans = self.host.plans(row);
        match &plans {
            Ok(_) => drop(state.unkept.remove(&row.agent)),
            Err(why) => drop(state.unkept.insert(row.agent.clone(), format!("its schedules can't be kept: {why}"))),
        }
        state.timetable.set(&row.agent, plans.unwrap_or_default());
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

    /// Whoever waits for an agent that takes no turns any more is told so.
    fn turn_away(&self, state: &mut State, agent: &AgentId) {
        let Some(life) = state.core.life(agent).filter(|life| !life.is_idle() && !life.is_awake()) else { return };
        self.tell_waiting(state, agent, || Some(self.why_not(agent, life)));
    }

    /// Whoever waits for this agent is told why it takes no turn, if it still doesn't.
    fn tell_waiting(&self, state: &mut State, agent: &AgentId, why_not: impl Fn() -> Option<HostError>) {
        let of_agent = state.waiters.range((agent.clone(), 0)..=(agent.clone(), u64::MAX));
        let keys: Vec<_> = of_agent.map(|(key, _)| key.clone()).collect();
        for key in keys {
            let Some(why) = why_not() else { return };
            if let Some(waiter) = state.waiters.remove(&key) {
                let _ = waiter.try_send(Err(why));
            }
        }
    }

    /// Whoever waits for an agent that was tried again in vain is told so. Its message stays in line.
    fn tell_delayed(&self, state: &mut State, agent: &AgentId) {
        let Some(why) = state.core.delayed(agent) else { return };
        let of_agent = state.waiters.range((agent.clone(), 0)..=(agent.clone(), u64::MAX));
        let keys: Vec<_> = of_agent.map(|(key, _)| key.clone()).collect();
        for key in keys {
            if let Some(waiter) = state.waiters.remove(&key) {
                let (agent, number) = key;
                let _ = waiter.try_send(Err(HostError::Delayed { agent, number, why: why.clone() }));
            }
        }
    }

    /// Whoever waits for an agent that lacks a required secret is told so. The message stays in line.
    fn tell_unequipped(&self, state: &mut State, agent: &AgentId) {
        let why_not = || self.host.known(agent).and_then(|row| self.host.equipped(&row)).err();
        self.tell_waiting(state, agent, why_not);
    }

    /// Why an agent takes no turn or no mail. What an operator has to know of it is for the host to say.
    fn why_not(&self, agent: &AgentId, life: Life) -> HostError {
        let said = || {
            let row = self.host.known(agent)?;
            match (life, row.unfinished) {
                (Life::InDoubt, Some(turn)) => return self.host.in_doubt(agent, turn),
                // The breaker's word comes before it is on record.
                (Life::Quarantined, _) if row.state == AgentState::Quarantined => return self.host.quarantined(agent),
                (Life::Revoked, _) => self.host.trusted(&row)?,
                _ => {}
            }
            Ok(HostError::NotRunning { agent: agent.clone(), life, help: seams::help(agent, life) })
        };
        said().unwrap_or_else(|why| why)
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

    /// Puts a message in line and waits for its turn.
    fn wait_in_line(self: &Arc<Self>, agent: &AgentId, message: Message) -> Result<Turn, HostError> {
        *lock(&self.state).arriving.entry(agent.clone()).or_default() += 1;
        let written = self.host.enqueue(agent, message);
        let mut state = lock(&self.state);
        let arriving = state.arriving.get_mut(agent).map_or(0, |arriving| {
            *arriving -= 1;
            *arriving
        });
        let early = written.as_ref().ok().and_then(|number| state.early.remove(&(agent.clone(), *number)));
        if arriving == 0 {
            state.arriving.remove(agent);
            state.early.retain(|(of, _), _| of != agent);
        }
        let number = written?;
        if let Some(turn) = early {
            return Ok(turn);
        }
        if state.core.is_draining() {
            return Err(left_waiting(agent, number));
        }
        let (waiter, answer) = sync_channel(1);
        state.waiters.insert((agent.clone(), number), waiter);
        self.hear(&mut state, Event::Mail { agent: agent.clone() });
        self.turn_away(&mut state, agent);
        let again = state.core.delayed(agent).is_some();
        drop(state);
        // What kept the agent from its turn may be over, and its pause is long: somebody waits now.
        if again {
            self.look(agent);
        }
        answer.recv().unwrap_or_else(|_| Err(left_waiting(agent, number)))
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
                        let turn = Ok(turn);
                        self.turned(&agent, &turn);
                        self.answer(&agent, number, turn);
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

    /// Hands a turn to whoever waits for it.
    fn answer(&self, agent: &AgentId, number: u64, turn: Result<Turn, HostError>) {
        let mut state = lock(&self.state);
        let key = (agent.clone(), number);
        if let Some(waiter) = state.waiters.remove(&key) {
            let _ = waiter.try_send(turn);
        } else if state.arriving.contains_key(agent)
            && let Ok(turn) = turn
        {
            state.early.insert(key, turn);
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
        self.ended(agent, ended, &told);
        if turn.is_err() {
            self.tell_delayed(&mut lock(&self.state), agent);
        }
        if matches!(turn, Err(HostError::SlotEmpty { .. } | HostError::SlotUnknown { .. })) {
            self.tell_unequipped(&mut lock(&self.state), agent);
        }
        // Whatever kept it from its turn may be on disk by now.
        let is_off_duty = || self.host.store().agent(agent).is_ok_and(|row| row.is_some_and(|row| off_duty(&row)));
        if is_revoked(turn) || (turn.as_ref().is_err() && is_off_duty()) {
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
        // To notify is a call of the kernel even if nobody waits.
        if state.core.is_draining() {
            self.rest.notify_all();
        }
        drop(state);
        strangers.into_iter().for_each(|to| self.look(to));
    }

    /// The clock: pauses that are over, schedules that are due, and whether what was stopped goes on.
    fn keep_time(self: Arc<Self>) {
        loop {
            self.look_at_closed();
            let mut state = lock(&self.state);
            if state.stopping {
                return;
            }
            if state.core.is_held() && self.host.running().is_ok() {
                self.hear(&mut state, Event::Hold(false));
            }
            self.hear(&mut state, Event::Tick);
            let idle = state.core.is_draining() || state.core.is_held();
            let due = if idle {
                Vec::new()
            } else {
                let State { core, timetable, .. } = &mut *state;
                timetable.take(wall(), |agent| core.life(agent).is_some_and(|life| life.is_idle() || life.is_awake()))
            };
            if !due.is_empty() {
                drop(state);
                self.fire(due);
                continue;
            }
            let pause = [
                state.core.next_due().map(|due| due.saturating_sub(monotonic())),
                state.timetable.next().filter(|_| !idle).map(|due| due.saturating_sub(wall())),
                state.core.is_held().then_some(HELD_LOOK_MS),
                (!state.closed.is_empty()).then_some(CLOSED_LOOK_MS),
                Some(CLOCK_LOOK_MS),
            ];
            let pause = pause.into_iter().flatten().min().unwrap_or(CLOCK_LOOK_MS);
            // At least a millisecond: a clock that stands still must not keep a processor busy.
            let pause =
                Duration::from_millis(if state.core.is_held() { pause.max(HELD_LOOK_MS) } else { pause.max(1) });
            drop(self.clock.wait_timeout(state, pause));
        }
    }

    /// Agents that were restored go on.
    fn look_at_closed(self: &Arc<Self>) {
        let closed = lock(&self.state).closed.clone();
        for agent in closed {
            let row = self.host.store().agent(&agent).ok().flatten();
            if row.is_none_or(|row| self.host.trusted(&row).is_ok()) {
                self.look(&agent);
            }
        }
    }

    /// All of them go to disk together.
    fn fire(self: &Arc<Self>, due: Vec<(AgentId, String, Due)>) {
        let fire = |(agent, name, due): (AgentId, String, Due)| {
            let ticket = self.host.fire(&agent, &name, &due);
            (agent, name, due.until, ticket)
        };
        let tickets: Vec<_> = due.into_iter().map(fire).collect();
        for (agent, name, until, ticket) in tickets {
            let written = ticket.is_ok_and(|ticket| ticket.wait().is_ok());
            let mut state = lock(&self.state);
            if written {
                state.timetable.fired(&agent, &name, until);
                self.hear(&mut state, Event::Mail { agent });
            } else {
                state.timetable.failed(&agent, &name, wall());
            }
        }
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

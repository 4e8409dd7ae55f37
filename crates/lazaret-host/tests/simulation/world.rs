//! One history: clients, agents with characters, operators, faults, a crash at any point, and the supervisor's own core in
//! the middle. Everything follows from the seed.

#[path = "trouble.rs"]
mod trouble;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_gate::AgentId;
use lazaret_gate::schedule::{Missed, When};
use lazaret_host::Life;
use lazaret_host::schedule::{Due, Timetable};
use lazaret_host::supervisor::core::{Claim, Core, Ended, Event, Order};
use lazaret_host::supervisor::pace::{Dice, Pace};

use crate::disk::{Agent, Begun, Disk, Ending, Payload, Record, Schedule, Write};
use crate::flaw::{Flaw, NOW_AND_THEN};
use crate::watch::{self, Watch};

/// Where the wall clock stands when a history begins: a Monday.
const EPOCH: u64 = 1_767_571_200_000;

/// How long things go wrong, and how long they then go right.
const TROUBLED_MS: u64 = 240_000;
const HEALTHY_MS: u64 = 120_000;

/// How long what then waits has to be answered.
const LAST_MS: u64 = 120_000;

/// More than any event leads to at once.
const MAX_HEARING: u32 = 200;

/// More steps than any history takes.
const MAX_STEPS: u32 = 100_000;

/// What will happen, and when.
#[derive(Clone, Debug)]
enum Doing {
    /// The write at the head of the line reaches the disk.
    Written,
    /// A turn gets to its next step.
    Step(AgentId),
    Client,
    Operator,
    Fault,
    Restart,
    /// The supervisor is told to look at an agent.
    Nudge(AgentId),
}

/// Whom a write is for.
#[derive(Clone, Debug)]
enum For {
    Client { to: AgentId, payload: Payload },
    Opening(AgentId),
    Turn(AgentId),
    Doubt(AgentId),
    Quarantine(AgentId),
    Schedule { agent: AgentId, name: String, until: u64 },
}

/// A turn that is under way.
#[derive(Clone, Debug)]
struct Flight {
    number: u64,
    payload: Payload,
    /// An effect that leaves the host is opened on the way.
    opens: Option<bool>,
    ending: Ending,
    sends: Vec<AgentId>,
    /// Whoever sent it waits, so its record is an acknowledgement.
    direct: bool,
}

/// How an agent tends to behave: in tenths.
#[derive(Clone, Copy, Debug)]
struct Character {
    stops: u64,
    opens: u64,
    slow: u64,
    sends: u64,
}

pub(crate) struct World {
    pub(crate) flaw: Option<Flaw>,
    dice: Dice,
    now: u64,
    pace: Pace,
    disk: Disk,
    core: Option<Core>,
    table: Timetable,
    watch: Watch,
    characters: BTreeMap<AgentId, Character>,
    flights: BTreeMap<AgentId, Flight>,
    line: VecDeque<(Write, For)>,
    written_by: u64,
    doings: BTreeMap<(u64, u64), Doing>,
    serial: u64,
    payloads: Payload,
    healing: bool,
    pub(crate) story: VecDeque<String>,
    pub(crate) turns: u64,
    pub(crate) crashes: u64,
    pub(crate) fired: u64,
    pub(crate) quarantines: u64,
    pub(crate) revocations: u64,
    /// How often the disk became full.
    pub(crate) full: u64,
    /// How many of what the core is told at this moment follow from one another.
    hearing: u32,
}

type Verdict = Result<(), String>;

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let pace = Pace {
            awake: 1 + dice.below(4) as usize,
            pause_ms: 500,
            pause_most_ms: 20_000,
            breaker: 3 + dice.below(3) as u32,
        };
        let mut disk = Disk::default();
        let mut characters = BTreeMap::new();
        for n in 0..2 + dice.below(6) {
            let name: AgentId = format!("a{n}").parse().expect("a name");
            let stops = [0, 0, 1, 5, 10][dice.below(5) as usize];
            let character = Character { stops, opens: dice.below(5), slow: dice.below(3), sends: dice.below(4) };
            characters.insert(name.clone(), character);
            let mut agent = Agent::default();
            for n in 0..dice.below(3) {
                agent.schedules.insert(format!("s{n}"), schedule(&mut dice));
            }
            disk.agents.insert(name, agent);
        }
        Self {
            flaw: None,
            watch: Watch::new(pace),
            dice,
            now: 0,
            pace,
            disk,
            core: None,
            table: Timetable::default(),
            characters,
            flights: BTreeMap::new(),
            line: VecDeque::new(),
            written_by: 0,
            doings: BTreeMap::new(),
            serial: 0,
            payloads: 0,
            healing: false,
            story: VecDeque::new(),
            turns: 0,
            crashes: 0,
            fired: 0,
            quarantines: 0,
            revocations: 0,
            full: 0,
            hearing: 0,
        }
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.story.len() == 60 {
            self.story.pop_front();
        }
        let line = format!("{:>8} {}", self.now, line());
        self.story.push_back(line);
    }

    fn plan(&mut self, after: u64, doing: Doing) {
        self.serial += 1;
        self.doings.insert((self.now + after, self.serial), doing);
    }

    fn someone(&mut self) -> AgentId {
        let n = self.dice.below(self.characters.len() as u64) as usize;
        self.characters.keys().nth(n).expect("there are agents").clone()
    }

    fn wall(&self) -> u64 {
        EPOCH + self.now
    }

    /// Lives through the whole history.
    pub(crate) fn run(&mut self) -> Verdict {
        self.start()?;
        for doing in [Doing::Client, Doing::Operator, Doing::Fault] {
            self.plan(1, doing);
        }
        self.until(TROUBLED_MS)?;
        self.heal()?;
        self.until(TROUBLED_MS + HEALTHY_MS)?;
        self.judge_schedules()?;
        self.until(TROUBLED_MS + HEALTHY_MS + LAST_MS)?;
        self.judge()
    }

    fn until(&mut self, end: u64) -> Verdict {
        for _ in 0..MAX_STEPS {
            let next = [
                self.doings.keys().next().map(|(at, _)| *at),
                self.core.as_ref().and_then(Core::next_due),
                self.core.as_ref().and_then(|_| self.table.next()).map(|wall| wall.saturating_sub(EPOCH)),
            ];
            let next = next.into_iter().flatten().min().unwrap_or(u64::MAX).max(self.now);
            if next > end {
                self.now = end;
                return Ok(());
            }
            self.now = next;
            match self.doings.first_key_value() {
                Some(((at, _), _)) if *at <= self.now => {
                    let (_, doing) = self.doings.pop_first().expect("there is one");
                    self.doing(doing)?;
                }
                _ => self.tick()?,
            }
        }
        Err("time stands still".into())
    }

    fn doing(&mut self, doing: Doing) -> Verdict {
        match doing {
            Doing::Written => self.written(),
            Doing::Step(agent) => self.step(&agent),
            Doing::Client => self.client(),
            Doing::Operator => self.operator(),
            Doing::Fault => self.fault(),
            Doing::Restart => self.start(),
            Doing::Nudge(agent) => self.look(&agent),
        }
    }

    /// Tells the core something, and does what it orders.
    fn hear(&mut self, event: Event) -> Verdict {
        let Some(core) = &mut self.core else { return Ok(()) };
        let told = match &event {
            Event::Seen { agent, .. } | Event::Ended { agent, .. } => Some(agent.clone()),
            _ => None,
        };
        let orders = core.on(self.now, event);
        self.hearing += 1;
        if self.hearing > MAX_HEARING {
            return Err(format!("the supervisor goes round in circles: {orders:?}"));
        }
        for order in orders {
            self.tell(|| format!("{order:?}"));
            match order {
                Order::Begin { agent } => self.begin(agent)?,
                Order::Quarantine { agent, .. } => {
                    self.quarantines += 1;
                    self.write(Write::Quarantine { agent: agent.clone() }, For::Quarantine(agent));
                }
            }
        }
        self.hearing -= 1;
        if let (Some(agent), Some(core)) = (told, &self.core) {
            self.watch.compare(&agent, core.life(&agent))?;
        }
        self.watch.nobody_forgotten(self.now)
    }

    fn tick(&mut self) -> Verdict {
        self.hear(Event::Tick)?;
        let Some(core) = &self.core else { return Ok(()) };
        if core.is_draining() || core.is_held() {
            // As the driver does: nothing is due then. Later is soon enough.
            self.plan(250, Doing::Restart);
            self.table = Timetable::default();
            return Ok(());
        }
        let wall = self.wall();
        let due = self
            .table
            .take(wall, usize::MAX, |agent| core.life(agent).is_some_and(|life| life.is_idle() || life.is_awake()));
        for (agent, name, due) in due {
            watch::lawful(&self.disk.agents[&agent].schedules[&name], &due, wall)?;
            self.fired += 1;
            self.fire(agent, name, due);
        }
        Ok(())
    }

    fn fire(&mut self, agent: AgentId, name: String, due: Due) {
        let payloads = due.times.iter().map(|_| self.payload()).collect();
        let until = due.until;
        let of = For::Schedule { agent: agent.clone(), name: name.clone(), until };
        self.write(Write::Fire { agent, name, due, payloads }, of);
    }

    fn payload(&mut self) -> Payload {
        self.payloads += 1;
        self.payloads
    }

    /// A supervisor begins, and is told of everybody; or one that lives looks at the schedules again.
    fn start(&mut self) -> Verdict {
        let wakes = self.core.is_none();
        if wakes {
            self.tell(|| "a keeper starts".into());
            let pace = self.flaw.map_or(self.pace, |flaw| flaw.keeps(self.pace));
            self.core = Some(Core::new(pace, self.dice.roll()));
            let stopped = self.disk.stopped;
            self.watch.held(stopped);
            self.hear(Event::Hold(stopped))?;
        }
        let agents: Vec<AgentId> = self.disk.agents.keys().cloned().collect();
        for agent in agents {
            if wakes {
                self.look(&agent)?;
            } else if self.core.as_ref().is_some_and(|core| !core.is_draining() && !core.is_held()) {
                self.table.set(&agent, self.disk.agents[&agent].plans());
            }
        }
        Ok(())
    }

    fn look(&mut self, agent: &AgentId) -> Verdict {
        if self.core.is_none() {
            return Ok(());
        }
        let standing = self.disk.agents[agent].standing();
        let plans = if standing.life == Life::Dead { Vec::new() } else { self.disk.agents[agent].plans() };
        self.table.set(agent, plans);
        self.watch.seen(agent, &standing);
        self.hear(Event::Seen { agent: agent.clone(), standing })
    }

    /// Puts a write in line: they reach the disk in order.
    fn write(&mut self, write: Write, of: For) {
        let slow = if self.dice.below(20) == 0 { 300 } else { 5 };
        self.written_by = self.written_by.max(self.now + 1 + self.dice.below(slow));
        self.line.push_back((write, of));
        let after = self.written_by - self.now;
        self.plan(after, Doing::Written);
    }

    /// Whether a flaw shows just now.
    fn shows(&mut self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw) && self.dice.below(NOW_AND_THEN) == 0
    }

    /// The oldest write reaches the disk, or doesn't because there is no room.
    fn written(&mut self) -> Verdict {
        let Some((write, of)) = self.line.pop_front() else { return Ok(()) };
        let stored = !self.disk.full;
        let of_client = matches!(of, For::Client { .. });
        if stored && !(of_client && self.shows(Flaw::Loses)) {
            self.disk.apply(&write)?;
        }
        if let Write::Turn { agent, record, .. } = &write
            && record.number != 0
            && self.shows(Flaw::Repeats)
        {
            self.disk.agent(agent).mail.push_front((record.number, record.payload));
        }
        self.tell(|| format!("{} {write:?}", if stored { "written:" } else { "no room for" }));
        match of {
            For::Client { to, payload } if stored => {
                self.watch.acknowledged.insert(payload, to.clone());
                self.watch.mail(&to);
                if self.shows(Flaw::Forgets) { Ok(()) } else { self.hear(Event::Mail { agent: to }) }
            }
            For::Client { .. } => Ok(()),
            For::Opening(agent) if stored => {
                let after = self.dice.below(400);
                self.plan(after, Doing::Step(agent));
                Ok(())
            }
            For::Opening(agent) => self.ended(&agent, Ended::Unable("the disk is full".into()), &[]),
            For::Turn(agent) => self.turned(agent, &write, stored),
            For::Doubt(agent) if stored => self.ended(&agent, Ended::Doubt, &[]),
            For::Doubt(agent) => self.ended(&agent, Ended::Unable("the disk is full".into()), &[]),
            For::Quarantine(agent) if stored => self.look(&agent),
            For::Quarantine(agent) => self.hear(Event::AtLarge { agent }),
            For::Schedule { agent, name, until } if stored => {
                if let Write::Fire { payloads, .. } = &write {
                    let stands = self.disk.agents[&agent].schedules.contains_key(&name);
                    let payloads = payloads.iter().filter(|_| stands);
                    self.watch.acknowledged.extend(payloads.map(|payload| (*payload, agent.clone())));
                }
                self.table.fired(&agent, &name, until);
                self.watch.mail(&agent);
                self.hear(Event::Mail { agent })
            }
            For::Schedule { agent, name, .. } => {
                let wall = self.wall();
                self.table.failed(&agent, &name, wall);
                Ok(())
            }
        }
    }

    fn turned(&mut self, agent: AgentId, write: &Write, stored: bool) -> Verdict {
        let Write::Turn { record, sent, .. } = write else { return Ok(()) };
        if !stored {
            return self.ended(&agent, Ended::Unable("the disk is full".into()), &[]);
        }
        self.turns += 1;
        if self.flights.get(&agent).is_some_and(|flight| flight.direct) {
            self.watch.acknowledged.insert(record.payload, agent.clone());
        }
        let ended = match record.ending {
            Ending::Replied => Ended::Kept,
            Ending::Cut => Ended::Cut,
            Ending::Stopped => Ended::Stopped { streak: self.disk.agents[&agent].streak, cause: "trap".into() },
        };
        self.watch.acknowledged.extend(sent.iter().map(|(to, payload)| (*payload, to.clone())));
        let told: Vec<AgentId> = sent.iter().map(|(to, _)| to.clone()).collect();
        self.ended(&agent, ended, &told)
    }

    fn ended(&mut self, agent: &AgentId, ended: Ended, told: &[AgentId]) -> Verdict {
        self.flights.remove(agent);
        let it = &self.disk.agents[agent];
        let (mail, unfinished) = (!it.mail.is_empty(), it.begun.is_some());
        self.watch.ended(self.now, agent, &ended, mail || unfinished);
        self.hear(Event::Ended { agent: agent.clone(), ended, mail, unfinished })?;
        for to in told {
            self.watch.mail(to);
            self.hear(Event::Mail { agent: to.clone() })?;
        }
        Ok(())
    }

    /// The host takes a turn: it takes up what is begun, or answers the oldest message.
    fn begin(&mut self, agent: AgentId) -> Verdict {
        self.watch.begins(self.now, &agent, &self.disk)?;
        let it = &self.disk.agents[&agent];
        let may = matches!(it.life(), Life::New | Life::Asleep) && !self.disk.stopped;
        let (begun, first) = (it.begun, it.mail.front().copied());
        match (begun, first) {
            // The host itself looks once more: what it was told may be on disk and not told of here yet.
            _ if !may => {
                self.flights.insert(agent.clone(), idle_flight());
                self.plan(1, Doing::Nudge(agent.clone()));
                self.ended(&agent, Ended::Nothing, &[])
            }
            (Some(begun), _) if !begun.idempotent => {
                self.flights.insert(agent.clone(), idle_flight());
                self.write(Write::Doubt { agent: agent.clone() }, For::Doubt(agent));
                Ok(())
            }
            (Some(begun), _) => {
                self.fly(agent, begun.number, begun.payload, false);
                Ok(())
            }
            (None, Some((number, payload))) => {
                self.fly(agent, number, payload, false);
                Ok(())
            }
            (None, None) => {
                self.flights.insert(agent.clone(), idle_flight());
                self.ended(&agent, Ended::Nothing, &[])
            }
        }
    }

    fn fly(&mut self, agent: AgentId, number: u64, payload: Payload, direct: bool) {
        let Character { stops, opens, slow, sends } = self.characters[&agent];
        let chance = |dice: &mut Dice, tenths: u64| dice.below(10) < tenths;
        let stopped = !self.healing && chance(&mut self.dice, stops);
        let opens = chance(&mut self.dice, opens).then(|| self.healing || self.dice.below(3) > 0);
        let opens = opens.filter(|_| self.disk.agents[&agent].begun.is_none());
        let sends =
            if chance(&mut self.dice, sends) && !stopped && !self.healing { vec![self.someone()] } else { vec![] };
        let ending = if stopped { Ending::Stopped } else { Ending::Replied };
        // Some wait for a person, or loop to the end of their time.
        let long = if chance(&mut self.dice, slow) && !self.healing { 20_000 } else { 50 };
        let after = self.dice.below(long);
        self.flights.insert(agent.clone(), Flight { number, payload, opens, ending, sends, direct });
        self.plan(after, Doing::Step(agent));
    }

    fn step(&mut self, agent: &AgentId) -> Verdict {
        let Some(flight) = self.flights.get_mut(agent) else { return Ok(()) };
        if let Some(idempotent) = flight.opens.take() {
            let begun = Begun { number: flight.number, payload: flight.payload, idempotent };
            self.write(Write::Open { agent: agent.clone(), begun }, For::Opening(agent.clone()));
            return Ok(());
        }
        let mut flight = flight.clone();
        if self.disk.agents[agent].removed {
            return self.ended(agent, Ended::Nothing, &[]);
        }
        // Whoever is revoked in the middle is stopped there.
        if self.disk.agents[agent].revoked || self.disk.stopped {
            (flight.ending, flight.sends) = (Ending::Cut, Vec::new());
        }
        let mut sent = Vec::new();
        for to in flight.sends {
            if !self.disk.agents[&to].removed {
                sent.push((to, self.payload()));
            }
        }
        let record = Record { number: flight.number, payload: flight.payload, ending: flight.ending };
        self.write(Write::Turn { agent: agent.clone(), record, sent }, For::Turn(agent.clone()));
        Ok(())
    }

    fn client(&mut self) -> Verdict {
        if self.healing {
            return Ok(());
        }
        let often = [50, 400, 4_000][self.dice.below(3) as usize];
        let after = self.dice.below(often);
        self.plan(after, Doing::Client);
        let (to, payload) = (self.someone(), self.payload());
        if self.core.is_none() || !self.disk.agents[&to].life().takes_mail() {
            return Ok(());
        }
        let claim = match (self.dice.below(3), &mut self.core) {
            (0, _) | (_, None) => Claim::Queue,
            (_, Some(core)) => core.claim(self.now, &to),
        };
        match claim {
            Claim::Now => {
                self.tell(|| format!("`{to}` is claimed for {payload}"));
                self.watch.begins(self.now, &to, &self.disk)?;
                self.fly(to, 0, payload, true);
            }
            Claim::Queue => {
                self.write(Write::Enqueue { to: to.clone(), payload }, For::Client { to, payload });
            }
            Claim::Not(_) | Claim::Draining => {}
            Claim::Unknown => return Err(format!("the core doesn't know `{to}`")),
        }
        Ok(())
    }

    /// Every due time was kept by now, and schedules end here.
    fn judge_schedules(&mut self) -> Verdict {
        let wall = self.wall();
        let agents: Vec<AgentId> = self.disk.agents.keys().cloned().collect();
        for agent in agents {
            let it = self.disk.agent(&agent);
            if matches!(it.life(), Life::New | Life::Asleep) {
                it.schedules.values().try_for_each(|schedule| watch::accounted(schedule, wall))?;
            }
            it.schedules.clear();
            self.look(&agent)?;
        }
        Ok(())
    }

    /// What must be true in the end.
    fn judge(&mut self) -> Verdict {
        let mut turns: BTreeMap<Payload, u32> = BTreeMap::new();
        let mut waits: BTreeSet<Payload> = BTreeSet::new();
        for (agent, it) in &self.disk.agents {
            let mut last = 0;
            for record in &it.records {
                *turns.entry(record.payload).or_default() += 1;
                if record.number != 0 && record.number <= last {
                    return Err(format!("`{agent}` answered {record:?} after message {last}"));
                }
                last = last.max(record.number);
            }
            let runs = matches!(it.life(), Life::New | Life::Asleep);
            waits.extend(it.mail.iter().map(|(_, payload)| *payload));
            if runs && (!it.mail.is_empty() || it.begun.is_some()) {
                return Err(format!("`{agent}` still has mail {:?} or a turn {:?} at the end", it.mail, it.begun));
            }
        }
        if let Some((payload, many)) = turns.iter().find(|(_, many)| **many > 1) {
            return Err(format!("message {payload} has {many} turns"));
        }
        // What waited for an agent that was removed went with it.
        let gone = |agent: &AgentId| self.disk.agents[agent].removed;
        let lost = |payload: &Payload| !turns.contains_key(payload) && !waits.contains(payload);
        match self.watch.acknowledged.iter().find(|(payload, agent)| lost(payload) && !gone(agent)) {
            Some((payload, agent)) => Err(format!("message {payload} to `{agent}` was acknowledged and has no turn")),
            None => Ok(()),
        }
    }
}

fn idle_flight() -> Flight {
    Flight { number: 0, payload: 0, opens: None, ending: Ending::Cut, sends: Vec::new(), direct: false }
}

fn schedule(dice: &mut Dice) -> Schedule {
    let when = if dice.below(3) == 0 {
        let minutes = [1, 2, 5][dice.below(3) as usize];
        When::Cron { expression: format!("*/{minutes} * * * *"), zone: "UTC".into() }
    } else {
        When::Every { from: EPOCH, interval: [5_000, 45_000, 120_000][dice.below(3) as usize] }
    };
    let missed = [Missed::Skip, Missed::Once, Missed::All][dice.below(3) as usize];
    Schedule { when, missed, made: EPOCH, until: EPOCH, fired: Vec::new(), passed: 0 }
}

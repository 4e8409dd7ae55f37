//! Which agent takes its turn when. Events go in, orders come out; the time is handed in, randomness comes from a seed, and
//! nothing is read, written or waited for here: a seed gives the same history every time, and the simulation runs this very
//! code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_gate::AgentId;

use crate::life::{Happening, Life};
use crate::limits::LONG_PAUSE_MS;
use crate::supervisor::pace::{Dice, Pace};

/// What the supervisor hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An agent as it is on disk: at the start, and whenever something but a turn has changed it.
    Seen {
        /// Which.
        agent: AgentId,
        /// How it stands.
        standing: Standing,
    },
    /// A message for an agent is on disk.
    Mail {
        /// Whose.
        agent: AgentId,
    },
    /// A turn that was ordered is over.
    Ended {
        /// Whose.
        agent: AgentId,
        /// How.
        ended: Ended,
        /// Whether messages wait for it.
        mail: bool,
        /// Whether a turn of it is begun on disk.
        unfinished: bool,
    },
    /// An agent that was ordered into quarantine could not be brought there.
    AtLarge {
        /// Which.
        agent: AgentId,
    },
    /// Everything is stopped, or goes on.
    Hold(bool),
    /// No turn begins any more.
    Drain,
    /// Time has passed.
    Tick,
}

/// How an agent stands on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its state; never awake.
    pub life: Life,
    /// Whether messages wait for it.
    pub mail: bool,
    /// Whether a turn of it is begun on disk.
    pub unfinished: bool,
    /// How many of its turns were stopped in a row.
    pub streak: u32,
}

/// How a turn came out, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is on record, and ended by the agent's own doing.
    Kept,
    /// It is on record: the host stopped it, as it did so many in a row.
    Stopped {
        /// How many, this one included.
        streak: u32,
        /// What for.
        cause: String,
    },
    /// Somebody stopped it, and that is not the agent's fault. It is on record, or nothing of it is.
    Cut,
    /// Nothing of it could be recorded, and that is not the agent's fault.
    Unable(String),
    /// Nothing of it could be recorded, because of what the agent is.
    Broken(String),
    /// An effect of it is in doubt.
    Doubt,
    /// There was nothing to do.
    Nothing,
}

/// What the supervisor wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Take up the agent's cut-off turn, or answer its oldest message. Ends with [`Event::Ended`].
    Begin {
        /// Whose.
        agent: AgentId,
    },
    /// Put the agent into quarantine, durably.
    Quarantine {
        /// Which.
        agent: AgentId,
        /// Why.
        reason: String,
    },
}

/// How a message that wants its answer at once is to be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The turn is the caller's: it ends with [`Event::Ended`].
    Now,
    /// It has to be put in line.
    Queue,
    /// It can't be answered: the agent takes no turns in this state.
    Not(Life),
    /// It can't be answered: no turn begins any more.
    Draining,
    /// Nothing is known of that agent.
    Unknown,
}

/// What is known of an agent.
struct Berth {
    life: Life,
    /// A turn of it is under way, even if its life is already another.
    busy: bool,
    mail: bool,
    unfinished: bool,
    /// Attempts in a row that came to nothing.
    tries: u32,
    /// No turn begins before.
    not_before: u64,
    /// It stands in line.
    in_line: bool,
    /// It is ordered into quarantine, and that isn't on disk yet.
    owed: Option<String>,
    /// Why its last attempt came to nothing.
    trouble: Option<String>,
    /// How many of its turns the host stopped in a row, if it pauses for that.
    stopped: u32,
}

impl Berth {
    fn new(life: Life) -> Self {
        Self {
            life,
            busy: false,
            mail: false,
            unfinished: false,
            tries: 0,
            not_before: 0,
            in_line: false,
            owed: None,
            trouble: None,
            stopped: 0,
        }
    }

    /// What is the matter, and when it is tried again. Whoever asked for a turn at once and got none was told, and no turn is
    /// wanted any more.
    fn troubled(&self) -> Option<(String, u64)> {
        let why = self.trouble.as_ref().filter(|_| self.mail || self.unfinished)?;
        Some((why.clone(), self.not_before))
    }

    fn wants_turn(&self) -> bool {
        !self.busy && self.life.is_idle() && (self.mail || self.unfinished)
    }

    /// Lets something happen, if it can.
    fn happens(&mut self, happening: Happening) {
        self.life = self.life.next(happening).unwrap_or(self.life);
    }

    /// Brings its life in line with what is on disk, by way of the machine.
    fn becomes(&mut self, life: Life) {
        let enters = match life {
            Life::Dead => Some(Happening::Remove),
            Life::Revoked => Some(Happening::Revoke),
            Life::Quarantined => Some(Happening::Quarantine),
            Life::InDoubt => Some(Happening::Doubt),
            Life::New | Life::Asleep | Life::Awake | Life::Waiting => None,
        };
        if self.life != life {
            match self.life {
                Life::Revoked => self.happens(Happening::Restore),
                Life::Quarantined if life != Life::Revoked => self.happens(Happening::Wake),
                Life::InDoubt if enters.is_none() => self.happens(Happening::Settle),
                _ => {}
            }
        }
        if let Some(happening) = enters {
            self.happens(happening);
        } else if self.busy {
            self.happens(Happening::Begin);
        }
    }
}

/// The supervisor's mind.
pub struct Core {
    pace: Pace,
    dice: Dice,
    berths: BTreeMap<AgentId, Berth>,
    /// Those who may take a turn now, in the order in which they will.
    line: VecDeque<AgentId>,
    /// Those who may later.
    later: BTreeSet<(u64, AgentId)>,
    awake: usize,
    held: bool,
    draining: bool,
}

impl Core {
    /// Knows nobody yet.
    pub fn new(pace: Pace, seed: u64) -> Self {
        Self {
            pace,
            dice: Dice::new(seed),
            berths: BTreeMap::new(),
            line: VecDeque::new(),
            later: BTreeSet::new(),
            awake: 0,
            held: false,
            draining: false,
        }
    }

    /// Takes in what happened at `now`, in milliseconds of any clock that doesn't go back, and says what to do.
    pub fn on(&mut self, now: u64, event: Event) -> Vec<Order> {
        let mut orders = Vec::new();
        match event {
            Event::Seen { agent, standing } => self.seen(now, agent, standing, &mut orders),
            Event::Mail { agent } => {
                if let Some(berth) = self.berths.get_mut(&agent) {
                    berth.mail = true;
                    self.consider(now, &agent);
                }
            }
            Event::Ended { agent, ended, mail, unfinished } => {
                self.ended(now, &agent, ended, mail, unfinished, &mut orders);
            }
            Event::AtLarge { agent } => self.put_off_quarantine(now, &agent),
            Event::Hold(held) => self.held = held,
            Event::Drain => self.draining = true,
            Event::Tick => {}
        }
        self.go_on(now, &mut orders);
        orders
    }

    /// Whether a message can be answered at once. If so, the turn is under way from here on.
    pub fn claim(&mut self, now: u64, agent: &AgentId) -> Claim {
        let full = self.held || self.awake >= self.pace.awake || !self.line.is_empty();
        let Some(berth) = self.berths.get_mut(agent) else { return Claim::Unknown };
        if !berth.life.is_idle() && !berth.life.is_awake() {
            return Claim::Not(berth.life);
        }
        if self.draining {
            return Claim::Draining;
        }
        let idle = !berth.busy && berth.life.is_idle() && !berth.mail && !berth.unfinished && berth.not_before <= now;
        if full || !idle {
            return Claim::Queue;
        }
        begin(berth, &mut self.awake);
        Claim::Now
    }

    fn seen(&mut self, now: u64, agent: AgentId, standing: Standing, orders: &mut Vec<Order>) {
        let Standing { life, mail, unfinished, streak } = standing;
        let berth = self.berths.entry(agent.clone()).or_insert_with(|| Berth::new(Life::New));
        if berth.life == Life::New && !berth.busy && life == Life::Asleep {
            berth.life = Life::Asleep;
        }
        // It is on disk by now, or an operator has let the agent go on.
        if life == Life::Quarantined || streak < self.pace.breaker {
            berth.owed = None;
        }
        let before = berth.life;
        if berth.owed.is_none() {
            berth.becomes(life);
        }
        // Somebody has looked after it: what was the matter with it may be past.
        if berth.trouble.is_some() || berth.life != before {
            (berth.tries, berth.not_before, berth.trouble, berth.stopped) = (0, 0, None, 0);
        }
        // While it takes a turn, what the disk says of it is about to change, and the turn's end tells.
        berth.mail |= mail;
        if !berth.busy {
            berth.unfinished = unfinished;
        }
        if streak >= self.pace.breaker && berth.life.is_idle() && !berth.busy {
            self.quarantine(&agent, format!("{streak} turns in a row were stopped by the host"), orders);
        }
        self.consider(now, &agent);
    }

    fn ended(
        &mut self,
        now: u64,
        agent: &AgentId,
        ended: Ended,
        mail: bool,
        unfinished: bool,
        orders: &mut Vec<Order>,
    ) {
        let Some(berth) = self.berths.get_mut(agent).filter(|berth| berth.busy) else { return };
        berth.busy = false;
        self.awake = self.awake.saturating_sub(1);
        (berth.mail, berth.unfinished) = (mail, unfinished);
        let happening = if ended == Ended::Doubt { Happening::Doubt } else { Happening::End };
        berth.happens(happening);
        let breaker = self.pace.breaker;
        let (row, trip) = match &ended {
            // There is mail and yet there was nothing to do: whoever looked is told too late, or never. Not again at once.
            Ended::Nothing if mail || unfinished => (berth.tries + 1, None),
            Ended::Kept | Ended::Cut | Ended::Nothing | Ended::Doubt => (0, None),
            Ended::Stopped { streak, cause } => {
                let reason = format!("{streak} turns in a row were stopped by the host, the last for `{cause}`");
                (*streak, (*streak >= breaker).then_some(reason))
            }
            Ended::Unable(_) => (berth.tries + 1, None),
            Ended::Broken(why) => {
                let tries = berth.tries + 1;
                (tries, (tries >= breaker).then(|| format!("{tries} attempts in a row failed: {why}")))
            }
        };
        berth.stopped = if let Ended::Stopped { streak, .. } = &ended { *streak } else { 0 };
        match ended {
            Ended::Unable(why) | Ended::Broken(why) => (berth.tries, berth.trouble) = (row, Some(why)),
            Ended::Nothing => berth.tries = row,
            _ => (berth.tries, berth.trouble) = (0, None),
        }
        if row > 0 {
            berth.not_before = now.saturating_add(self.pace.pause(row, &mut self.dice));
        }
        if let Some(reason) = trip {
            self.quarantine(agent, reason, orders);
        }
        self.consider(now, agent);
    }

    /// From here on it takes no turn; that this is on disk follows.
    fn quarantine(&mut self, agent: &AgentId, reason: String, orders: &mut Vec<Order>) {
        if let Some(berth) = self.berths.get_mut(agent) {
            berth.happens(Happening::Quarantine);
            if berth.life == Life::Quarantined {
                berth.owed = Some(reason.clone());
                orders.push(Order::Quarantine { agent: agent.clone(), reason });
            }
        }
    }

    fn put_off_quarantine(&mut self, now: u64, agent: &AgentId) {
        if let Some(berth) = self.berths.get_mut(agent).filter(|berth| berth.owed.is_some()) {
            berth.tries += 1;
            berth.not_before = now.saturating_add(self.pace.pause(berth.tries, &mut self.dice));
            self.later.insert((berth.not_before, agent.clone()));
        }
    }

    /// Puts an agent in line if it has something to do.
    fn consider(&mut self, now: u64, agent: &AgentId) {
        let Some(berth) = self.berths.get_mut(agent) else { return };
        if !berth.wants_turn() || berth.in_line {
            return;
        }
        if berth.not_before > now {
            self.later.insert((berth.not_before, agent.clone()));
        } else {
            berth.in_line = true;
            self.line.push_back(agent.clone());
        }
    }

    /// Everything that can be done now.
    fn go_on(&mut self, now: u64, orders: &mut Vec<Order>) {
        while self.later.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, agent)) = self.later.pop_first() else { break };
            let owed = self.berths.get(&agent).filter(|berth| berth.not_before <= now).and_then(|it| it.owed.clone());
            match owed {
                Some(reason) => orders.push(Order::Quarantine { agent, reason }),
                None => self.consider(now, &agent),
            }
        }
        while !self.held && !self.draining && self.awake < self.pace.awake {
            let Some(agent) = self.line.pop_front() else { break };
            let Some(berth) = self.berths.get_mut(&agent) else { continue };
            berth.in_line = false;
            // It may have been revoked, or answered, while it stood in line.
            if berth.wants_turn() {
                begin(berth, &mut self.awake);
                orders.push(Order::Begin { agent });
            }
        }
    }

    /// When time alone will change something.
    pub fn next_due(&self) -> Option<u64> {
        self.later.first().map(|(due, _)| *due)
    }

    /// How many take a turn now.
    pub fn awake(&self) -> usize {
        self.awake
    }

    /// How many could, and wait for their turn.
    pub fn in_line(&self) -> usize {
        self.line.len()
    }

    /// Whether everything is stopped.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Whether no turn begins any more.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// What an agent is doing.
    pub fn life(&self, agent: &AgentId) -> Option<Life> {
        self.berths.get(agent).map(|berth| berth.life)
    }

    /// What all agents are doing.
    pub fn lives(&self) -> BTreeMap<AgentId, Life> {
        self.berths.iter().map(|(agent, berth)| (agent.clone(), berth.life)).collect()
    }

    /// Whether a turn of it is under way.
    pub fn is_busy(&self, agent: &AgentId) -> bool {
        self.berths.get(agent).is_some_and(|berth| berth.busy)
    }

    /// Those of which a turn is under way.
    pub fn busy(&self) -> Vec<AgentId> {
        self.berths.iter().filter(|(_, berth)| berth.busy).map(|(agent, _)| agent.clone()).collect()
    }

    /// Why agents that want a turn can't have it, and when they are tried again.
    pub fn troubles(&self) -> BTreeMap<AgentId, (String, u64)> {
        let troubled = |(agent, berth): (&AgentId, &Berth)| Some((agent.clone(), berth.troubled()?));
        self.berths.iter().filter_map(troubled).collect()
    }

    /// The same of one agent.
    pub fn trouble(&self, agent: &AgentId) -> Option<(String, u64)> {
        self.berths.get(agent)?.troubled()
    }

    /// What is the matter with an agent that was tried again in vain: it may last.
    pub fn delayed(&self, agent: &AgentId) -> Option<String> {
        let berth = self.berths.get(agent).filter(|berth| berth.tries > 1 && !berth.busy && berth.life.is_idle())?;
        berth.troubled().map(|(why, _)| why)
    }

    /// That an agent pauses for longer than anybody should wait without a word, because turns of it were stopped.
    pub fn pausing(&self, now: u64, agent: &AgentId) -> Option<String> {
        let berth = self.berths.get(agent).filter(|berth| berth.stopped > 0 && !berth.busy && berth.life.is_idle())?;
        let left = berth.not_before.saturating_sub(now);
        let seconds = left.div_ceil(1_000);
        (left > LONG_PAUSE_MS).then(|| {
            let last = match berth.stopped {
                1 => "its last turn was".to_owned(),
                many => format!("its last {many} turns were"),
            };
            format!("{last} stopped by the host, and the next begins in {seconds} s")
        })
    }

    /// Lets go of an agent that is gone for good and takes no turn any more.
    pub fn forget_dead(&mut self, agent: &AgentId) {
        if self.berths.get(agent).is_some_and(|berth| berth.life == Life::Dead && !berth.busy) {
            self.berths.remove(agent);
        }
    }
}

/// A turn begins.
fn begin(berth: &mut Berth, awake: &mut usize) {
    berth.happens(Happening::Begin);
    berth.busy = true;
    *awake += 1;
}

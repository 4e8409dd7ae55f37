//! The world of a turn that is happening: what it asks is decided, done and written down.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_exec::{Outside, Recorded, tools};
use lazaret_gate::ledger::{Account, Amounts, Caps, Point};
use lazaret_gate::outcome::{Entry, KeyInfo};
use lazaret_gate::policy::Who;
use lazaret_gate::record::{Body, EffectClosed, EffectOpened, Message, Stop, TapeEntry};
use lazaret_gate::stages::Purse;
use lazaret_gate::trust::MailboxClosed;
use lazaret_gate::{
    AgentId, Answer, Blob, Budget, Caller, Effect, Executor, Grants, Halt, Journal, Labels, Meter, Outcome, Permit,
    Ruling, Rulings, Undone, mediate,
};
use lazaret_guest::World;
use lazaret_store::{Batch, Change, Store};

use crate::acts::Acting;
use crate::observe::{Lasted, Timing};
use crate::present::{Esteem, Present, Station};
use crate::promises::Promised;
use crate::rules::Rules;
use crate::seats::Seat;

/// What a turn was given, and how far it had come if it is being taken up again.
pub(crate) struct Plan {
    pub(crate) agent: AgentId,
    pub(crate) turn: u64,
    /// The mailbox message being answered; 0 if it came straight from outside.
    pub(crate) message: u64,
    pub(crate) input: Message,
    pub(crate) grants: Grants,
    pub(crate) budget: Budget,
    pub(crate) caps: Caps,
    pub(crate) account: Account,
    /// What the agent has seen when the turn begins.
    pub(crate) labels: Labels,
    pub(crate) esteem: Esteem,
    pub(crate) resume: Resume,
    /// It has one.
    pub(crate) seat: Arc<Seat>,
}

/// Where a cut-off turn stood.
#[derive(Default)]
pub(crate) struct Resume {
    /// What is on disk: these asks have their outcomes.
    pub(crate) tape: Vec<TapeEntry>,
    /// How they were judged.
    pub(crate) rulings: Rulings,
    /// The ask after them was opened, may be done again, and is.
    pub(crate) reopened: bool,
    /// Anything of the turn is on disk.
    pub(crate) begun: bool,
}

/// The live world.
pub(crate) struct Live {
    agent: AgentId,
    who: Who,
    grants: Grants,
    budget: Budget,
    caps: Caps,
    account: Account,
    labels: Labels,
    at: Point,
    meter: Meter,
    acts: Acting,
    seat: Arc<Seat>,
    begun: Instant,
    timings: Vec<Timing>,
    present: Present,
    journal: TurnJournal,
    executor: TurnExecutor,
}

/// What is left when the turn is over.
pub(crate) struct Traces {
    pub(crate) tape: Vec<TapeEntry>,
    pub(crate) rulings: Rulings,
    pub(crate) account: Account,
    pub(crate) at: Point,
    /// What is known by now of what it took: its time, without that of people.
    pub(crate) taken: Amounts,
    pub(crate) writes: BTreeMap<String, Option<Entry>>,
    pub(crate) sent: Vec<(AgentId, Message)>,
    /// Room for them, until they are on disk.
    pub(crate) promised: Promised,
    /// Part of the turn is on disk already.
    pub(crate) begun: bool,
    pub(crate) lasted: Lasted,
}

impl Live {
    pub(crate) fn new(plan: Plan, station: &Station, outside: Outside, acts: Acting) -> Self {
        #[expect(clippy::disallowed_methods, reason = "what a turn took is measured on a real clock")]
        let begun = Instant::now();
        let known = Recorded::part(plan.resume.tape, plan.resume.rulings);
        let present = station.present(&plan.agent, plan.turn, plan.esteem, known.clone(), Arc::clone(&plan.seat));
        let (store, rules, agent) = (station.store.clone(), station.rules.clone(), plan.agent.clone());
        let outside = outside.with_switches(move |effect| rules.halted(&agent, effect));
        Self {
            who: Who::agent(&plan.agent, None),
            agent: plan.agent.clone(),
            caps: plan.caps,
            account: plan.account,
            labels: plan.labels,
            at: present.point(),
            acts,
            seat: plan.seat,
            begun,
            timings: Vec::new(),
            present,
            executor: TurnExecutor {
                agent: plan.agent.clone(),
                grants: plan.grants.clone(),
                store: store.clone(),
                rules: station.rules.clone(),
                outside,
                known: known.clone(),
                writes: BTreeMap::new(),
                sent: Vec::new(),
                promised: Promised::new(&station.promises),
            },
            journal: TurnJournal {
                store,
                agent: plan.agent,
                turn: plan.turn,
                message: plan.message,
                input: (!plan.resume.begun).then_some(plan.input),
                known,
                reopened: plan.resume.reopened,
                begun: plan.resume.begun,
                tape: Vec::new(),
                rulings: Rulings::default(),
                flushed: 0,
                flushed_rulings: 0,
                asked: None,
                out: false,
            },
            grants: plan.grants,
            budget: plan.budget,
            meter: Meter::default(),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "what a turn took is measured on a real clock")]
    pub(crate) fn into_traces(self) -> Traces {
        let took = self.begun.elapsed();
        let wall = took.saturating_sub(self.waited());
        Traces {
            tape: self.journal.tape,
            rulings: self.journal.rulings,
            account: self.account,
            at: self.at,
            taken: Amounts { wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX), ..Amounts::default() },
            begun: self.journal.begun,
            lasted: Lasted { took, timings: self.timings },
            writes: self.executor.writes,
            sent: self.executor.sent,
            promised: self.executor.promised,
        }
    }
}

impl World for Live {
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        self.seat.give_way();
        let answered = self.mediated(effect);
        // Not before the act is over: whoever stops the agent waits for that, and must not wait for a seat.
        self.seat.take();
        answered
    }

    fn give_way(&mut self) {
        self.seat.give_way();
    }

    fn waited(&self) -> Duration {
        self.present.waited() + self.seat.waited()
    }

    fn stopped(&self) -> Option<Stop> {
        self.present.stopped()
    }
}

impl Live {
    #[expect(clippy::disallowed_methods, reason = "what an ask took is measured on a real clock")]
    fn mediated(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        let _act = self.acts.begin();
        if effect.leaves_host() || matches!(effect, Effect::ClockSleep { .. }) {
            self.seat.leave();
        }
        let after = self.begun.elapsed();
        let mut caller = Caller {
            agent: &self.agent,
            who: &self.who,
            grants: &self.grants,
            budget: &self.budget,
            meter: &mut self.meter,
            purse: Purse { caps: &self.caps, account: &mut self.account, at: &self.at },
            labels: Some(&mut self.labels),
        };
        let answered = mediate(&mut caller, effect, &mut self.present, &mut self.journal, &mut self.executor);
        self.timings.push(Timing { after, took: self.begun.elapsed().saturating_sub(after) });
        answered
    }
}

/// Writes a turn down as it happens: in memory while nothing leaves the host, on disk before and after anything does.
struct TurnJournal {
    store: Arc<Store>,
    agent: AgentId,
    turn: u64,
    message: u64,
    /// The input, until it is on disk.
    input: Option<Message>,
    known: Recorded,
    reopened: bool,
    begun: bool,
    tape: Vec<TapeEntry>,
    rulings: Rulings,
    /// How much of the tape is on disk.
    flushed: usize,
    /// How many of the rulings are.
    flushed_rulings: usize,
    /// The outward ask that is being decided.
    asked: Option<Effect>,
    /// It is on disk as opened.
    out: bool,
}

impl TurnJournal {
    fn is_known(&self, number: u32) -> bool {
        (number as usize) < self.known.len()
    }

    fn differs(&self, number: u32) -> Halt {
        Halt::Stopped(format!("effect {number} is not the one that was recorded before the interruption"))
    }
}

impl Journal for TurnJournal {
    fn open(&mut self, number: u32, effect: &Effect) -> Result<(), Halt> {
        if let Some(known) = self.known.entry(number) {
            return if known.effect == *effect { Ok(()) } else { Err(self.differs(number)) };
        }
        if self.flushed < self.known.len() {
            self.flushed = self.known.len();
            self.flushed_rulings = self.known.rulings().len();
        }
        if effect.leaves_host() {
            self.asked = Some(effect.clone());
        }
        Ok(())
    }

    fn flush(&mut self, number: u32, ruling: &Ruling) -> Result<(), Halt> {
        if self.is_known(number) {
            return Ok(());
        }
        let Some(effect) = self.asked.take() else { return Err(self.differs(number)) };
        self.out = true;
        if std::mem::take(&mut self.reopened) {
            return Ok(());
        }
        let ruling = Some(self.rulings.place(ruling.clone()));
        let rulings = Blob::of_value(&self.rulings.since(self.flushed_rulings))
            .map_err(|why| Halt::Unwritten(why.to_string()))?;
        let judged = rulings.digest();
        let opened = EffectOpened {
            agent: self.agent.clone(),
            turn: self.turn,
            message: self.message,
            input: self.input.clone(),
            number,
            tape: self.tape[self.flushed..].to_vec(),
            judged,
            effect,
            ruling,
        };
        let unfinished = Change::Unfinished { agent: self.agent.clone(), turn: Some(self.turn) };
        let changes = vec![Change::Blob(rulings), unfinished];
        let batch = Batch { entries: vec![Body::EffectOpened(Box::new(opened))], changes };
        if let Err(why) = self.store.commit(batch) {
            self.out = false;
            return Err(Halt::Unwritten(why.to_string()));
        }
        self.input = None;
        self.begun = true;
        self.flushed_rulings = self.rulings.len();
        Ok(())
    }

    fn close(&mut self, number: u32, effect: Effect, ruling: Option<Ruling>, outcome: &Outcome) -> Result<(), Halt> {
        if let Some(known) = self.known.entry(number)
            && (known.outcome != *outcome || self.known.ruling(number) != ruling.as_ref())
        {
            return Err(self.differs(number));
        }
        self.asked = None;
        let what = effect.kind();
        let ruling = ruling.map(|ruling| self.rulings.place(ruling));
        self.tape.push(TapeEntry { effect, outcome: outcome.clone(), ruling });
        if !std::mem::take(&mut self.out) {
            return Ok(());
        }
        let closed = EffectClosed { agent: self.agent.clone(), turn: self.turn, number, outcome: outcome.clone() };
        let batch = Batch { entries: vec![Body::EffectClosed(Box::new(closed))], changes: Vec::new() };
        self.store
            .commit(batch)
            .map_err(|why| Halt::InDoubt(format!("`{what}` ended, but that can't be recorded: {why}")))?;
        self.flushed = self.tape.len();
        Ok(())
    }
}

/// Does what belongs to the turn's own transaction itself, and hands the rest on.
struct TurnExecutor {
    agent: AgentId,
    grants: Grants,
    store: Arc<Store>,
    rules: Arc<Rules>,
    outside: Outside,
    known: Recorded,
    /// Storage as this turn leaves it: `None` is deleted.
    writes: BTreeMap<String, Option<Entry>>,
    sent: Vec<(AgentId, Message)>,
    /// Room that was found for them.
    promised: Promised,
}

impl Executor for TurnExecutor {
    fn run(&mut self, permit: Permit) -> Result<Answer, Undone> {
        match permit.effect() {
            Effect::StorageGet { key } => Ok(Answer::Entry(self.get(key)?)),
            Effect::StorageSet { .. } | Effect::StorageDelete { .. } | Effect::AgentsSend { .. } => {
                // What it was told before an interruption stays so, though its addressee may be gone since, or have room.
                let known = self.known.entry(permit.number());
                let told = known.is_some_and(|entry| matches!(entry.outcome, Outcome::Done(_)));
                if known.is_some() && !told && matches!(permit.effect(), Effect::AgentsSend { .. }) {
                    return self.known.run(permit);
                }
                let labels = permit.labels().clone();
                self.change(permit.into_effect(), labels, told)
            }
            Effect::StorageList { prefix, after, limit } => {
                Ok(Answer::Keys(self.list(prefix, after.as_deref(), *limit as usize)?))
            }
            Effect::ToolsList {} => Ok(Answer::Tools(tools::granted(&self.grants))),
            _ if self.known.entry(permit.number()).is_some() => {
                let known = self.known.entry(permit.number());
                if known.is_some_and(|entry| matches!(entry.outcome, Outcome::Done(_))) {
                    self.outside.recall(permit.effect());
                }
                self.known.run(permit)
            }
            _ => self.outside.run(permit),
        }
    }
}

impl TurnExecutor {
    fn get(&self, key: &str) -> Result<Option<Entry>, String> {
        if let Some(written) = self.writes.get(key) {
            return Ok(written.clone());
        }
        let stored = self.store.storage_get(&self.agent, key).map_err(|why| why.to_string())?;
        Ok(stored.map(|(value, version)| Entry { value: value.into(), version }))
    }

    fn change(&mut self, effect: Effect, labels: Labels, told: bool) -> Result<Answer, Undone> {
        match effect {
            Effect::StorageSet { key, value } => {
                let version = self.get(&key)?.map_or(0, |entry| entry.version) + 1;
                self.writes.insert(key, Some(Entry { value, version }));
                Ok(Answer::Version(version))
            }
            Effect::StorageDelete { key } => {
                let existed = self.get(&key)?.is_some();
                if existed {
                    self.writes.insert(key, None);
                }
                Ok(Answer::Existed(existed))
            }
            Effect::AgentsSend { to, content_type, body } => {
                let to: AgentId = to.parse().map_err(|why: lazaret_gate::id::BadAgentId| why.to_string())?;
                // Whoever gets it has then seen what its sender had seen by now.
                let message = Message { sender: Some(self.agent.clone()), content_type, body, labels };
                if !told {
                    let row = self.store.agent(&to).map_err(|why| why.to_string())?;
                    let row = row.filter(|row| row.state != lazaret_store::AgentState::Removed);
                    if row.is_some_and(|row| self.rules.standing(&to, (row.revoked.as_ref(), None)).0.is_some()) {
                        return Err(Undone::Cut(Box::new(MailboxClosed { to }.refusal())));
                    }
                    self.promised.make(&self.store, &to, &message)?;
                }
                self.sent.push((to, message));
                Ok(Answer::Sent(u32::try_from(self.sent.len() - 1).unwrap_or(u32::MAX)))
            }
            other => Err(format!("`{}` changes nothing", other.kind()).into()),
        }
    }

    /// Merges what is stored with what this turn wrote, in byte order.
    fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<KeyInfo>, String> {
        // Deleted keys hide stored ones, so as many more are read as could be hidden.
        let wanted = limit.saturating_add(self.writes.len());
        let stored = self.store.storage_list(&self.agent, prefix, after, wanted).map_err(|why| why.to_string())?;
        let mut keys: BTreeMap<String, Option<KeyInfo>> = BTreeMap::new();
        for (key, entry) in &self.writes {
            if key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after) {
                let info = entry.as_ref().map(|entry| KeyInfo {
                    key: key.clone(),
                    version: entry.version,
                    size: entry.value.0.len() as u64,
                });
                keys.insert(key.clone(), info);
            }
        }
        for info in stored {
            if let Slot::Vacant(place) = keys.entry(info.key.clone()) {
                place.insert(Some(info));
            }
        }
        Ok(keys.into_values().flatten().take(limit).collect())
    }
}

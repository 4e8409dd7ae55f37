//! A store with a store's promises and no others: what was acknowledged is there after a crash; what wasn't may be.

use std::collections::{BTreeMap, VecDeque};

use lazaret_gate::AgentId;
use lazaret_gate::schedule::{Missed, When};
use lazaret_host::Life;
use lazaret_host::schedule::{Due, Plan};
use lazaret_host::supervisor::core::Standing;

/// A message, by what is unique about it. Its number in the mailbox is another thing.
pub(crate) type Payload = u64;

/// How a turn on record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Replied,
    Stopped,
    Cut,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// 0 if it never was in the mailbox.
    pub(crate) number: u64,
    pub(crate) payload: Payload,
    pub(crate) ending: Ending,
}

/// A turn of which something is on disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) number: u64,
    pub(crate) payload: Payload,
    /// Its effect may be done again.
    pub(crate) idempotent: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) when: When,
    pub(crate) missed: Missed,
    pub(crate) made: u64,
    pub(crate) until: u64,
    pub(crate) fired: Vec<u64>,
    /// Due times that it said it passed over.
    pub(crate) passed: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Agent {
    pub(crate) in_doubt: bool,
    pub(crate) quarantined: bool,
    pub(crate) revoked: bool,
    pub(crate) removed: bool,
    pub(crate) mail: VecDeque<(u64, Payload)>,
    pub(crate) records: Vec<Record>,
    pub(crate) begun: Option<Begun>,
    pub(crate) streak: u32,
    pub(crate) schedules: BTreeMap<String, Schedule>,
}

impl Agent {
    pub(crate) fn life(&self) -> Life {
        match self {
            _ if self.removed => Life::Dead,
            _ if self.revoked => Life::Revoked,
            _ if self.quarantined => Life::Quarantined,
            _ if self.in_doubt => Life::InDoubt,
            _ if self.records.is_empty() => Life::New,
            _ => Life::Asleep,
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing {
            life: self.life(),
            mail: !self.mail.is_empty(),
            unfinished: self.begun.is_some(),
            streak: self.streak,
        }
    }

    pub(crate) fn plans(&self) -> Vec<(String, Plan)> {
        let plan = |it: &Schedule| Plan::new(&it.when, it.missed, it.until).expect("a schedule that was made");
        self.schedules.iter().map(|(name, it)| (name.clone(), plan(it))).collect()
    }
}

/// What is written, all or nothing.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Enqueue { to: AgentId, payload: Payload },
    Open { agent: AgentId, begun: Begun },
    Turn { agent: AgentId, record: Record, sent: Vec<(AgentId, Payload)> },
    Doubt { agent: AgentId },
    Quarantine { agent: AgentId },
    Fire { agent: AgentId, name: String, due: Due, payloads: Vec<Payload> },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) agents: BTreeMap<AgentId, Agent>,
    messages: u64,
    pub(crate) full: bool,
    pub(crate) stopped: bool,
}

impl Disk {
    pub(crate) fn agent(&mut self, agent: &AgentId) -> &mut Agent {
        self.agents.get_mut(agent).expect("agents are never forgotten")
    }

    fn enqueue(&mut self, to: &AgentId, payload: Payload) {
        self.messages += 1;
        let number = self.messages;
        let agent = self.agent(to);
        if !agent.removed {
            agent.mail.push_back((number, payload));
        }
    }

    /// Makes a write true. An error is what a real store would refuse, or what must never be tried.
    pub(crate) fn apply(&mut self, write: &Write) -> Result<(), String> {
        match write {
            Write::Enqueue { to, payload } => self.enqueue(to, *payload),
            Write::Open { agent, begun } => self.agent(agent).begun = Some(*begun),
            Write::Doubt { agent } => self.agent(agent).in_doubt = true,
            Write::Quarantine { agent } => self.agent(agent).quarantined = true,
            Write::Turn { agent, record, sent } => {
                let it = self.agent(agent);
                if record.number != 0 && !it.removed {
                    match it.mail.pop_front() {
                        Some((number, _)) if number == record.number => {}
                        first => return Err(format!("`{agent}` answered {record:?} while {first:?} was its oldest")),
                    }
                }
                it.begun = None;
                it.streak = match record.ending {
                    Ending::Replied => 0,
                    Ending::Stopped => it.streak + 1,
                    Ending::Cut => it.streak,
                };
                it.records.push(record.clone());
                for (to, payload) in sent {
                    self.enqueue(to, *payload);
                }
            }
            Write::Fire { agent, name, due, payloads } => {
                let it = self.agent(agent);
                let Some(schedule) = it.schedules.get_mut(name) else { return Ok(()) };
                if due.until <= schedule.until {
                    return Err(format!("schedule `{name}` of `{agent}` fired twice for {due:?}"));
                }
                schedule.until = due.until;
                schedule.passed += due.missed;
                schedule.fired.extend(&due.times);
                for payload in payloads {
                    self.enqueue(agent, *payload);
                }
            }
        }
        Ok(())
    }
}

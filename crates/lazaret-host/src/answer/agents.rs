//! Agents: made, talked to, settled, removed.

use std::sync::Arc;

use lazaret_gate::record::Message;
use lazaret_gate::{AgentId, Bytes, Slots};
use lazaret_link::{AgentRequest, AgentView, Recovered as Told, Reply, RunRequest, Taken};
use lazaret_store::{AgentRow, AgentState, StoreError};

use super::Keeper;
use super::operator::short;
use crate::agents::NewAgent;
use crate::error::HostError;
use crate::host::lock;
use crate::life::Life;
use crate::recover::Recovered;
use crate::turns::Turn;

/// Names that are tried for a component that runs once.
const NAMES: u64 = 64;

impl From<Turn> for Taken {
    fn from(turn: Turn) -> Self {
        let Turn { seq, hash, record, pages, rulings, warnings } = turn;
        Self { seq, hash, record, pages: pages as u64, rulings, warnings }
    }
}

impl From<Taken> for Turn {
    fn from(taken: Taken) -> Self {
        let Taken { seq, hash, record, pages, rulings, warnings } = taken;
        let pages = usize::try_from(pages).unwrap_or(usize::MAX);
        Self { seq, hash, record, pages, rulings, warnings }
    }
}

impl From<Recovered> for Told {
    fn from(recovered: Recovered) -> Self {
        let failed = recovered.failed.into_iter().map(|(agent, why)| (agent, why.to_string()));
        Self {
            finished: recovered.finished.into_iter().map(Taken::from).collect(),
            in_doubt: recovered.in_doubt,
            failed: failed.collect(),
        }
    }
}

fn view(row: AgentRow, life: Life, trouble: Option<String>) -> AgentView {
    AgentView {
        agent: row.agent,
        world: row.world,
        state: life.name().to_owned(),
        trouble,
        turn: row.turn,
        mailbox: row.queued.len() as u64,
        component: row.component,
        engine: row.engine,
        grants: row.grants,
        budget: row.budget,
        caps: row.caps,
        slots: row.slots,
        image: row.image,
        unfinished: row.unfinished,
        labels: row.labels,
    }
}

/// A message from outside: no agent has sent it.
fn message(content_type: String, body: Bytes) -> Message {
    Message::outside(content_type, body)
}

impl Keeper {
    pub(super) fn agent(&self, request: AgentRequest) -> Result<Reply, HostError> {
        match request {
            AgentRequest::Create(new) => {
                let lazaret_link::NewAgent { agent, component, grants, budget, caps, slots } = *new;
                let row = self.host.create(NewAgent { agent, grants, budget, caps, slots }, &component.0)?;
                self.nudge(&row.agent);
                Ok(Reply::Agent(Box::new(self.view(row))))
            }
            AgentRequest::List { all } => {
                let mut rows = self.host.store.agents_now()?;
                rows.retain(|row| all || row.state != AgentState::Removed);
                let supervisor = self.supervisor.as_ref();
                let lives = supervisor.map(|supervisor| supervisor.lives()).unwrap_or_default();
                let mut troubles = supervisor.map(|supervisor| supervisor.status().troubles).unwrap_or_default();
                let views = rows.into_iter().map(|row| {
                    let life = self.life(&row, lives.get(&row.agent).copied());
                    let trouble = troubles.remove(&row.agent).map(|(why, _)| why);
                    view(row, life, trouble)
                });
                Ok(Reply::Agents(views.collect()))
            }
            AgentRequest::Show { agent } => {
                let row = self.host.store.agent(&agent)?.ok_or_else(|| HostError::NoAgent(agent.to_string()))?;
                Ok(Reply::Agent(Box::new(self.view(Arc::unwrap_or_clone(row)))))
            }
            AgentRequest::Send { agent, content_type, body } => {
                let message = message(content_type, body);
                let turn = match &self.supervisor {
                    Some(supervisor) => supervisor.send(&agent, message)?,
                    None => self.host.send(&agent, message)?,
                };
                Ok(Reply::Taken(Box::new(turn.into())))
            }
            AgentRequest::Post { agent, content_type, body } => {
                let message = message(content_type, body);
                let message = match &self.supervisor {
                    Some(supervisor) => supervisor.post(&agent, message)?,
                    None => self.host.enqueue(&agent, message)?,
                };
                Ok(Reply::Posted { message })
            }
            // A supervisor does so by itself.
            AgentRequest::Deliver if self.supervisor.is_some() => Ok(Reply::Delivered(Vec::new())),
            AgentRequest::Deliver => Ok(Reply::Delivered(self.host.deliver()?.into_iter().map(Taken::from).collect())),
            AgentRequest::Settle { agent, note } => {
                short("a note", &note)?;
                self.host.settle(&agent, &note)?;
                if self.supervisor.is_some() {
                    // It takes the turn up, and says so in the journal.
                    self.nudge(&agent);
                    return Ok(Reply::Recovered(Box::default()));
                }
                Ok(Reply::Recovered(Box::new(self.take_up(&agent)?.into())))
            }
            AgentRequest::Remove { agent } => {
                self.host.remove(&agent)?;
                self.nudge(&agent);
                Ok(Reply::Done)
            }
            AgentRequest::SimulateCrash { agent, content_type, body, with_others } => {
                self.simulate_crash(&agent, message(content_type, body), with_others)
            }
            AgentRequest::Fork { .. }
            | AgentRequest::Rollback { .. }
            | AgentRequest::Quarantine { .. }
            | AgentRequest::Wake { .. }
            | AgentRequest::Sleep { .. } => self.order(request),
        }
    }

    /// What operators do with an agent that is there. Afterwards the supervisor looks at it anew.
    fn order(&self, request: AgentRequest) -> Result<Reply, HostError> {
        match request {
            AgentRequest::Fork { from, agent, turn } => {
                let (_, forked) = self.host.fork(&from, turn, &agent)?;
                self.nudge(&agent);
                Ok(Reply::Forked { turn: forked.turn, entry: forked.entry })
            }
            AgentRequest::Rollback { agent, turn, by } => {
                self.host.rollback(&agent, turn, &by)?;
                self.nudge(&agent);
                Ok(Reply::Done)
            }
            AgentRequest::Quarantine { agent, by, reason } => {
                self.host.quarantine(&agent, &by, &reason)?;
                self.nudge(&agent);
                Ok(Reply::Done)
            }
            AgentRequest::Wake { agent, by } => {
                self.host.wake(&agent, &by)?;
                self.nudge(&agent);
                let recovered = if self.supervisor.is_some() { Recovered::default() } else { self.take_up(&agent)? };
                Ok(Reply::Recovered(Box::new(recovered.into())))
            }
            AgentRequest::Sleep { agent } => Ok(Reply::LetGo(self.host.sleep(&agent)?)),
            _ => Err(HostError::Unserved("that")),
        }
    }

    /// An agent as it stands, and what it is doing.
    fn view(&self, row: AgentRow) -> AgentView {
        let known = self.supervisor.as_ref().and_then(|supervisor| supervisor.life(&row.agent));
        let life = self.life(&row, known);
        let trouble = self.supervisor.as_ref().and_then(|supervisor| supervisor.trouble(&row.agent));
        view(row, life, trouble.map(|(why, _)| why))
    }

    /// What an agent is doing. The disk's word on who may not take turns comes first: the supervisor hears of it a little
    /// later.
    fn life(&self, row: &AgentRow, known: Option<Life>) -> Life {
        let on_disk = Life::on_disk(&self.host, row);
        known.filter(|_| on_disk.is_idle()).unwrap_or(on_disk)
    }

    /// Has the supervisor look at agents of whom the disk says something else by now.
    pub(super) fn nudge_changed(&self) -> Result<(), HostError> {
        let Some(supervisor) = &self.supervisor else { return Ok(()) };
        let lives = supervisor.lives();
        for row in self.host.store.agents_now()? {
            let runs = lives.get(&row.agent).map(|life| life.is_idle() || life.is_awake());
            if runs.is_some_and(|runs| runs != Life::on_disk(&self.host, &row).is_idle()) {
                self.nudge(&row.agent);
            }
        }
        Ok(())
    }

    /// Takes up a turn of this agent that was cut off. Those of others may be under way.
    fn take_up(&self, agent: &AgentId) -> Result<Recovered, HostError> {
        let slot = self.host.slot(agent);
        let _turn = lock(&slot);
        let mut recovered = Recovered::default();
        if let Some(turn) = self.host.known(agent)?.unfinished {
            match self.host.resume(agent, turn) {
                Ok(turn) => recovered.finished.push(turn),
                Err(HostError::InDoubt { agent, .. }) => recovered.in_doubt.push(agent),
                Err(why) => recovered.failed.push((agent.clone(), why)),
            }
        }
        Ok(recovered)
    }

    /// One turn of a component, as an agent that is gone afterwards.
    pub(super) fn run(&self, request: RunRequest) -> Result<Reply, HostError> {
        let RunRequest { component, content_type, body, grants, budget, caps, environment } = request;
        let row = self.create_unnamed(|agent| {
            let (grants, budget, caps) = (grants.clone(), budget.clone(), caps.clone());
            self.host.create(NewAgent { agent, grants, budget, caps, slots: Slots::default() }, &component.0)
        })?;
        self.host.set_environment(&row.agent, environment);
        let message = message(content_type, body);
        let taken = match &self.supervisor {
            Some(supervisor) => supervisor.send(&row.agent, message),
            None => self.host.send(&row.agent, message),
        };
        self.host.set_environment(&row.agent, Vec::new());
        self.host.remove(&row.agent)?;
        self.nudge(&row.agent);
        Ok(Reply::Taken(Box::new(taken?.into())))
    }

    /// Finds a name that was never used: the journal only grows, but somebody else may be as quick.
    fn create_unnamed(&self, create: impl Fn(AgentId) -> Result<AgentRow, HostError>) -> Result<AgentRow, HostError> {
        let len = self.host.store.acknowledged();
        let mut created = Err(HostError::Halted("no name was free for it".into()));
        for number in len..len + NAMES {
            let name = format!("run-{number}").parse();
            let name = name.map_err(|why: lazaret_gate::id::BadAgentId| HostError::Halted(why.to_string()))?;
            created = create(name);
            if !matches!(created, Err(HostError::Store(StoreError::NameTaken { .. }))) {
                return created;
            }
        }
        created
    }

    /// Posts a message, and cuts the turn off that would answer it.
    fn simulate_crash(&self, agent: &AgentId, message: Message, with_others: bool) -> Result<Reply, HostError> {
        let surroundings = self.surroundings.clone().ok_or(HostError::Unserved("agent simulate-crash"))?;
        let awake = self.supervisor.as_ref().map_or(0, |supervisor| supervisor.status().awake as u64);
        let others = self.under_way().saturating_sub(1).max(awake);
        if others > 0 && !with_others {
            return Err(HostError::Others(others));
        }
        self.host.arm(agent, Box::new(move || surroundings.crash()));
        // The message is on disk before the turn begins, so that there is something to come back to.
        let delivered = match &self.supervisor {
            Some(supervisor) => supervisor.send_in_line(agent, message).map(drop),
            None => self.host.post(agent, message).and_then(|()| self.host.deliver()).map(drop),
        };
        // Whoever comes here lives: the turn was not taken.
        self.host.disarm();
        delivered?;
        Err(HostError::Halted(format!("agent `{agent}` took no turn, so none could be cut off")))
    }
}

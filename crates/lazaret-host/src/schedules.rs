//! Schedules on disk: made, removed, fired. The journal says what they are; an agent's row says which stand and how far
//! each has come.

use lazaret_gate::AgentId;
use lazaret_gate::record::Body;
use lazaret_gate::schedule::{ScheduleAdded, ScheduleFired, ScheduleRemoved};
use lazaret_store::{AgentRow, AgentState, Batch, Change, Reader, Standing, StoreError, Ticket};

use crate::error::HostError;
use crate::host::{Host, now_ms};
use crate::limits::{MAX_SCHEDULE_MESSAGE, MAX_SCHEDULES_IN_ALL};
use crate::schedule::{BadSchedule, Due, Plan};

/// A schedule that stands.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// What it is.
    pub schedule: ScheduleAdded,
    /// When it is due next, in milliseconds since 1970, if it ever is.
    pub next: Option<u64>,
}

fn damaged(agent: &AgentId, name: &str) -> HostError {
    HostError::Store(StoreError::Damaged { what: format!("schedule `{name}` of agent `{agent}`") })
}

/// What a schedule is: the entry that made it.
fn definition(reader: &Reader, agent: &AgentId, standing: &Standing) -> Result<ScheduleAdded, HostError> {
    match reader.entry(standing.entry)?.body {
        Body::ScheduleAdded(it) if it.agent == *agent && it.schedule == standing.name => Ok(*it),
        _ => Err(damaged(agent, &standing.name)),
    }
}

/// The schedules of a data root, by agent and name.
pub fn schedules(reader: &Reader) -> Result<Vec<Scheduled>, HostError> {
    let mut all = Vec::new();
    for row in reader.agents()? {
        for standing in &row.schedules {
            let schedule = definition(reader, &row.agent, standing)?;
            let next = Plan::new(&schedule.when, schedule.missed, standing.until)?.next();
            all.push(Scheduled { schedule, next });
        }
    }
    all.sort_by(|a, b| (&a.schedule.agent, &a.schedule.schedule).cmp(&(&b.schedule.agent, &b.schedule.schedule)));
    Ok(all)
}

fn check(schedule: &ScheduleAdded, now: u64) -> Result<Plan, BadSchedule> {
    // The same rule as for agents: safe to print and to compare.
    let named = schedule.schedule.parse::<AgentId>().is_ok();
    if !named {
        return Err(BadSchedule::Name(schedule.schedule.chars().take(128).collect()));
    }
    let len = schedule.message.body.0.len() + schedule.message.content_type.len();
    if len > MAX_SCHEDULE_MESSAGE {
        return Err(BadSchedule::Message { len, most: MAX_SCHEDULE_MESSAGE });
    }
    Plan::new(&schedule.when, schedule.missed, now)
}

impl Host {
    /// Makes a schedule; returns when it is due first.
    pub fn add_schedule(&self, schedule: ScheduleAdded) -> Result<Option<u64>, HostError> {
        let now = now_ms();
        let plan = check(&schedule, now)?;
        self.known(&schedule.agent)?;
        let standing: usize = self.store.agents()?.iter().map(|row| row.schedules.len()).sum();
        if standing >= MAX_SCHEDULES_IN_ALL {
            return Err(HostError::Schedules(standing));
        }
        let (agent, name) = (schedule.agent.clone(), schedule.schedule.clone());
        let changes = vec![Change::AddSchedule { agent, name, entry: 0, until: now }];
        self.store.commit(Batch { entries: vec![Body::ScheduleAdded(Box::new(schedule))], changes })?;
        Ok(plan.next())
    }

    /// Removes a schedule. What it has left in the mailbox stays there.
    pub fn remove_schedule(&self, agent: &AgentId, name: &str, by: &str, reason: &str) -> Result<(), HostError> {
        self.known(agent)?;
        let (by, reason, schedule) = (by.to_owned(), reason.to_owned(), name.to_owned());
        let entry = Body::ScheduleRemoved(ScheduleRemoved { agent: agent.clone(), by, reason, schedule });
        let changes = vec![Change::RemoveSchedule { agent: agent.clone(), name: name.to_owned() }];
        self.store.commit(Batch { entries: vec![entry], changes })?;
        Ok(())
    }

    /// An agent's schedules, ready to be kept.
    pub(crate) fn plans(&self, row: &AgentRow) -> Result<Vec<(String, Plan)>, HostError> {
        if row.state == AgentState::Removed {
            return Ok(Vec::new());
        }
        let plan = |standing: &Standing| {
            let it = definition(&self.store, &row.agent, standing)?;
            Ok((standing.name.clone(), Plan::new(&it.when, it.missed, standing.until)?))
        };
        row.schedules.iter().map(plan).collect()
    }

    /// Puts what a schedule has to say in line to be written: its messages, that it fired, and how far it has come, all or
    /// nothing.
    pub(crate) fn fire(&self, agent: &AgentId, name: &str, due: &Due) -> Result<Ticket, HostError> {
        let row = self.known(agent)?;
        self.trusted(&row)?;
        let standing =
            row.schedules.iter().find(|standing| standing.name == name).ok_or_else(|| damaged(agent, name))?;
        let message = definition(&self.store, agent, standing)?.message;
        let mut batch = Batch::default();
        for (place, time) in due.times.iter().enumerate() {
            batch.entries.push(Body::ScheduleFired(ScheduleFired {
                agent: agent.clone(),
                due: *time,
                missed: if place == 0 { due.missed } else { 0 },
                schedule: name.to_owned(),
            }));
            batch.changes.push(Change::Enqueue { to: agent.clone(), message: message.clone() });
        }
        let (agent, name) = (agent.clone(), name.to_owned());
        batch.changes.push(Change::FireSchedule { agent, name, until: due.until });
        Ok(self.store.commit_async(batch)?)
    }
}

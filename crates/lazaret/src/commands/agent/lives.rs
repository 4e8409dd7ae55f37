//! What agents are doing.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_gate::AgentId;
use lazaret_host::{Approvals, InForce, Life};
use lazaret_link::{AgentRequest, Reply, Request};
use lazaret_store::AgentRow;

use crate::cli::Cli;
use crate::commands::data_dir;
use crate::door::{keeper_of, unexpected};
use crate::failure::Failure;

/// As the keeper says, if one runs; otherwise as far as the data root tells.
pub(super) struct Lives {
    told: BTreeMap<AgentId, (String, Option<String>)>,
    in_force: InForce,
    asked: BTreeSet<AgentId>,
}

impl Lives {
    /// Of all agents.
    pub(super) fn of_all(cli: &Cli) -> Result<Self, Failure> {
        Self::look(cli, AgentRequest::List { all: true })
    }

    /// Of one.
    pub(super) fn of_one(cli: &Cli, agent: &AgentId) -> Result<Self, Failure> {
        Self::look(cli, AgentRequest::Show { agent: agent.clone() })
    }

    fn look(cli: &Cli, request: AgentRequest) -> Result<Self, Failure> {
        let root = data_dir(cli)?;
        let views = match keeper_of(&root)?.map(|mut keeper| keeper.ask(Request::Agent(request))).transpose()? {
            None => Vec::new(),
            Some(Reply::Agents(views)) => views,
            Some(Reply::Agent(view)) => vec![*view],
            Some(_) => return Err(unexpected()),
        };
        // Where nothing may be written, nobody is asked anything.
        let pending = Approvals::open(&root).and_then(|approvals| approvals.pending()).unwrap_or_default();
        Ok(Self {
            told: views.into_iter().map(|view| (view.agent, (view.state, view.trouble))).collect(),
            in_force: InForce::read(&root),
            asked: pending.into_iter().map(|question| question.agent).collect(),
        })
    }

    /// What this one is doing.
    pub(super) fn of(&self, row: &AgentRow) -> &str {
        if let Some((state, _)) = self.told.get(&row.agent) {
            return state;
        }
        let life = Life::of(row, self.in_force.revoked(&row.agent, row.revoked.as_ref()).is_some());
        let life = if life.is_idle() && self.asked.contains(&row.agent) { Life::Waiting } else { life };
        life.name()
    }

    /// Why it can't have the turn that it wants, if the keeper says so.
    pub(super) fn trouble(&self, agent: &AgentId) -> Option<&str> {
        self.told.get(agent)?.1.as_deref()
    }
}

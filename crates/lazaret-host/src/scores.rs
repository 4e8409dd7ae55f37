//! How far agents are trusted, and why, as operators are shown it.

use lazaret_gate::AgentId;
use lazaret_gate::trust::{self, Conduct, Revoked, Score, Term, TrustEvent};
use lazaret_store::{AgentRow, AgentState, Reader};
use serde::Serialize;

use crate::error::HostError;
use crate::revocations::{InForce, conduct_of, events_of};

/// How far one agent is trusted.
#[derive(Clone, Debug, Serialize)]
pub struct Trusted {
    /// Which.
    pub agent: AgentId,
    /// How far: not at all if it is revoked.
    pub score: Score,
    /// How it has behaved.
    pub conduct: Conduct,
    /// Who has revoked it, when and why; none if nobody has.
    pub revoked: Option<Revoked>,
}

/// How far one agent is trusted, term by term, counted from the journal.
#[derive(Clone, Debug, Serialize)]
pub struct TrustTold {
    /// Which.
    pub agent: AgentId,
    /// How far: not at all if it is revoked.
    pub score: Score,
    /// What its score is counted from.
    pub base: Score,
    /// How it has behaved.
    pub conduct: Conduct,
    /// What its score is the sum of.
    pub terms: Vec<Term>,
    /// Who has revoked it, when and why; none if nobody has.
    pub revoked: Option<Revoked>,
    /// The score that it has, or would have if it weren't revoked.
    pub by_conduct: Score,
    /// What happened to its trust, oldest first.
    pub events: Vec<TrustEvent>,
}

impl Trusted {
    /// How far an agent is trusted by what its row has counted; from the journal if nobody has counted yet.
    pub fn of(reader: &Reader, in_force: &InForce, row: &AgentRow) -> Result<Self, HostError> {
        let conduct = row.conduct.map_or_else(|| conduct_of(reader, &row.agent), Ok)?;
        let revoked = in_force.revoked(&row.agent, row.revoked.as_ref());
        Ok(Self { agent: row.agent.clone(), score: in_force.score(row, &conduct), conduct, revoked })
    }

    /// All that there are, by name.
    pub fn all(reader: &Reader, in_force: &InForce) -> Result<Vec<Self>, HostError> {
        let mut rows = reader.agents()?;
        rows.retain(|row| row.state != AgentState::Removed);
        rows.iter().map(|row| Self::of(reader, in_force, row)).collect()
    }
}

impl TrustTold {
    /// Counts it.
    pub fn of(reader: &Reader, in_force: &InForce, row: &AgentRow) -> Result<Self, HostError> {
        let conduct = conduct_of(reader, &row.agent)?;
        let base = in_force.base(&row.agent, row.base).unwrap_or(Score::START);
        Ok(Self {
            agent: row.agent.clone(),
            score: in_force.score(row, &conduct),
            base,
            conduct,
            terms: trust::terms(&conduct, base),
            revoked: in_force.revoked(&row.agent, row.revoked.as_ref()),
            by_conduct: trust::score(&conduct, base),
            events: events_of(reader, &row.agent)?,
        })
    }
}

//! Agents: one row each, kept for ever.

use std::collections::BTreeMap;

use lazaret_gate::record::World;
use lazaret_gate::{AgentId, Budget, Digest, Grants};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::head::Head;
use crate::seal::{digest_of, seal};
use crate::{mailbox, storage};

/// What an agent is doing between turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentState {
    /// It waits for a message.
    Asleep,
    /// It isn't known whether an effect of it happened; a person has to say.
    InDoubt,
    /// It is gone. Its name stays taken.
    Removed,
}

impl AgentState {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::InDoubt => "in doubt",
            Self::Removed => "removed",
        }
    }
}

/// An agent to be made.
#[derive(Clone, Debug)]
pub struct NewAgent {
    /// Its name, never used before.
    pub agent: AgentId,
    /// What it runs.
    pub component: Digest,
    /// How it lives.
    pub world: World,
    /// The engine's configuration, by digest.
    pub engine: Digest,
    /// What it may ask for.
    pub grants: Grants,
    /// What each turn may cost.
    pub budget: Budget,
    /// Its first image; none if stateless.
    pub image: Option<Digest>,
    /// Place in the batch of the entry that creates it.
    pub entry: usize,
}

/// An agent as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRow {
    /// Its name.
    pub agent: AgentId,
    /// What it runs.
    pub component: Digest,
    /// How it lives.
    pub world: World,
    /// The engine's configuration, by digest.
    pub engine: Digest,
    /// What it may ask for.
    pub grants: Grants,
    /// What each turn may cost.
    pub budget: Budget,
    /// The image it will wake from; none if stateless.
    pub image: Option<Digest>,
    /// Turns taken.
    pub turn: u64,
    /// Hash of its last turn's entry, or of the entry that created it.
    pub last_entry: Digest,
    /// What it is doing.
    pub state: AgentState,
    /// A turn that has effects on disk and isn't over.
    pub unfinished: Option<u64>,
    /// The messages that wait for it, oldest first, by number.
    pub queued: Vec<u64>,
    /// Digest over the place, kind and turn of each of its entries, so that none can be overlooked.
    pub trail: Digest,
}

impl AgentRow {
    fn from_row(row: &rusqlite::Row<'_>) -> Result<Self, StoreError> {
        let (agent, bytes, digest) = (row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?);
        let parts = agent.as_bytes().ok().zip(bytes.as_blob().ok()).zip(digest.as_blob().ok());
        let damaged = || StoreError::damaged("an agent's row");
        let ((name, bytes), digest) = parts.ok_or_else(damaged)?;
        if digest_of(digest) != Some(seal("agents", &[name, bytes])) {
            let name = String::from_utf8_lossy(name).chars().take(64).collect::<String>();
            return Err(StoreError::damaged(format!("the row of agent `{name}`")));
        }
        // The digest is over these very bytes, so they need not be in canonical form as well.
        let row: Option<Self> = serde_json::from_slice(bytes).ok();
        row.filter(|row| row.agent.as_str().as_bytes() == name).ok_or_else(damaged)
    }

    fn write(&self, conn: &Connection) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(self).map_err(|why| StoreError::bad(why.to_string()))?;
        let digest = seal("agents", &[self.agent.as_str().as_bytes(), &bytes]);
        conn.prepare_cached(
            "INSERT INTO agents VALUES (?1, ?2, ?3)
             ON CONFLICT (agent) DO UPDATE SET row = excluded.row, digest = excluded.digest",
        )?
        .execute(params![self.agent.as_str(), bytes, digest.0])?;
        Ok(())
    }

    /// Adds an entry to the trail.
    pub(crate) fn extend_trail(&mut self, seq: u64, kind: &str, turn: Option<u64>) {
        let turn = turn.map(u64::to_le_bytes);
        let turn = turn.as_ref().map_or(&[][..], |turn| turn);
        self.trail = seal("trail", &[&self.trail.0, &seq.to_le_bytes(), kind.as_bytes(), turn]);
    }
}

/// The trail of an agent without entries.
pub(crate) const NO_TRAIL: Digest = Digest([0; 32]);

/// One agent's row, if it can be found.
pub(crate) fn look_up(conn: &Connection, agent: &AgentId) -> Result<Option<AgentRow>, StoreError> {
    let mut query = conn.prepare_cached("SELECT agent, row, digest FROM agents WHERE agent = ?1")?;
    query.query_row([agent.as_str()], |row| Ok(AgentRow::from_row(row))).optional()?.transpose()
}

/// One agent, removed ones included. A miss is only believed after every row that must be there was seen.
pub(crate) fn find(conn: &Connection, agent: &AgentId) -> Result<Option<AgentRow>, StoreError> {
    match look_up(conn, agent)? {
        Some(row) => Ok(Some(row)),
        None => all(conn).map(|_| None),
    }
}

/// An agent that wasn't removed.
pub(crate) fn living(conn: &Connection, agent: &AgentId) -> Result<AgentRow, StoreError> {
    find(conn, agent)?
        .filter(|row| row.state != AgentState::Removed)
        .ok_or_else(|| StoreError::NoSuchAgent { agent: agent.clone() })
}

/// All of them, by name.
pub(crate) fn all(conn: &Connection) -> Result<Vec<AgentRow>, StoreError> {
    let mut query = conn.prepare_cached("SELECT agent, row, digest FROM agents ORDER BY agent")?;
    let mut rows = query.query([])?;
    let mut agents: Vec<AgentRow> = Vec::new();
    while let Some(row) = rows.next()? {
        let row = AgentRow::from_row(row)?;
        if agents.last().is_some_and(|before| before.agent >= row.agent) {
            return Err(StoreError::damaged("the order of the agents"));
        }
        agents.push(row);
    }
    match Head::read(conn)?.map_or(0, |head| head.agents) == agents.len() as u64 {
        true => Ok(agents),
        false => Err(StoreError::damaged("the list of agents")),
    }
}

/// The rows that a group of batches has touched: each is read once and written once.
#[derive(Default)]
pub(crate) struct Loaded {
    rows: BTreeMap<AgentId, AgentRow>,
}

impl Loaded {
    /// A batch went well: what it touched is what the next one sees.
    pub(crate) fn accept(&mut self, touched: BTreeMap<AgentId, AgentRow>) {
        self.rows.extend(touched);
    }

    /// Writes all of it.
    pub(crate) fn write(&self, conn: &Connection) -> Result<(), StoreError> {
        self.rows.values().try_for_each(|row| row.write(conn))
    }
}

/// The rows that one batch touches. Given up with the batch if it fails.
pub(crate) struct Touched<'a> {
    rows: BTreeMap<AgentId, AgentRow>,
    before: &'a Loaded,
}

impl<'a> Touched<'a> {
    pub(crate) fn new(before: &'a Loaded) -> Self {
        Self { rows: BTreeMap::new(), before }
    }

    /// A row to change, whatever its state.
    pub(crate) fn any(&mut self, conn: &Connection, agent: &AgentId) -> Result<&mut AgentRow, StoreError> {
        if !self.rows.contains_key(agent) {
            let known = self.before.rows.get(agent).cloned();
            let row = known.map_or_else(|| look_up(conn, agent), |row| Ok(Some(row)))?;
            let row = row.ok_or_else(|| StoreError::NoSuchAgent { agent: agent.clone() })?;
            self.rows.insert(agent.clone(), row);
        }
        self.rows.get_mut(agent).ok_or_else(|| StoreError::NoSuchAgent { agent: agent.clone() })
    }

    /// A row to change, of an agent that wasn't removed.
    pub(crate) fn living(&mut self, conn: &Connection, agent: &AgentId) -> Result<&mut AgentRow, StoreError> {
        let row = self.any(conn, agent)?;
        match row.state {
            AgentState::Removed => Err(StoreError::NoSuchAgent { agent: agent.clone() }),
            _ => Ok(row),
        }
    }

    /// A new row. Its storage begins here.
    pub(crate) fn create(
        &mut self,
        conn: &Connection,
        head: &mut Head,
        new: NewAgent,
        last_entry: Digest,
    ) -> Result<(), StoreError> {
        if look_up(conn, &new.agent)?.is_some() {
            return Err(StoreError::NameTaken { agent: new.agent });
        }
        // A row that got lost would let a name be used twice.
        let count: i64 = conn.prepare_cached("SELECT count(*) FROM agents")?.query_row([], |row| row.get(0))?;
        if count.cast_unsigned() != head.agents {
            return Err(StoreError::damaged("the list of agents"));
        }
        head.agents += 1;
        let NewAgent { agent, component, world, engine, grants, budget, image, entry: _ } = new;
        let (state, unfinished, trail) = (AgentState::Asleep, None, NO_TRAIL);
        let row = AgentRow {
            agent,
            component,
            world,
            engine,
            grants,
            budget,
            image,
            turn: 0,
            last_entry,
            state,
            unfinished,
            queued: Vec::new(),
            trail,
        };
        row.write(conn)?;
        storage::begin(conn, &row.agent)?;
        self.rows.insert(row.agent.clone(), row);
        Ok(())
    }

    /// Leaves the name and takes the rest.
    pub(crate) fn remove(&mut self, conn: &Connection, agent: &AgentId) -> Result<(), StoreError> {
        let row = self.living(conn, agent)?;
        row.state = AgentState::Removed;
        row.unfinished = None;
        row.queued.clear();
        storage::clear(conn, agent)?;
        mailbox::clear(conn, agent)
    }

    /// What was changed.
    pub(crate) fn into_rows(self) -> BTreeMap<AgentId, AgentRow> {
        self.rows
    }
}

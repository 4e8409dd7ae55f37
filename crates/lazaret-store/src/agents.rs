//! Agents: one row each, kept for ever.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lazaret_gate::ledger::{Account, Caps, Holder};
use lazaret_gate::record::World;
use lazaret_gate::trust::{self, Conduct, Revoked, Score, TrustChange, TrustEvent};
use lazaret_gate::{AgentId, Budget, Digest, Grants, Labels, Slots};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::db::Pool;
use crate::desk::Ahead;
use crate::error::StoreError;
use crate::head::Head;
use crate::op::Op;
use crate::recent::Recent;
use crate::seal::{digest_of, seal};

/// What an agent is doing between turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentState {
    /// It waits for a message.
    Asleep,
    /// It isn't known whether an effect of it happened; a person has to say.
    InDoubt,
    /// It takes no turn until a person wakes it. Its messages wait.
    Quarantined,
    /// It is gone. Its name stays taken.
    Removed,
}

impl AgentState {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::InDoubt => "in doubt",
            Self::Quarantined => "quarantined",
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
    /// What it may spend beyond one turn.
    pub caps: Caps,
    /// The slots that its author declares.
    pub slots: Slots,
    /// Its first image; none if stateless.
    pub image: Option<Digest>,
    /// What it has seen: nothing, unless it is made from another agent.
    pub labels: Labels,
    /// Place in the batch of the entry that creates it.
    pub entry: usize,
}

/// An agent as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRow {
    /// What it has spent.
    pub account: Account,
    /// Its name.
    pub agent: AgentId,
    /// The base score that was set for it.
    #[serde(default)]
    pub base: Option<Score>,
    /// What each turn may cost.
    pub budget: Budget,
    /// What it may spend beyond one turn.
    pub caps: Caps,
    /// What it runs.
    pub component: Digest,
    /// How it has behaved; none if nobody has counted yet, because the data root is from before anybody did.
    #[serde(default)]
    pub conduct: Option<Conduct>,
    /// The engine's configuration, by digest.
    pub engine: Digest,
    /// What it may ask for.
    pub grants: Grants,
    /// The image it will wake from; none if stateless.
    pub image: Option<Digest>,
    /// What it has seen.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Hash of the last entry of its chain: its last turn, the rollback since, or its first entry.
    pub last_entry: Digest,
    /// The messages that wait for it, oldest first, by number.
    pub queued: Vec<u64>,
    /// That it is revoked, as the journal says. What is in force is for the host to tell.
    #[serde(default)]
    pub revoked: Option<Revoked>,
    /// When it is woken, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<Standing>,
    /// How many bytes each of the messages that wait has. Empty in a row from before they were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u64>,
    /// The slots that its author declares.
    #[serde(default, skip_serializing_if = "Slots::is_empty")]
    pub slots: Slots,
    /// What it is doing.
    pub state: AgentState,
    /// Turns in a row that the host had to stop for what the agent did. A reply or the agent's own failure ends it.
    #[serde(default)]
    pub streak: u32,
    /// Digest over the place, kind and turn of each of its entries, so that none can be overlooked.
    pub trail: Digest,
    /// Turns taken.
    pub turn: u64,
    /// A turn that has effects on disk and isn't over.
    pub unfinished: Option<u64>,
    /// How it lives.
    pub world: World,
}

/// A schedule that stands. What it says is in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// Its name among the agent's schedules.
    pub name: String,
    /// Place in the journal of the entry that made it.
    pub entry: u64,
    /// Due times up to here, in milliseconds since 1970, are done with: it fired for them, or they were passed over.
    pub until: u64,
}

impl AgentRow {
    /// How far its conduct lets it be trusted; whether it is revoked is not in this.
    pub fn score(&self) -> Score {
        trust::score(&self.conduct.unwrap_or_default(), self.base.unwrap_or(Score::START))
    }

    /// Adds to how it has behaved; `before` is for a row in which nobody has counted yet.
    pub(crate) fn behaved(&mut self, before: Conduct, more: Conduct) {
        self.conduct = Some(self.conduct.unwrap_or(before).plus(more));
    }

    /// Does what was recorded about its trust.
    pub(crate) fn judge(&mut self, event: &TrustEvent) {
        match event.change {
            TrustChange::Set => self.base = Some(event.score),
            TrustChange::Revoked => {
                let TrustEvent { by, at, reason, .. } = event.clone();
                self.revoked.get_or_insert(Revoked { by, at, reason });
            }
            TrustChange::Restored => self.revoked = None,
            TrustChange::Mismatch => {
                // What was never counted is counted whole, and then this is among it.
                self.conduct = self.conduct.map(|conduct| conduct.plus(Conduct::of_event(event)));
            }
        }
    }

    /// Bytes of the messages that wait for it.
    pub fn queued_bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

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

    /// Adds the row to a commit.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let row = serde_json::to_vec(self).map_err(|why| StoreError::bad(why.to_string()))?;
        Op::Row { agent: self.agent.as_str(), row: &row }.write(out);
        Ok(())
    }

    /// Adds an entry to the trail.
    pub(crate) fn extend_trail(&mut self, seq: u64, kind: &str, turn: Option<u64>) {
        let turn = turn.map(u64::to_le_bytes);
        let turn = turn.as_ref().map_or(&[][..], |turn| turn);
        self.trail = seal("trail", &[&self.trail.0, &seq.to_le_bytes(), kind.as_bytes(), turn]);
    }
}

/// Lays a row into the table.
pub(crate) fn put(conn: &Connection, agent: &str, row: &[u8]) -> Result<(), StoreError> {
    let digest = seal("agents", &[agent.as_bytes(), row]);
    conn.prepare_cached(
        "INSERT INTO agents VALUES (?1, ?2, ?3)
         ON CONFLICT (agent) DO UPDATE SET row = excluded.row, digest = excluded.digest",
    )?
    .execute(params![agent, row, digest.0])?;
    Ok(())
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

/// Where rows are found: those that commits in the air and recent ones left, and the tables for all others.
pub(crate) struct Source<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) recent: &'a Recent,
    pub(crate) ahead: &'a VecDeque<Ahead>,
}

impl Source<'_> {
    fn row(&self, agent: &AgentId) -> Result<Option<AgentRow>, StoreError> {
        let ahead = self.ahead.iter().rev().find_map(|commit| commit.rows.get(agent));
        match ahead.cloned().or_else(|| self.recent.row(agent)) {
            Some(row) => Ok(Some(Arc::unwrap_or_clone(row))),
            None => self.pool.glance(|conn| look_up(conn, agent)),
        }
    }

    /// A row that got lost would let a name be used twice.
    fn check_count(&self) -> Result<(), StoreError> {
        let same = self.pool.glance(|conn| {
            let mut query = conn.prepare_cached("SELECT (SELECT count(*) FROM agents) IS (SELECT agents FROM head)")?;
            Ok(query.query_row([], |row| row.get::<_, bool>(0))?)
        })?;
        if same { Ok(()) } else { Err(StoreError::damaged("the list of agents")) }
    }
}

/// The rows that a group of batches has touched: each is read once and written once.
pub(crate) type Rows = BTreeMap<AgentId, AgentRow>;

/// The rows that one batch touches. Given up with the batch if it fails.
pub(crate) struct Touched<'a> {
    rows: Rows,
    before: &'a Rows,
    source: &'a Source<'a>,
}

impl<'a> Touched<'a> {
    pub(crate) fn new(before: &'a Rows, source: &'a Source<'a>) -> Self {
        Self { rows: Rows::new(), before, source }
    }

    fn known(&self, agent: &AgentId) -> Result<Option<AgentRow>, StoreError> {
        match self.rows.get(agent).or_else(|| self.before.get(agent)) {
            Some(row) => Ok(Some(row.clone())),
            None => self.source.row(agent),
        }
    }

    /// A row to change, whatever its state.
    pub(crate) fn any(&mut self, agent: &AgentId) -> Result<&mut AgentRow, StoreError> {
        let missing = || StoreError::NoSuchAgent { agent: agent.clone() };
        if !self.rows.contains_key(agent) {
            let row = self.known(agent)?.ok_or_else(missing)?;
            self.rows.insert(agent.clone(), row);
        }
        self.rows.get_mut(agent).ok_or_else(missing)
    }

    /// A row to change, of an agent that wasn't removed.
    pub(crate) fn living(&mut self, agent: &AgentId) -> Result<&mut AgentRow, StoreError> {
        let row = self.any(agent)?;
        match row.state {
            AgentState::Removed => Err(StoreError::NoSuchAgent { agent: agent.clone() }),
            _ => Ok(row),
        }
    }

    /// A new row.
    pub(crate) fn create(&mut self, new: NewAgent, last_entry: Digest) -> Result<(), StoreError> {
        if self.known(&new.agent)?.is_some() {
            return Err(StoreError::NameTaken { agent: new.agent });
        }
        self.source.check_count()?;
        let NewAgent { agent, component, world, engine, grants, budget, caps, slots, image, labels, entry: _ } = new;
        let account = Account::new(Holder::Agent(agent.clone()));
        let (state, unfinished, trail) = (AgentState::Asleep, None, NO_TRAIL);
        let row = AgentRow {
            agent,
            component,
            world,
            engine,
            grants,
            budget,
            caps,
            slots,
            account,
            image,
            turn: 0,
            last_entry,
            state,
            unfinished,
            queued: Vec::new(),
            sizes: Vec::new(),
            schedules: Vec::new(),
            trail,
            streak: 0,
            conduct: Some(Conduct::default()),
            base: None,
            revoked: None,
            labels,
        };
        self.rows.insert(row.agent.clone(), row);
        Ok(())
    }

    /// Lets an agent wake from an earlier image. Not in the middle of a turn, which would then end from another one.
    pub(crate) fn roll_back(
        &mut self,
        agent: &AgentId,
        image: Digest,
        labels: Labels,
        last_entry: Digest,
    ) -> Result<(), StoreError> {
        let row = self.living(agent)?;
        if row.unfinished.is_some() {
            return Err(StoreError::bad(format!("`{agent}` is in the middle of a turn and can't be rolled back")));
        }
        (row.image, row.labels, row.last_entry) = (Some(image), labels, last_entry);
        Ok(())
    }

    /// Leaves the name and takes the rest.
    pub(crate) fn remove(&mut self, agent: &AgentId) -> Result<(), StoreError> {
        let row = self.living(agent)?;
        row.state = AgentState::Removed;
        row.unfinished = None;
        row.queued.clear();
        row.sizes.clear();
        row.schedules.clear();
        Ok(())
    }

    /// What was changed.
    pub(crate) fn into_rows(self) -> Rows {
        self.rows
    }
}

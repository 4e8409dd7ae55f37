//! Messages that wait for their agent.

use lazaret_gate::record::Message;
use lazaret_gate::{AgentId, canonical};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::agents::{self, AgentRow, Touched};
use crate::error::StoreError;
use crate::limits::{MAX_MAILBOX, MAX_MAILBOX_BYTES};
use crate::seal::{digest_of, seal};

fn damaged(agent: &AgentId) -> StoreError {
    StoreError::damaged(format!("the mailbox of agent `{agent}`"))
}

fn sealed(agent: &AgentId, id: i64, message: &[u8]) -> lazaret_gate::Digest {
    seal("mailbox", &[agent.as_str().as_bytes(), &id.to_le_bytes(), message])
}

/// Reads one message.
fn read(conn: &Connection, agent: &AgentId, id: u64) -> Result<Message, StoreError> {
    let id = id.cast_signed();
    let mut query = conn.prepare_cached("SELECT message, digest FROM mailbox WHERE agent = ?1 AND id = ?2")?;
    let found = query.query_row(params![agent.as_str(), id], |row| {
        let (message, digest): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
        Ok(Some(message).filter(|message| digest_of(&digest) == Some(sealed(agent, id, message))))
    });
    let message = found.optional()?.flatten().ok_or_else(|| damaged(agent))?;
    canonical::decode(&message).map_err(|_| damaged(agent))
}

/// How many wait.
pub(crate) fn len(conn: &Connection, agent: &AgentId) -> Result<u64, StoreError> {
    Ok(agents::living(conn, agent)?.queued.len() as u64)
}

/// The oldest one. The agent's own row says which that is.
pub(crate) fn next(conn: &Connection, agent: &AgentId) -> Result<Option<(u64, Message)>, StoreError> {
    let row = agents::living(conn, agent)?;
    row.queued.first().map(|id| Ok((*id, read(conn, agent, *id)?))).transpose()
}

/// Reads every message of an agent.
pub(crate) fn check(conn: &Connection, row: &AgentRow) -> Result<(), StoreError> {
    row.queued.iter().try_for_each(|id| read(conn, &row.agent, *id).map(drop))?;
    let mut query = conn.prepare_cached("SELECT count(*) FROM mailbox WHERE agent = ?1")?;
    let count: i64 = query.query_row([row.agent.as_str()], |row| row.get(0))?;
    if count.cast_unsigned() == row.queued.len() as u64 { Ok(()) } else { Err(damaged(&row.agent)) }
}

/// Whether one more message has room.
pub(crate) fn room(agents: &mut Touched<'_>, to: &AgentId, bytes: u64) -> Result<(), StoreError> {
    let row = agents.living(to)?;
    if row.queued.len() as u64 >= MAX_MAILBOX {
        return Err(StoreError::MailboxFull { agent: to.clone(), limit: MAX_MAILBOX });
    }
    let waiting = row.queued_bytes();
    if waiting.saturating_add(bytes) > MAX_MAILBOX_BYTES {
        return Err(StoreError::MailboxHeavy { agent: to.clone(), bytes, waiting, limit: MAX_MAILBOX_BYTES });
    }
    Ok(())
}

/// Gives a message its number.
pub(crate) fn enqueue(agents: &mut Touched<'_>, to: &AgentId, number: u64, bytes: u64) -> Result<(), StoreError> {
    let row = agents.living(to)?;
    // Those from before they were counted weigh nothing.
    row.sizes.resize(row.queued.len(), 0);
    row.queued.push(number);
    row.sizes.push(bytes);
    Ok(())
}

/// Takes a message's number out of the row of its agent.
pub(crate) fn dequeue(agents: &mut Touched<'_>, agent: &AgentId, message: u64) -> Result<(), StoreError> {
    let row = agents.living(agent)?;
    let place = row.queued.iter().position(|id| *id == message);
    let place = place.ok_or_else(|| StoreError::NoSuchMessage { agent: agent.clone(), message })?;
    row.queued.remove(place);
    if place < row.sizes.len() {
        row.sizes.remove(place);
    }
    Ok(())
}

/// Lays a message into the table.
pub(crate) fn put(conn: &Connection, agent: &AgentId, id: u64, message: &[u8]) -> Result<(), StoreError> {
    let id = id.cast_signed();
    let digest = sealed(agent, id, message);
    conn.prepare_cached("INSERT INTO mailbox VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        agent.as_str(),
        id,
        message,
        digest.0
    ])?;
    Ok(())
}

/// Takes a message out of the table.
pub(crate) fn take(conn: &Connection, agent: &AgentId, id: u64) -> Result<(), StoreError> {
    let gone = conn
        .prepare_cached("DELETE FROM mailbox WHERE agent = ?1 AND id = ?2")?
        .execute(params![agent.as_str(), id.cast_signed()])?;
    if gone == 1 { Ok(()) } else { Err(damaged(agent)) }
}

pub(crate) fn clear(conn: &Connection, agent: &AgentId) -> Result<(), StoreError> {
    conn.prepare_cached("DELETE FROM mailbox WHERE agent = ?1")?.execute([agent.as_str()])?;
    Ok(())
}

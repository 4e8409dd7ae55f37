//! An agent's own storage: versioned keys in byte order, each naming the next.

use lazaret_gate::outcome::KeyInfo;
use lazaret_gate::{AgentId, Digest};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::agents::{self, AgentState};
use crate::error::StoreError;
use crate::seal::{digest_of, seal};

/// Before every key: the row with which an agent's storage begins.
const START: &[u8] = &[0];

/// A key as it is stored, apart from [`START`] and never empty.
fn stored(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(key.len() + 1);
    stored.push(1);
    stored.extend_from_slice(key);
    stored
}

/// A row without its value.
struct Link {
    key: Vec<u8>,
    next: Option<Vec<u8>>,
    version: u64,
    size: u64,
    content: Digest,
}

fn damaged(agent: &AgentId) -> StoreError {
    StoreError::damaged(format!("the storage of agent `{agent}`"))
}

const COLUMNS: &str = "key, next, version, size, content, digest";

impl Link {
    fn from_row(agent: &AgentId, row: &rusqlite::Row<'_>) -> Result<Self, StoreError> {
        let content: Vec<u8> = row.get(4)?;
        let link = Self {
            key: row.get(0)?,
            next: row.get(1)?,
            version: row.get::<_, i64>(2)?.cast_unsigned(),
            size: row.get::<_, i64>(3)?.cast_unsigned(),
            content: digest_of(&content).ok_or_else(|| damaged(agent))?,
        };
        let digest: Vec<u8> = row.get(5)?;
        if digest_of(&digest) == Some(link.seal(agent)) { Ok(link) } else { Err(damaged(agent)) }
    }

    fn seal(&self, agent: &AgentId) -> Digest {
        // A stored key is never empty, so nothing else can look like "no next".
        let next = self.next.as_deref().unwrap_or_default();
        let (version, size) = (self.version.to_le_bytes(), self.size.to_le_bytes());
        seal("storage", &[agent.as_str().as_bytes(), &self.key, next, &version, &size, &self.content.0])
    }

    fn insert(&self, conn: &Connection, agent: &AgentId, value: &[u8]) -> Result<(), StoreError> {
        conn.prepare_cached("INSERT OR REPLACE INTO storage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?.execute(
            params![
                agent.as_str(),
                self.key,
                self.next,
                self.version.cast_signed(),
                self.size.cast_signed(),
                self.content.0,
                self.seal(agent).0,
                value,
            ],
        )?;
        Ok(())
    }

    fn relink(&self, conn: &Connection, agent: &AgentId) -> Result<(), StoreError> {
        conn.prepare_cached("UPDATE storage SET next = ?3, digest = ?4 WHERE agent = ?1 AND key = ?2")?
            .execute(params![agent.as_str(), self.key, self.next, self.seal(agent).0])?;
        Ok(())
    }

    /// Whether no key lies between this one and `key`, nor is it `key` itself.
    fn skips(&self, key: &[u8]) -> bool {
        self.key.as_slice() < key && self.next.as_deref().is_none_or(|next| next > key)
    }
}

/// Why not even the first row is there: every living agent has it.
fn nothing(conn: &Connection, agent: &AgentId) -> StoreError {
    match agents::look_up(conn, agent) {
        Ok(Some(row)) if row.state != AgentState::Removed => damaged(agent),
        Ok(_) => StoreError::NoSuchAgent { agent: agent.clone() },
        Err(why) => why,
    }
}

/// The row at a key or the last before it, and the value if it is at the key.
fn floor(conn: &Connection, agent: &AgentId, key: &[u8]) -> Result<(Link, Option<Vec<u8>>), StoreError> {
    let mut query = conn.prepare_cached(&format!(
        "SELECT {COLUMNS}, CASE WHEN key = ?2 THEN value END FROM storage
         WHERE agent = ?1 AND key <= ?2 ORDER BY key DESC LIMIT 1"
    ))?;
    let found = query.query_row(params![agent.as_str(), key], |row| Ok((Link::from_row(agent, row), row.get(6)?)));
    match found.optional()? {
        Some((link, value)) => Ok((link?, value)),
        None => Err(nothing(conn, agent)),
    }
}

/// The last row before a key.
fn before(conn: &Connection, agent: &AgentId, key: &[u8]) -> Result<Link, StoreError> {
    let mut query = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM storage WHERE agent = ?1 AND key < ?2 ORDER BY key DESC LIMIT 1"
    ))?;
    let found = query.query_row(params![agent.as_str(), key], |row| Ok(Link::from_row(agent, row))).optional()?;
    found.unwrap_or_else(|| Err(nothing(conn, agent)))
}

pub(crate) fn get(conn: &Connection, agent: &AgentId, key: &str) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
    let key = stored(key.as_bytes());
    match floor(conn, agent, &key)? {
        (link, Some(value)) if link.key == key => {
            let whole = value.len() as u64 == link.size && Digest::of(&value) == link.content;
            if whole { Ok(Some((value, link.version))) } else { Err(damaged(agent)) }
        }
        (link, None) if link.skips(&key) => Ok(None),
        _ => Err(damaged(agent)),
    }
}

/// Keys with a prefix, after one of them, in byte order; at most `limit`.
pub(crate) fn list(
    conn: &Connection,
    agent: &AgentId,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<KeyInfo>, StoreError> {
    let stem = stored(prefix.as_bytes());
    let mut link = match after.map(|after| stored(after.as_bytes())) {
        Some(after) if after >= stem => floor(conn, agent, &after)?.0,
        _ => before(conn, agent, &stem)?,
    };
    let mut query =
        conn.prepare_cached(&format!("SELECT {COLUMNS} FROM storage WHERE agent = ?1 AND key > ?2 ORDER BY key"))?;
    let mut rows = query.query(params![agent.as_str(), link.key])?;
    let mut keys = Vec::new();
    while keys.len() < limit {
        let Some(row) = rows.next()? else {
            return if link.next.is_none() { Ok(keys) } else { Err(damaged(agent)) };
        };
        let following = Link::from_row(agent, row)?;
        if link.next.as_ref() != Some(&following.key) {
            return Err(damaged(agent));
        }
        link = following;
        if !link.key.starts_with(&stem) {
            break;
        }
        let key = String::from_utf8(link.key[1..].to_vec()).map_err(|_| damaged(agent))?;
        keys.push(KeyInfo { key, version: link.version, size: link.size });
    }
    Ok(keys)
}

pub(crate) fn begin(conn: &Connection, agent: &AgentId) -> Result<(), StoreError> {
    let start = Link { key: START.to_vec(), next: None, version: 0, size: 0, content: Digest::of(&[]) };
    start.insert(conn, agent, &[])
}

pub(crate) fn clear(conn: &Connection, agent: &AgentId) -> Result<(), StoreError> {
    conn.prepare_cached("DELETE FROM storage WHERE agent = ?1")?.execute([agent.as_str()])?;
    Ok(())
}

pub(crate) fn set(conn: &Connection, agent: &AgentId, key: &str, value: &[u8], version: u64) -> Result<(), StoreError> {
    let key = stored(key.as_bytes());
    let (mut floor, _) = floor(conn, agent, &key)?;
    let (size, content) = (value.len() as u64, Digest::of(value));
    if floor.key == key {
        return Link { version, size, content, ..floor }.insert(conn, agent, value);
    }
    if !floor.skips(&key) {
        return Err(damaged(agent));
    }
    let new = Link { key: key.clone(), next: floor.next.replace(key), version, size, content };
    floor.relink(conn, agent)?;
    new.insert(conn, agent, value)
}

pub(crate) fn delete(conn: &Connection, agent: &AgentId, key: &str) -> Result<(), StoreError> {
    let key = stored(key.as_bytes());
    let (found, _) = floor(conn, agent, &key)?;
    if found.key != key {
        return if found.skips(&key) { Ok(()) } else { Err(damaged(agent)) };
    }
    let mut before = before(conn, agent, &key)?;
    if before.next.as_ref() != Some(&key) {
        return Err(damaged(agent));
    }
    before.next = found.next;
    before.relink(conn, agent)?;
    conn.prepare_cached("DELETE FROM storage WHERE agent = ?1 AND key = ?2")?.execute(params![agent.as_str(), key])?;
    Ok(())
}

/// Reads every key and value of an agent.
pub(crate) fn check(conn: &Connection, agent: &AgentId) -> Result<(), StoreError> {
    for info in list(conn, agent, "", None, usize::MAX)? {
        get(conn, agent, &info.key)?;
    }
    Ok(())
}

//! The journal, read side. An entry's bytes are believed because they hash to what the chain says; its columns because
//! they say what the bytes say.

use std::ops::{ControlFlow, Range};

use lazaret_gate::checkpoint::{Checkpoint, Verifier};
use lazaret_gate::entry::{Entry, NO_ENTRY};
use lazaret_gate::lineage::CHAINED;
use lazaret_gate::merkle::{self, Prover};
use lazaret_gate::record::Body;
use lazaret_gate::{AgentId, Digest};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::agents::{self, NO_TRAIL};
use crate::error::StoreError;
use crate::head::Head;
use crate::seal::digest_of;

/// What an entry's bytes say about themselves, found without reading all of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Peek<'a> {
    pub(crate) kind: &'a str,
    pub(crate) agent: Option<&'a str>,
    pub(crate) turn: Option<u64>,
}

impl<'a> Peek<'a> {
    /// Canonical JSON sorts keys, and in every kind of body `agent` sorts first and, if the entry is of one of its turns,
    /// `turn` last: both stand at known places. A test compares this with the full reading for each kind.
    pub(crate) fn at(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(b"{\"body\":{\"")?;
        let end = rest.iter().take(32).position(|byte| *byte == b'"')?;
        let kind = str::from_utf8(&rest[..end]).ok()?;
        let rest = rest[end..].strip_prefix(b"\":{")?;
        let (has_agent, has_turn) = match kind {
            "genesis" | "component-admitted" | "rulebook-in-force" | "switch-changed" | "vault-changed" => {
                (false, false)
            }
            "agent-created" | "agent-forked" | "agent-rolled-back" | "agent-quarantined" | "agent-woken"
            | "agent-removed" | "caps-set" | "trust-changed" => (true, false),
            "schedule-added" | "schedule-removed" | "schedule-fired" => (true, false),
            "effect-opened" | "effect-closed" | "in-doubt" | "settled" | "turn" => (true, true),
            _ => return None,
        };
        let agent = match has_agent {
            false => None,
            true => {
                let rest = rest.strip_prefix(b"\"agent\":\"")?;
                let end = rest.iter().position(|byte| *byte == b'"')?;
                Some(str::from_utf8(&rest[..end]).ok()?)
            }
        };
        let turn = if has_turn { Some(last_turn(bytes)?) } else { None };
        Some(Self { kind, agent, turn })
    }
}

/// The number in `,"turn":<n>}},"prev":"<64 hex>","seq":<n>,"time":<n>}` at the end of an entry.
fn last_turn(bytes: &[u8]) -> Option<u64> {
    const MARK: &[u8] = b"}},\"prev\":\"";
    let window = &bytes[bytes.len().saturating_sub(160)..];
    let end = bytes.len() - window.len() + window.windows(MARK.len()).rposition(|part| part == MARK)?;
    let digits = bytes[..end].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let start = end - digits;
    bytes[..start].ends_with(b",\"turn\":").then_some(())?;
    str::from_utf8(&bytes[start..end]).ok()?.parse().ok()
}

/// One row of the journal, checked against its own bytes.
pub(crate) struct Row<'a> {
    pub(crate) seq: u64,
    pub(crate) hash: Digest,
    pub(crate) leaf: merkle::Hash,
    pub(crate) bytes: &'a [u8],
}

/// A row that outlives its query.
pub(crate) struct Owned {
    pub(crate) hash: Digest,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) const COLUMNS: &str = "seq, kind, agent, turn, hash, leaf, bytes";

impl<'a> Row<'a> {
    /// The columns, compared with what the bytes say but not yet with their hash.
    pub(crate) fn columns(row: &'a rusqlite::Row<'_>, seq: u64) -> Result<Self, StoreError> {
        let unlike = |what: &str| StoreError::broken(seq, format!("its {what} is not what was written"));
        let found = row.get_ref(0)?.as_i64().map_err(|_| unlike("place"))?.cast_unsigned();
        if found != seq {
            return Err(StoreError::broken(seq, format!("it is missing; the next one is {found}")));
        }
        let text = |column| row.get_ref(column).map_err(StoreError::from);
        let bytes = text(6)?.as_blob().map_err(|_| unlike("content"))?;
        let peek = Peek::at(bytes).ok_or_else(|| unlike("content"))?;
        let turn = text(3)?.as_i64_or_null().map_err(|_| unlike("turn"))?.map(i64::cast_unsigned);
        if text(1)?.as_str().ok() != Some(peek.kind) {
            return Err(unlike("kind"));
        }
        if text(2)?.as_str_or_null().map_err(|_| unlike("agent"))? != peek.agent {
            return Err(unlike("agent"));
        }
        if turn != peek.turn {
            return Err(unlike("turn"));
        }
        let hash = text(4)?.as_blob().ok().and_then(digest_of).ok_or_else(|| unlike("hash"))?;
        let leaf = text(5)?.as_blob().ok().and_then(digest_of).ok_or_else(|| unlike("leaf"))?.0;
        Ok(Self { seq, hash, leaf, bytes })
    }

    /// The columns, and the bytes against their hash.
    pub(crate) fn checked(row: &'a rusqlite::Row<'_>, seq: u64) -> Result<Self, StoreError> {
        let row = Self::columns(row, seq)?;
        if Digest::of(row.bytes) != row.hash {
            return Err(StoreError::broken(seq, "its content is not what was written"));
        }
        Ok(row)
    }

    pub(crate) fn read(conn: &Connection, seq: u64) -> Result<Option<Owned>, StoreError> {
        let mut query = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM journal WHERE seq = ?1"))?;
        let found = query.query_row([seq.cast_signed()], |row| {
            Ok(Row::checked(row, seq).map(|row| Owned { hash: row.hash, bytes: row.bytes.to_vec() }))
        });
        found.optional()?.transpose()
    }
}

/// Lays the next entry into the table.
pub(crate) fn append(
    conn: &Connection,
    seq: u64,
    peek: &Peek<'_>,
    hash: &Digest,
    leaf: &merkle::Hash,
    bytes: &[u8],
) -> Result<(), StoreError> {
    // As the triggers do: what is refused takes back the transaction. SQLite's own numbers begin with 1.
    let sql = match seq {
        0 => "INSERT OR ROLLBACK INTO journal VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6)",
        _ => "INSERT OR ROLLBACK INTO journal (kind, agent, turn, hash, leaf, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    };
    let turn = peek.turn.map(u64::cast_signed);
    conn.prepare_cached(sql)?.execute(params![peek.kind, peek.agent, turn, hash.0, leaf, bytes])?;
    if conn.last_insert_rowid() != seq.cast_signed() {
        return Err(StoreError::broken(seq, "the table gives it another number"));
    }
    Ok(())
}

pub(crate) fn entry(conn: &Connection, seq: u64) -> Result<Owned, StoreError> {
    let len = Head::require(conn)?.size();
    match Row::read(conn, seq)? {
        Some(row) if seq < len => Ok(row),
        None if seq < len => Err(StoreError::broken(seq, "it is missing")),
        _ => Err(StoreError::NoSuchEntry { seq, len }),
    }
}

pub(crate) fn decode(seq: u64, bytes: &[u8]) -> Result<Entry, StoreError> {
    let entry = Entry::read(bytes).map_err(|why| StoreError::broken(seq, why.to_string()))?;
    if entry.seq == seq {
        Ok(entry)
    } else {
        Err(StoreError::broken(seq, format!("it says it is entry {}", entry.seq)))
    }
}

/// Hands over the entries of a range, as many of it as there are.
pub(crate) fn each(
    conn: &Connection,
    range: Range<u64>,
    mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let end = range.end.min(Head::require(conn)?.size());
    let mut query =
        conn.prepare_cached(&format!("SELECT {COLUMNS} FROM journal WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"))?;
    if range.start >= end {
        return Ok(());
    }
    let mut rows = query.query(params![range.start.cast_signed(), end.cast_signed()])?;
    for seq in range.start..end {
        let Some(row) = rows.next()? else {
            return Err(StoreError::broken(seq, "it is missing"));
        };
        if visit(seq, Row::checked(row, seq)?.bytes).is_break() {
            break;
        }
    }
    Ok(())
}

/// The agent's entries: place, kind and turn, in order. None can be missing: they make up the trail in its row.
pub(crate) fn trail(conn: &Connection, agent: &AgentId) -> Result<Vec<(u64, String, Option<u64>)>, StoreError> {
    let mut row = agents::find(conn, agent)?.ok_or_else(|| StoreError::NoSuchAgent { agent: agent.clone() })?;
    let mut query =
        conn.prepare_cached("SELECT seq, kind, turn FROM journal INDEXED BY journal_agent WHERE agent = ?1")?;
    let found = query.query_map([agent.as_str()], |row| {
        let turn: Option<i64> = row.get(2)?;
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?, turn.map(i64::cast_unsigned)))
    })?;
    let mut found: Vec<(u64, String, Option<u64>)> = found.collect::<Result<_, _>>()?;
    found.sort_unstable();
    let expected = std::mem::replace(&mut row.trail, NO_TRAIL);
    found.iter().for_each(|(seq, kind, turn)| row.extend_trail(*seq, kind, *turn));
    if row.trail == expected { Ok(found) } else { Err(StoreError::damaged(format!("the index of agent `{agent}`"))) }
}

pub(crate) fn of_agent(
    conn: &Connection,
    agent: &AgentId,
    kind: Option<&str>,
    turn: Option<u64>,
) -> Result<Vec<u64>, StoreError> {
    let all = trail(conn, agent)?.into_iter();
    let wanted = |found: &(u64, String, Option<u64>)| {
        kind.is_none_or(|kind| found.1 == kind) && turn.is_none_or(|turn| found.2 == Some(turn))
    };
    Ok(all.filter(wanted).map(|found| found.0).collect())
}

/// The place and hash of an agent's turn.
pub(crate) fn turn(conn: &Connection, agent: &AgentId, turn: u64) -> Result<Option<(u64, Digest)>, StoreError> {
    let mut query = conn.prepare_cached(
        "SELECT seq FROM journal INDEXED BY journal_agent WHERE agent = ?1 AND turn = ?2 AND kind = 'turn'",
    )?;
    let seq: Option<i64> = query.query_row(params![agent.as_str(), turn.cast_signed()], |row| row.get(0)).optional()?;
    let damaged = || StoreError::damaged(format!("the index of agent `{agent}`"));
    let Some(seq) = seq.map(i64::cast_unsigned) else {
        let taken = agents::find(conn, agent)?.map_or(0, |row| row.turn);
        return if turn == 0 || turn > taken { Ok(None) } else { Err(damaged()) };
    };
    let row = entry(conn, seq)?;
    let wanted = Peek { kind: "turn", agent: Some(agent.as_str()), turn: Some(turn) };
    if Peek::at(&row.bytes) == Some(wanted) { Ok(Some((seq, row.hash))) } else { Err(damaged()) }
}

/// The place and hash of the last entry of an agent's chain: its last turn, a rollback since, or its first entry.
pub(crate) fn last_link(conn: &Connection, agent: &AgentId) -> Result<Option<(u64, Digest)>, StoreError> {
    let mut all = trail(conn, agent)?;
    all.retain(|(_, kind, _)| CHAINED.contains(&kind.as_str()));
    all.last().map(|(seq, ..)| Ok((*seq, entry(conn, *seq)?.hash))).transpose()
}

/// What is on disk of a turn that isn't over.
pub(crate) fn unfinished(conn: &Connection, agent: &AgentId, turn: u64) -> Result<Vec<Entry>, StoreError> {
    let all = trail(conn, agent)?.into_iter();
    all.filter(|(_, kind, of)| *of == Some(turn) && kind != "turn")
        .map(|(seq, ..)| decode(seq, &entry(conn, seq)?.bytes))
        .collect()
}

/// Every leaf, believed because together they make the signed root.
pub(crate) fn prover(conn: &Connection, verifier: &Verifier) -> Result<Prover, StoreError> {
    let head = Head::require(conn)?;
    let checkpoint = head.check(verifier)?;
    let mut query = conn.prepare_cached("SELECT leaf FROM journal ORDER BY seq")?;
    let mut rows = query.query([])?;
    let mut leaves = Vec::new();
    while let Some(row) = rows.next()? {
        let leaf = row.get_ref(0)?.as_blob().ok().and_then(digest_of);
        leaves.push(leaf.ok_or_else(|| StoreError::broken(leaves.len() as u64, "its leaf is not what was written"))?.0);
    }
    let prover = Prover::new(leaves);
    let whole = prover.size() as u64 == checkpoint.size && prover.root(prover.size()) == Some(checkpoint.root);
    if whole { Ok(prover) } else { Err(StoreError::damaged("the journal's tree")) }
}

/// The checkpoints that were asked for, oldest first, each with its note.
pub(crate) fn checkpoints(conn: &Connection, verifier: &Verifier) -> Result<Vec<(Checkpoint, String)>, StoreError> {
    let damaged = || StoreError::damaged("the list of checkpoints");
    let mut query = conn.prepare_cached("SELECT size, note FROM checkpoints ORDER BY size")?;
    let mut rows = query.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let (size, note): (i64, String) = (row.get(0)?, row.get(1)?);
        let checkpoint = verifier.check(&note).map_err(|_| damaged())?;
        if checkpoint.size != size.cast_unsigned() {
            return Err(damaged());
        }
        all.push((checkpoint, note));
    }
    if all.len() as u64 == Head::require(conn)?.checkpoints { Ok(all) } else { Err(damaged()) }
}

/// Whether there is any entry.
pub(crate) fn begun(conn: &Connection) -> Result<bool, StoreError> {
    Ok(conn.prepare("SELECT 1 FROM journal LIMIT 1")?.exists([])?)
}

/// The key that the first entry names.
pub(crate) fn genesis(conn: &Connection) -> Result<Verifier, StoreError> {
    let first = decode(0, &entry(conn, 0)?.bytes)?;
    match first.body {
        Body::Genesis(genesis) if first.prev == NO_ENTRY => {
            Verifier::parse(&genesis.key).map_err(|why| StoreError::broken(0, why.to_string()))
        }
        _ => Err(StoreError::broken(0, "it is not the beginning of a journal")),
    }
}

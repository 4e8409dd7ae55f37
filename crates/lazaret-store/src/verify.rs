//! Everything recomputed: the journal from its first byte, and each row of the other tables.

use lazaret_gate::checkpoint::Verifier;
use lazaret_gate::entry::Chain;
use lazaret_gate::merkle::{self, Frontier};
use rusqlite::Connection;

use crate::agents::{self, AgentState};
use crate::error::StoreError;
use crate::head::Head;
use crate::journal::{self, COLUMNS, Row};
use crate::{blobs, mailbox, storage};

/// How often progress is told.
const STRIDE: u64 = 4096;

/// A journal that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Entries, all of them linked.
    pub entries: u64,
    /// The Merkle root over them.
    pub root: merkle::Hash,
    /// The signed checkpoint that says the same.
    pub note: String,
    /// Older checkpoints, all of this journal.
    pub checkpoints: u64,
}

/// Follows the whole chain and compares everything that is stored about it with what comes out.
pub(crate) fn journal(
    conn: &Connection,
    verifier: &Verifier,
    mut progress: impl FnMut(u64),
) -> Result<Verified, StoreError> {
    let head = Head::require(conn)?;
    let signed = head.check(verifier)?;
    if journal::genesis(conn)? != *verifier {
        return Err(StoreError::broken(0, "it names another key than the host's"));
    }
    let checkpoints = journal::checkpoints(conn, verifier)?;
    let mut marks = checkpoints.iter().peekable();
    let (mut chain, mut frontier) = (Chain::default(), Frontier::default());
    let mut query = conn.prepare(&format!("SELECT {COLUMNS} FROM journal ORDER BY seq"))?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let seq = chain.len();
        let row = Row::columns(row, seq)?;
        chain.follow(row.bytes)?;
        let leaf = merkle::leaf(row.bytes);
        if chain.head() != row.hash || leaf != row.leaf {
            return Err(StoreError::broken(seq, "its hash is not what was written"));
        }
        frontier.push(leaf);
        while let Some((mark, _)) = marks.next_if(|(mark, _)| mark.size == row.seq + 1) {
            if mark.root != frontier.root() {
                return Err(StoreError::broken(seq, "a checkpoint signed here is of another journal"));
            }
        }
        if chain.len().is_multiple_of(STRIDE) {
            progress(chain.len());
        }
    }
    if chain.len() != signed.size || chain.head() != head.hash || frontier != head.frontier {
        let why = format!("{} entries were signed, {} are there", signed.size, chain.len());
        return Err(StoreError::broken(chain.len().min(signed.size), why));
    }
    if let Some((mark, _)) = marks.next() {
        return Err(StoreError::broken(mark.size, "a checkpoint was signed beyond the journal's end"));
    }
    progress(chain.len());
    Ok(Verified { entries: chain.len(), root: signed.root, note: head.note, checkpoints: checkpoints.len() as u64 })
}

/// Reads every agent, key, value, message and blob, and the file's own structure.
pub(crate) fn state(conn: &Connection) -> Result<(), StoreError> {
    let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(StoreError::Corrupt { why: found });
    }
    for row in agents::all(conn)? {
        journal::turn(conn, &row.agent, row.turn)?;
        let uncounted = journal::turn(conn, &row.agent, row.turn + 1)?.is_some();
        let last = journal::last_link(conn, &row.agent)?;
        if uncounted || last.is_none_or(|(_, hash)| hash != row.last_entry) {
            return Err(StoreError::damaged(format!("the last entry of agent `{}`", row.agent)));
        }
        if row.state != AgentState::Removed {
            storage::check(conn, &row.agent)?;
            mailbox::check(conn, &row)?;
        }
    }
    blobs::check(conn)?;
    Ok(())
}

//! Bytes named by their digest.

use std::cell::RefCell;

use lazaret_gate::{Blob, Digest};
use lz4_flex::block::CompressTable;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::StoreError;
use crate::limits::{KEPT_ROOM, MAX_BLOB, MAX_EXPANSION, MIN_PACKED};
use crate::op::Op;

thread_local! {
    /// Clearing a table is cheaper than making one, and a turn packs several pages.
    static PACKER: RefCell<(CompressTable, Vec<u8>)> = RefCell::default();
}

/// Whether a blob is there. The index has the beginnings of names.
pub(crate) const HAS: &str = "SELECT 1 FROM blobs WHERE substr(digest, 1, 8) = substr(?1, 1, 8) AND digest = ?1";

/// Adds a blob to a commit, compressed if that makes it smaller. Done on the caller's thread.
pub(crate) fn pack(blob: &Blob, out: &mut Vec<u8>) -> Result<(), StoreError> {
    let (digest, bytes) = (blob.digest(), blob.bytes());
    if bytes.len() > MAX_BLOB {
        return Err(StoreError::bad(format!("a blob of {} bytes; the most is {MAX_BLOB}", bytes.len())));
    }
    let size = bytes.len() as u64;
    if bytes.len() < MIN_PACKED {
        Op::Blob { digest, size, packed: false, bytes }.write(out);
        return Ok(());
    }
    PACKER.with_borrow_mut(|(table, room)| {
        room.resize(lz4_flex::block::get_maximum_output_size(bytes.len()).max(room.len()), 0);
        let packed = lz4_flex::block::compress_into_with_table(bytes, room, table).ok();
        match packed.and_then(|len| room.get(..len)).filter(|packed| packed.len() < bytes.len()) {
            Some(packed) => Op::Blob { digest, size, packed: true, bytes: packed }.write(out),
            None => Op::Blob { digest, size, packed: false, bytes }.write(out),
        }
        if room.len() > KEPT_ROOM {
            *room = Vec::new();
            *table = CompressTable::default();
        }
    });
    Ok(())
}

/// Lays packed blobs into the table.
pub(crate) fn write<'a>(
    conn: &Connection,
    all: impl IntoIterator<Item = (Digest, u64, bool, &'a [u8])>,
) -> Result<(), StoreError> {
    let mut there = conn.prepare_cached(HAS)?;
    let mut insert = conn.prepare_cached("INSERT INTO blobs (digest, size, packed, bytes) VALUES (?1, ?2, ?3, ?4)")?;
    for (digest, size, packed, bytes) in all {
        if !there.exists([digest.0])? {
            insert.execute(params![digest.0, size.cast_signed(), packed, bytes])?;
        }
    }
    Ok(())
}

pub(crate) fn has(conn: &Connection, digest: &Digest) -> Result<bool, StoreError> {
    Ok(conn.prepare_cached(HAS)?.exists([digest.0])?)
}

/// Blobs in the order asked.
pub(crate) fn get(conn: &Connection, digests: &[Digest]) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut query = conn.prepare_cached(
        "SELECT size, packed, bytes FROM blobs WHERE substr(digest, 1, 8) = substr(?1, 1, 8) AND digest = ?1",
    )?;
    let mut blob = |digest: &Digest| {
        let found = query.query_row([digest.0], |row| Ok(unpack(digest, row, 0))).optional()?;
        found.unwrap_or(Err(StoreError::NoSuchBlob { digest: *digest }))
    };
    digests.iter().map(&mut blob).collect()
}

fn unpack(digest: &Digest, row: &rusqlite::Row<'_>, first: usize) -> Result<Vec<u8>, StoreError> {
    let damaged = || StoreError::damaged(format!("blob {digest}"));
    let (size, packed): (i64, i64) = (row.get(first)?, row.get(first + 1)?);
    let bytes = row.get_ref(first + 2)?.as_blob().map_err(|_| damaged())?;
    let size = usize::try_from(size).ok().filter(|size| *size <= MAX_BLOB).ok_or_else(damaged)?;
    let bytes = match packed {
        0 => bytes.to_vec(),
        1 if size / MAX_EXPANSION <= bytes.len() => lz4_flex::block::decompress(bytes, size).map_err(|_| damaged())?,
        _ => return Err(damaged()),
    };
    if bytes.len() == size && Digest::of(&bytes) == *digest { Ok(bytes) } else { Err(damaged()) }
}

/// Reads every blob, by its row and by its name; the number of them.
pub(crate) fn check(conn: &Connection) -> Result<u64, StoreError> {
    let mut query = conn.prepare("SELECT digest, size, packed, bytes FROM blobs NOT INDEXED")?;
    let mut rows = query.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let digest: Vec<u8> = row.get(0)?;
        let digest =
            crate::seal::digest_of(&digest).ok_or_else(|| StoreError::damaged("the digest that names a blob"))?;
        unpack(&digest, row, 1)?;
        if !has(conn, &digest)? {
            return Err(StoreError::damaged("the index of the blobs"));
        }
        count += 1;
    }
    Ok(count)
}

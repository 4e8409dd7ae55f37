//! Bytes named by their digest.

use lazaret_gate::Digest;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::StoreError;
use crate::limits::{MAX_BLOB, MAX_EXPANSION, MIN_PACKED};

/// A blob as it will lie in the table.
pub(crate) struct Packed {
    digest: Digest,
    size: usize,
    packed: bool,
    bytes: Vec<u8>,
}

impl Packed {
    /// Checks the name and compresses, on the caller's thread.
    pub(crate) fn new(digest: Digest, bytes: Vec<u8>) -> Result<Self, StoreError> {
        if bytes.len() > MAX_BLOB {
            return Err(StoreError::bad(format!("a blob of {} bytes; the most is {MAX_BLOB}", bytes.len())));
        }
        if Digest::of(&bytes) != digest {
            return Err(StoreError::bad(format!("the blob called {digest} is another one")));
        }
        let size = bytes.len();
        if size >= MIN_PACKED {
            let packed = lz4_flex::block::compress(&bytes);
            if packed.len() < size {
                return Ok(Self { digest, size, packed: true, bytes: packed });
            }
        }
        Ok(Self { digest, size, packed: false, bytes })
    }

    pub(crate) fn write(&self, conn: &Connection) -> Result<(), StoreError> {
        conn.prepare_cached("INSERT OR IGNORE INTO blobs (digest, size, packed, bytes) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![self.digest.0, self.size as i64, self.packed, self.bytes])?;
        Ok(())
    }
}

pub(crate) fn has(conn: &Connection, digest: &Digest) -> Result<bool, StoreError> {
    Ok(conn.prepare_cached("SELECT 1 FROM blobs WHERE digest = ?1")?.exists([digest.0])?)
}

pub(crate) fn get(conn: &Connection, digest: &Digest) -> Result<Vec<u8>, StoreError> {
    let mut query = conn.prepare_cached("SELECT size, packed, bytes FROM blobs WHERE digest = ?1")?;
    let found = query.query_row([digest.0], |row| Ok(unpack(digest, row, 0))).optional()?;
    found.unwrap_or(Err(StoreError::NoSuchBlob { digest: *digest }))
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

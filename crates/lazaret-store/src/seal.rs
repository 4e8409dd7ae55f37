//! Digests over rows. SQLite doesn't notice a flipped bit in a value; these do.

use lazaret_gate::Digest;

/// The digest of a row: its table and every column, each with its length before it.
pub(crate) fn seal(table: &str, columns: &[&[u8]]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    let mut put = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    put(table.as_bytes());
    columns.iter().for_each(|column| put(column));
    Digest(*hasher.finalize().as_bytes())
}

/// A digest column. `None` if it has another length, which is damage.
pub(crate) fn digest_of(column: &[u8]) -> Option<Digest> {
    column.try_into().ok().map(Digest)
}

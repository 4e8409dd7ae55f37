//! SQLite's write-ahead log, looked at before SQLite does.
//!
//! SQLite takes the first frame that doesn't check for the log's end and drops whatever follows. That is right for the
//! one transaction that a crash cut short, and wrong for a damaged log: acknowledged transactions would vanish without a
//! word. As each commit is flushed before the next begins, at most one commit can follow a cut; two mean damage.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::StoreError;

const HEADER: usize = 32;
const FRAME: usize = 24;

/// Refuses a log that was damaged in the middle.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    #[expect(clippy::disallowed_methods, reason = "the log lies in the data root")]
    let look = || match fs::read(path) {
        Ok(bytes) => Ok(scan(&bytes)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(StoreError::io("reading", path, &why)),
    };
    let Some(first) = look()? else { return Ok(()) };
    // Another process may be writing while this one reads. What was seen behind the gap was written after it, so a
    // second look finds the gap filled; damage stays where it is.
    if look()? == Some(first) {
        return Err(StoreError::damaged("the write-ahead log `lazaret.db-wal`"));
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// SQLite's checksum: two running sums over pairs of words, in the byte order that the log's first word names.
fn sum(bytes: &[u8], big_endian: bool, start: (u32, u32)) -> (u32, u32) {
    let read = |word: &[u8; 4]| {
        if big_endian { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) }
    };
    let (words, _) = bytes.as_chunks::<4>();
    words.chunks_exact(2).fold(start, |(first, second), pair| {
        let first = first.wrapping_add(read(&pair[0])).wrapping_add(second);
        (first, second.wrapping_add(read(&pair[1])).wrapping_add(first))
    })
}

/// Where damage begins, and the log's salt: `None` for a log that is whole, or cut by a crash.
fn scan(log: &[u8]) -> Option<(usize, u64)> {
    let size = match word(log, 8) as usize {
        size @ 512..=65536 if size.is_power_of_two() => size,
        // Every database here is made with SQLite's own default.
        _ => 4096,
    };
    let big_endian = word(log, 0) & 1 == 1;
    let mut running = sum(log.get(..24)?, big_endian, (0, 0));
    let header_holds = word(log, 0) & !1 == 0x377f_0682 && running == (word(log, 24), word(log, 28));
    let (frames, _) = (log.get(HEADER..)?.chunks_exact(FRAME + size), ());
    let salt = |at: &[u8], first| u64::from(word(at, first)) << 32 | u64::from(word(at, first + 4));
    let mut frames = frames.enumerate().peekable();
    let wanted = if header_holds { salt(log, 16) } else { salt(frames.peek()?.1, 8) };
    let (mut broken, mut commits) = ((!header_holds).then_some(0), 0);
    for (number, frame) in frames {
        if broken.is_none() {
            running = sum(&frame[FRAME..], big_endian, sum(&frame[..8], big_endian, running));
            let holds =
                word(frame, 0) != 0 && salt(frame, 8) == wanted && running == (word(frame, 16), word(frame, 20));
            broken = (!holds).then_some(number);
        }
        // A frame that ends a transaction says how large the database is then.
        if broken.is_some() && salt(frame, 8) == wanted && word(frame, 0) != 0 && word(frame, 4) != 0 {
            commits += 1;
        }
    }
    broken.filter(|_| commits > 1 && wanted != 0).map(|at| (at, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A log of five transactions, as a crash would leave it.
    fn log() -> Vec<u8> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.db");
        let conn = Connection::open(&path).expect("a database");
        conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a BLOB);")
            .expect("a table");
        for _ in 0..4 {
            conn.execute("INSERT INTO t VALUES (randomblob(9000))", []).expect("a row");
        }
        fs::read(dir.path().join("x.db-wal")).expect("a log")
    }

    #[test]
    fn a_whole_log_and_a_cut_one_are_fine() {
        let log = log();
        assert_eq!(scan(&log), None);
        for cut in (0..log.len()).step_by(97) {
            assert_eq!(scan(&log[..cut]), None, "cut at {cut}");
        }
        let mut longer = log.clone();
        longer.resize(log.len() + 100_000, 0);
        assert_eq!(scan(&longer), None, "grown ahead of need");
        // The last transaction's frames reached the disk in another order.
        let mut torn = log.clone();
        let last = log.len() - 4096 - FRAME;
        torn[last - 4096..last].fill(0);
        assert_eq!(scan(&torn), None);
    }

    #[test]
    fn a_byte_changed_before_the_last_two_commits_is_seen() {
        let log = log();
        let end = log.len() - 8 * (4096 + FRAME);
        for at in (0..end).step_by(13) {
            let mut other = log.clone();
            other[at] ^= 0x10;
            assert!(scan(&other).is_some(), "byte {at} of {}", log.len());
        }
    }
}

//! Connections: how they are set up, and the few that are kept for reading.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::limits::IDLE_READERS;
use crate::pending::Pending;

/// How long a connection waits for another process's reader that is rebuilding the log's index.
const PATIENCE: Duration = Duration::from_secs(5);

/// What SQLite reads and writes at once. Nearly all that is laid into the tables is laid behind what is there, in order, so
/// larger pages mean fewer calls of the system for the same bytes.
const PAGE_BYTES: u32 = 16_384;

/// The one connection that writes.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    harden(&conn)?;
    // Of a database that is yet to be made; one that is there keeps what it has.
    conn.pragma_update(None, "page_size", PAGE_BYTES)?;
    Ok(conn)
}

/// Turns on SQLite's write-ahead log, which isn't flushed at each commit: the redo log is. Not before the file is known to
/// be ours.
pub(crate) fn enable_log(conn: &Connection) -> Result<(), StoreError> {
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::Io {
            what: "the write-ahead log".into(),
            why: "this file system can't keep one (it needs shared memory and locks)".into(),
        });
    }
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // Carrying the log over is done when it is known what that makes safe.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    // In KiB. Names of blobs are random, so a transaction touches pages all over their index.
    conn.pragma_update(None, "cache_size", -16_384)?;
    Ok(())
}

fn harden(conn: &Connection) -> Result<(), StoreError> {
    conn.busy_timeout(PATIENCE)?;
    conn.set_prepared_statement_cache_capacity(64);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Otherwise a statement is compiled anew whenever a bound value might call for another plan.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    // Nothing is written outside of the data root, be it for a moment.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

/// Connections for reading, opened as threads need them.
#[derive(Debug)]
pub(crate) struct Pool {
    path: PathBuf,
    /// The medium can't be written at all, so nothing can change and SQLite needs no shared memory.
    immutable: bool,
    idle: Mutex<Vec<Connection>>,
    /// Commits that these connections must have seen before they answer. None in a process that doesn't write.
    pending: Option<Arc<Pending>>,
}

impl Pool {
    /// Opens the first one, so that what is wrong shows now.
    #[expect(clippy::disallowed_methods, reason = "the log lies in the data root")]
    pub(crate) fn open(path: PathBuf, log: &Path) -> Result<Self, StoreError> {
        let mut pool = Self { path, immutable: false, idle: Mutex::default(), pending: None };
        let first = match pool.connect() {
            Ok(conn) => conn,
            Err(why) if log.metadata().is_ok_and(|log| log.len() > 0) => return Err(why),
            Err(_) => {
                pool.immutable = true;
                pool.connect()?
            }
        };
        pool.put_back(first);
        Ok(pool)
    }

    /// From now on every answer is given after what was acknowledged before the question.
    pub(crate) fn after(mut self, pending: Arc<Pending>) -> Self {
        self.pending = Some(pending);
        self
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = if self.immutable {
            Connection::open_with_flags(immutable_uri(&self.path), flags | OpenFlags::SQLITE_OPEN_URI)?
        } else {
            Connection::open_with_flags(&self.path, flags)?
        };
        harden(&conn)?;
        // In KiB. The index of the blobs is read all over, and what isn't kept of it is read again for every blob.
        conn.pragma_update(None, "cache_size", -8_192)?;
        // Shows at once whether the log can be read along.
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
        Ok(conn)
    }

    fn put_back(&self, conn: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_READERS {
            idle.push(conn);
        }
    }

    /// Waits until these connections see what was acknowledged.
    pub(crate) fn catch_up(&self) -> Result<(), StoreError> {
        self.pending.as_ref().map_or(Ok(()), |pending| pending.drain())
    }

    /// Runs one query that is a single statement, on the tables as they are.
    pub(crate) fn glance<T>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = idle.map_or_else(|| self.connect(), Ok)?;
        let result = read(&conn);
        // One that hit a damaged page may hold a damaged cache.
        if !matches!(result, Err(StoreError::Corrupt { .. })) {
            self.put_back(conn);
        }
        result
    }

    /// Runs several statements that see one state of the tables as they are.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.glance(|conn| {
            conn.prepare_cached("BEGIN")?.execute([])?;
            let result = read(conn);
            let ended = conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
            if ended.is_err() && !conn.is_autocommit() {
                conn.execute_batch("ROLLBACK")?;
            }
            result
        })
    }

    /// Closes what is idle, so that the writer's connection is the last and takes the log with it.
    pub(crate) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// `file:…?immutable=1` with everything but plain characters escaped.
fn immutable_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(byte as char),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri + "?immutable=1"
}

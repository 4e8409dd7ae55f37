//! What can go wrong, in words that say what would change it.

use std::io;
use std::path::{Path, PathBuf};

use lazaret_gate::canonical::NotCanonical;
use lazaret_gate::entry::Broken;
use lazaret_gate::{AgentId, Digest};
use rusqlite::ErrorCode;

use crate::schedules::Unscheduled;

/// Why the store didn't do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Others than the owner may look into the data root.
    #[error("`{}` can be opened by others (mode {mode:04o}); `chmod {} {}` closes it", path.display(), if *directory { "700" } else { "600" }, path.display())]
    Exposed {
        /// What.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Whether it is a directory.
        directory: bool,
    },
    /// Somebody else's.
    #[error("`{}` belongs to user {owner}, and this process runs as user {me}; use a data root of your own, or run as its owner", path.display())]
    Owner {
        /// What.
        path: PathBuf,
        /// Whose.
        owner: u32,
        /// Who asks.
        me: u32,
    },
    /// A file stands where the data root should be.
    #[error("`{}` is not a directory; the data root has to be one", path.display())]
    NotADirectory {
        /// What.
        path: PathBuf,
    },
    /// Nothing was ever stored here.
    #[error("there is no data root at `{}`; commands that create an agent make one", path.display())]
    NoStore {
        /// Where.
        path: PathBuf,
    },
    /// Nothing can be written there.
    #[error("`{}` can't be written (read-only); make it writable, or choose another data root", path.display())]
    ReadOnly {
        /// What.
        path: PathBuf,
    },
    /// No room.
    #[error(
        "the disk that holds the data root is full; nothing that was acknowledged is lost; free some space and try again"
    )]
    DiskFull,
    /// The operating system said no.
    #[error("{what} failed: {why}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        why: String,
    },
    /// Another process has it.
    #[error("the data root is in use by {}; wait for it to end, or stop it", pid.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Busy {
        /// Which, if it says so.
        pid: Option<u32>,
    },
    /// `lazaret.db` is something else.
    #[error("`{}` is not a Lazaret database: {why}; move it away, or choose another data root", path.display())]
    NotOurs {
        /// What.
        path: PathBuf,
        /// How that is known.
        why: String,
    },
    /// A crash left commits in the log that are not in the database, and whoever only reads can't bring them there.
    #[error("`{}` holds commits that are not in the database yet, because the last process that wrote here was cut off, and this data root can't be written ({why}); open it once where it can", path.display())]
    Unapplied {
        /// The log.
        path: PathBuf,
        /// Why it can't be done here.
        why: String,
    },
    /// Written by a later release.
    #[error(
        "the data root has format {found}, and this release knows formats up to {known}; use the release that wrote it, or a later one"
    )]
    Newer {
        /// Its format.
        found: i64,
        /// The latest that is known here.
        known: i64,
    },
    /// Written by an earlier release, and opened only to read.
    #[error(
        "the data root has format {found}, and reading needs format {known}; any command that writes brings it up to date"
    )]
    Older {
        /// Its format.
        found: i64,
        /// The one that is needed.
        known: i64,
    },
    /// The key that signed this journal is gone.
    #[error("`{}` is missing, but the journal was signed with it; put it back from a backup (a new key can't continue this journal)", path.display())]
    KeyMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The key is there and what it signed is not.
    #[error("`{}` is empty or missing, but the host's key is there, so there was a journal; restore it from a backup, or move `host.key` away to begin anew", path.display())]
    JournalMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The key can't be used.
    #[error("`{}` can't be the host's key: {why}; put it back from a backup", path.display())]
    KeyBad {
        /// What.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The database can't be read as one.
    #[error("the database is corrupt: {why}; restore `lazaret.db` from a backup")]
    Corrupt {
        /// What was seen.
        why: String,
    },
    /// Something that was read isn't what was written.
    #[error("{what} is not what was written; restore `lazaret.db` from a backup")]
    Damaged {
        /// What.
        what: String,
    },
    /// The journal isn't one unbroken, signed chain.
    #[error("the journal is broken at entry {seq}: {why}")]
    Broken {
        /// The first entry at which that is seen.
        seq: u64,
        /// How.
        why: String,
    },
    /// A name is used once and never again.
    #[error("`{agent}` is or was an agent here, and a name is never used twice; choose another")]
    NameTaken {
        /// Which.
        agent: AgentId,
    },
    /// No such agent, or it was removed.
    #[error("there is no agent `{agent}`")]
    NoSuchAgent {
        /// Which.
        agent: AgentId,
    },
    /// Too many messages wait.
    #[error("{limit} messages wait for `{agent}` already; they have to be answered first")]
    MailboxFull {
        /// For whom.
        agent: AgentId,
        /// How many are too many.
        limit: u64,
    },
    /// Too many bytes wait.
    #[error(
        "a message of {bytes} bytes finds no room: {waiting} bytes wait for `{agent}` already, and the most is {limit}"
    )]
    MailboxHeavy {
        /// For whom.
        agent: AgentId,
        /// What came.
        bytes: u64,
        /// What waits.
        waiting: u64,
        /// How many are too many.
        limit: u64,
    },
    /// A schedule can't be changed so.
    #[error("schedule `{schedule}` of `{agent}`: {why}")]
    Schedule {
        /// Whose.
        agent: AgentId,
        /// Which.
        schedule: String,
        /// Why not.
        why: Unscheduled,
    },
    /// It was answered already, or never sent.
    #[error("no message {message} waits for `{agent}`")]
    NoSuchMessage {
        /// For whom.
        agent: AgentId,
        /// Which.
        message: u64,
    },
    /// Nothing with that digest.
    #[error("blob {digest} is missing; restore `lazaret.db` from a backup")]
    NoSuchBlob {
        /// Which.
        digest: Digest,
    },
    /// The journal isn't that long.
    #[error("there is no entry {seq}; the journal has {len}, counted from 0")]
    NoSuchEntry {
        /// Which.
        seq: u64,
        /// How many there are.
        len: u64,
    },
    /// Turns come one after another.
    #[error("`{agent}` has taken {taken} turns, so its next can't be turn {turn}")]
    OutOfTurn {
        /// Whose.
        agent: AgentId,
        /// How many it took.
        taken: u64,
        /// Which came.
        turn: u64,
    },
    /// What was handed in can't be stored.
    #[error("this can't be stored: {why}")]
    BadBatch {
        /// Why.
        why: String,
    },
    /// An earlier write failed and it isn't certain what is on disk.
    #[error(
        "nothing more is written, because an earlier write failed and could not be undone: {why}; each new write tries again"
    )]
    Halted {
        /// What failed.
        why: String,
    },
    /// The store was closed before it came to this.
    #[error("the store was closed")]
    Closed,
}

impl StoreError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    pub(crate) fn broken(seq: u64, why: impl Into<String>) -> Self {
        Self::Broken { seq, why: why.into() }
    }

    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self::BadBatch { why: why.into() }
    }

    /// An error of the operating system at a path.
    pub(crate) fn io(what: &str, path: &Path, why: &io::Error) -> Self {
        match why.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Self::ReadOnly { path: path.to_owned() }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Io { what: format!("{what} `{}`", path.display()), why: why.to_string() },
        }
    }

    /// Whether it won't pass by itself: what is in the database can't be believed.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Damaged { .. } | Self::Broken { .. })
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(why: rusqlite::Error) -> Self {
        let Some(code) = why.sqlite_error_code() else {
            // Only a column of another type or a text that isn't UTF-8 ends here: the tables are strict.
            return Self::damaged(format!("a row of the database ({why})"));
        };
        let extended = why.sqlite_error().map_or(0, |error| error.extended_code);
        match code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt { why: why.to_string() },
            ErrorCode::DiskFull => Self::DiskFull,
            // There is no room for the log's index: SQLite has a code of its own for that.
            _ if extended == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => Self::DiskFull,
            ErrorCode::ReadOnly => Self::ReadOnly { path: "lazaret.db".into() },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy { pid: None },
            // The writer keeps every rule, so a row that breaks one was put there by somebody else.
            ErrorCode::ConstraintViolation => Self::damaged(format!("a row of the database ({why})")),
            ErrorCode::TooBig => Self::bad(why.to_string()),
            // A damaged schema, or one that names what isn't there.
            ErrorCode::Unknown | ErrorCode::SchemaChanged => Self::Corrupt { why: why.to_string() },
            _ => Self::Io { what: "the database".into(), why: format!("{why} (SQLite code {extended})") },
        }
    }
}

impl From<Broken> for StoreError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Unreadable { seq, why } => Self::Broken { seq, why },
            Broken::OutOfPlace { expected, found } => Self::broken(expected, format!("it says it is entry {found}")),
            Broken::Unlinked { seq, expected, found } => {
                Self::broken(seq, format!("it follows {found}, but the entry before it hashes to {expected}"))
            }
        }
    }
}

impl From<NotCanonical> for StoreError {
    fn from(why: NotCanonical) -> Self {
        Self::BadBatch { why: why.to_string() }
    }
}

//! The data root: one directory, closed to others, held by one process at a time.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the data root is this crate's to touch")]

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::limits;

/// Where things lie in the data root.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    path: PathBuf,
}

/// Held for as long as this process may write. Dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Root {
    /// Takes the directory, making it if there is none.
    pub(crate) fn prepare(path: &Path) -> Result<Self, StoreError> {
        let root = Self { path: path.to_owned() };
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => return Err(StoreError::NotADirectory { path: path.to_owned() }),
            Ok(_) => {}
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => root.make()?,
            Err(why) if why.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(StoreError::NotADirectory { path: path.to_owned() });
            }
            Err(why) => return Err(StoreError::io("looking at", path, &why)),
        }
        closed_to_others(path)?;
        Ok(root)
    }

    /// Takes a directory that must be there already, to read from it.
    pub(crate) fn existing(path: &Path) -> Result<Self, StoreError> {
        let root = Self { path: path.to_owned() };
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => Err(StoreError::NotADirectory { path: path.to_owned() }),
            Ok(_) if root.database().exists() => Ok(root),
            Ok(_) if root.key().exists() => Err(StoreError::JournalMissing { path: root.database() }),
            Ok(_) => Err(StoreError::NoStore { path: path.to_owned() }),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                Err(StoreError::NoStore { path: path.to_owned() })
            }
            Err(why) => Err(StoreError::io("looking at", path, &why)),
        }
    }

    /// Whether this process may use a directory that is there; touches nothing.
    pub(crate) fn examine(path: &Path) -> Result<(), StoreError> {
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => Err(StoreError::NotADirectory { path: path.to_owned() }),
            Ok(_) => closed_to_others(path),
            Err(why) => Err(StoreError::io("looking at", path, &why)),
        }
    }

    fn make(&self) -> Result<(), StoreError> {
        let failed = |why| StoreError::io("making the directory", &self.path, &why);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(failed)?;
        // A data root that a power cut takes away whole would take acknowledged turns with it.
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join("lazaret.db")
    }

    /// SQLite's write-ahead log beside the database.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("lazaret.db-wal")
    }

    /// Where a commit is on disk first.
    pub(crate) fn redo(&self) -> PathBuf {
        self.path.join("lazaret.redo")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.path.join("host.key")
    }

    /// Takes the lock or says who has it. Waits for one who only passes through: its command was to read, and nobody
    /// should have to know that it had to tidy up first.
    pub(crate) fn lock(&self) -> Result<Lock, StoreError> {
        let mut said = None;
        for _ in 0..limits::LOCK_LOOKS {
            let mut file = self.lock_file()?;
            if self.try_lock(&file)? {
                let written = writeln!(file, "{}", std::process::id());
                written.map_err(|why| StoreError::io("locking", &self.lock_path(), &why))?;
                return Ok(Lock { _file: file });
            }
            let pid = holder(&file);
            // What stood there the first time may be of one who is gone.
            if pid.is_some() && pid == said {
                break;
            }
            said = pid;
            std::thread::sleep(limits::LOCK_PAUSE);
        }
        Err(StoreError::Busy { pid: said })
    }

    /// Takes the lock for a moment, and namelessly; none if somebody has it.
    pub(crate) fn pass_through(&self) -> Result<Option<Lock>, StoreError> {
        let file = self.lock_file()?;
        Ok(self.try_lock(&file)?.then_some(Lock { _file: file }))
    }

    fn lock_path(&self) -> PathBuf {
        self.path.join("lazaret.lock")
    }

    fn lock_file(&self) -> Result<File, StoreError> {
        let path = self.lock_path();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        file.map_err(|why| StoreError::io("locking", &path, &why))
    }

    /// Whether the lock was to be had. If so, nobody's name stands in it any more.
    fn try_lock(&self, file: &File) -> Result<bool, StoreError> {
        let failed = |why| StoreError::io("locking", &self.lock_path(), &why);
        match file.try_lock() {
            Ok(()) => file.set_len(0).map(|()| true).map_err(failed),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(why)) => Err(failed(why)),
        }
    }

    /// Makes the database's file, empty and closed to others, if there is none; SQLite gives its log the same mode.
    /// Never opens an existing one: closing it again would drop the locks that SQLite holds on it in this process.
    pub(crate) fn make_database(&self) -> Result<(), StoreError> {
        let path = self.database();
        // The key is made after the database's first transaction, so it never stands beside an empty file.
        if self.key().exists() && fs::metadata(&path).map_or(0, |found| found.len()) == 0 {
            return Err(StoreError::JournalMissing { path });
        }
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => self.sync(),
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => closed_to_others(&path),
            Err(why) => Err(StoreError::io("making", &path, &why)),
        }
    }

    /// Makes the directory's own entries durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let failed = |why| StoreError::io("flushing the directory", &self.path, &why);
        File::open(&self.path).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

/// Who has the lock. None if that one has just taken it and is about to say so, or passes through.
fn holder(lock: &File) -> Option<u32> {
    let mut text = [0; 16];
    let read = lock.read_at(&mut text, 0).unwrap_or_default();
    let said = str::from_utf8(&text[..read]).ok()?.strip_suffix('\n')?;
    said.parse().ok()
}

/// Refuses what others may open, or what is another's.
pub(crate) fn closed_to_others(path: &Path) -> Result<(), StoreError> {
    let found = fs::metadata(path).map_err(|why| StoreError::io("looking at", path, &why))?;
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me {
        return Err(StoreError::Owner { path: path.to_owned(), owner: found.uid(), me });
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(StoreError::Exposed { path: path.to_owned(), mode, directory: found.is_dir() });
    }
    Ok(())
}

//! The vault's directory: closed to others, written by one at a time, replaced whole or not at all.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the vault lies in the data root")]

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::limits;
use crate::root::closed_to_others;

use super::error::VaultError;

/// Where the vault of a data root lies.
#[derive(Clone, Debug)]
pub(super) struct Home {
    root: PathBuf,
    dir: PathBuf,
}

/// A state of the vault's file that somebody has read or written. It is replaced and never written in place, so another
/// state is another file, and as long as this one is held open no other can have its number; time and size are for whoever
/// copies a backup over it.
pub(super) struct Seen {
    _file: File,
    stamp: Stamp,
}

#[derive(PartialEq, Eq)]
struct Stamp {
    number: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        let (number, changed) = ((found.dev(), found.ino()), (found.ctime(), found.ctime_nsec()));
        Self { number, size: found.size(), changed }
    }
}

/// Held while the vault is written.
pub(super) struct Lock {
    _file: File,
}

impl Home {
    pub(super) fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), dir: root.join("vault") }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn file(&self) -> PathBuf {
        self.dir.join("secrets.sealed")
    }

    fn aside(&self) -> PathBuf {
        self.dir.join("secrets.sealed.new")
    }

    /// Makes the directory if there is none.
    pub(super) fn prepare(&self) -> Result<(), VaultError> {
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Ok(()) => sync_parent(&self.dir)?,
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            Err(why) => return Err(StoreError::io("making the directory", &self.dir, &why).into()),
        }
        Ok(closed_to_others(&self.dir)?)
    }

    /// The sealed vault and the state that this is; none if there is none.
    pub(super) fn read(&self) -> Result<Option<(Seen, Vec<u8>)>, VaultError> {
        let path = self.file();
        // A link could lead anywhere, and a pipe would wait for ever.
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
        let file = match OpenOptions::new().read(true).custom_flags(flags as i32).open(&path) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(why) if why.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return Err(VaultError::Damaged { path, why: "it is a symbolic link".to_owned() });
            }
            Err(why) => return Err(StoreError::io("opening", &path, &why).into()),
        };
        closed_to_others(&self.dir)?;
        let found = closed_file(&file, &path)?;
        let (len, stamp) = (found.len(), Stamp::of(&found));
        if len > limits::MAX_VAULT as u64 {
            return Err(VaultError::Damaged { path, why: format!("it has {len} bytes, more than any vault") });
        }
        let mut bytes = Vec::with_capacity(len as usize);
        let read = (&file).take(limits::MAX_VAULT as u64).read_to_end(&mut bytes);
        read.map_err(|why| StoreError::io("reading", &path, &why))?;
        Ok(Some((Seen { _file: file, stamp }, bytes)))
    }

    /// Whether the vault's file is still in this state.
    pub(super) fn is(&self, seen: &Seen) -> Result<bool, VaultError> {
        let path = self.file();
        match fs::symlink_metadata(&path) {
            Ok(found) => Ok(Stamp::of(&found) == seen.stamp),
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
            Err(why) => Err(StoreError::io("looking at", &path, &why).into()),
        }
    }

    /// Waits for its turn to write, and not for ever.
    pub(super) fn lock(&self) -> Result<Lock, VaultError> {
        let path = self.dir.join("lock");
        let failed = |why| VaultError::from(StoreError::io("locking", &path, &why));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        for _ in 0..limits::LOCK_LOOKS {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(limits::LOCK_PAUSE),
                Err(TryLockError::Error(why)) => return Err(failed(why)),
            }
        }
        Err(VaultError::Busy)
    }

    /// Puts these bytes in the vault's place: after a crash there is the old vault or the new one, whole.
    pub(super) fn replace(&self, _lock: &Lock, bytes: &[u8]) -> Result<Seen, VaultError> {
        let (path, aside) = (self.file(), self.aside());
        let failed = |why: std::io::Error| VaultError::from(StoreError::io("writing", &aside, &why));
        // The lock is held, so one that is there already was left by a crash.
        match fs::remove_file(&aside) {
            Err(why) if why.kind() != ErrorKind::NotFound => return Err(failed(why)),
            _ => {}
        }
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&aside).map_err(failed)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(why) = written.and_then(|()| fs::rename(&aside, &path)) {
            // What it holds is sealed, and the next writer removes it if this can't.
            let _ = fs::remove_file(&aside);
            return Err(failed(why));
        }
        sync_parent(&path)?;
        let stamp = Stamp::of(&file.metadata().map_err(failed)?);
        Ok(Seen { _file: file, stamp })
    }
}

/// Makes the names in a path's directory durable.
pub(super) fn sync_parent(path: &Path) -> Result<(), VaultError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |why| StoreError::io("flushing the directory", parent, &why);
    Ok(File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?)
}

/// Refuses an open file that others may open too, that is another's, or that is no file.
pub(super) fn closed_file(file: &File, path: &Path) -> Result<Metadata, VaultError> {
    let found = file.metadata().map_err(|why| StoreError::io("looking at", path, &why))?;
    if !found.is_file() {
        return Err(VaultError::Damaged { path: path.to_owned(), why: "it is not a file".to_owned() });
    }
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me {
        return Err(StoreError::Owner { path: path.to_owned(), owner: found.uid(), me }.into());
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(StoreError::Exposed { path: path.to_owned(), mode, directory: false }.into());
    }
    Ok(found)
}

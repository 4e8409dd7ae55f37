//! Where a keeper is found.

#![expect(clippy::disallowed_types, reason = "the socket lies in the data root")]

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use crate::limits::MAX_ADDRESS;

/// The socket, from the data root.
pub const SOCKET: &str = "run/keeper.sock";

/// The token's file, from the data root.
pub const TOKEN: &str = "ipc.token";

/// The socket of a data root.
pub fn socket(root: &Path) -> PathBuf {
    root.join(SOCKET)
}

/// A socket's address. Systems have room for about a hundred bytes of it; a longer path is reached through its directory.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// INVARIANT: open for as long as the path names it.
    _directory: Option<File>,
}

impl Place {
    /// The address for a path whose directory is there.
    pub fn of(path: &Path) -> Result<Self> {
        if path.as_os_str().len() <= MAX_ADDRESS {
            return Ok(Self { path: path.to_owned(), _directory: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::new(ErrorKind::InvalidInput, "not a path of a socket"));
        };
        if !cfg!(target_os = "linux") {
            let why = format!("the data root's path is too long for a socket: at most {MAX_ADDRESS} bytes in all");
            return Err(Error::new(ErrorKind::InvalidFilename, why));
        }
        let directory = File::open(parent)?;
        let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _directory: Some(directory) })
    }

    /// What to bind or connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

//! The local socket: made where nobody else can reach it, or handed over by systemd.

use std::fs::{self, DirBuilder};
use std::io::{Error, Result};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use lazaret_link::{Place, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

use super::limits::CONNECTIONS;
use super::systemd;

/// Says who the keeper is, for commands that come while it starts.
const PID: &str = "run/keeper.pid";

/// The socket, for as long as the keeper answers on it.
pub(crate) struct Listener {
    listener: UnixListener,
    /// Ours to take away; what systemd made stays.
    made: Option<PathBuf>,
    pid: PathBuf,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_file(&self.pid);
    }
}

impl Listener {
    /// Opens the socket of a data root. Whoever does holds the root's lock: what lies there was left by somebody who is gone.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let path = socket(root);
        make_folder(root)?;
        let (listener, made) = match systemd::inherited()? {
            Some(listener) => {
                let bound = listener.local_addr()?;
                if bound.as_pathname().and_then(|bound| fs::canonicalize(bound).ok()) != fs::canonicalize(&path).ok() {
                    warn!(?bound, wanted = ?path, "the socket that was handed over is not where commands look for it");
                }
                (listener, None)
            }
            None => (bind(&path)?, Some(path)),
        };
        listener.set_nonblocking(true)?;
        Ok(Self { listener, made, pid: root.join(PID) })
    }

    /// For the runtime; the socket itself stays here.
    pub(crate) fn listener(&self) -> std::result::Result<tokio::net::UnixListener, crate::failure::Failure> {
        let failed = |why: Error| crate::failure::Failure::Failed(format!("the socket can't be had: {why}"));
        self.listener.try_clone().and_then(tokio::net::UnixListener::from_std).map_err(failed)
    }
}

/// The folder first, closed to others: a socket in it can't be reached by them, whatever its own mode is for a moment.
fn make_folder(root: &Path) -> Result<()> {
    let folder = root.join("run");
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(why) if why.kind() != std::io::ErrorKind::AlreadyExists => return Err(why),
        _ => {}
    }
    let about = fs::symlink_metadata(&folder)?;
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o077 != 0 {
        let folder = folder.display();
        return Err(Error::other(format!("`{folder}` is not a folder of ours that is closed to others; remove it")));
    }
    Ok(())
}

fn bind(path: &Path) -> Result<UnixListener> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    let listener = UnixListener::bind(Place::of(path)?.path())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Leaves word of who is about to be the keeper.
pub(crate) fn mark(root: &Path) -> Result<()> {
    make_folder(root)?;
    fs::write(root.join(PID), format!("{}\n", std::process::id()))
}

/// Who said that it is about to be the keeper, or is.
pub(crate) fn marked(root: &Path) -> Option<u32> {
    fs::read_to_string(root.join(PID)).ok()?.trim().parse().ok()
}

/// Asks for as many open files as this process may have.
pub(crate) fn raise_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        debug!("the limit of open files can't be raised");
    }
}

/// How many connections there may be: the database and turns need files too.
pub(crate) fn connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    CONNECTIONS.min(usize::try_from(files / 4).unwrap_or(usize::MAX)).max(1)
}

//! The few words that a service manager and a service exchange.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tracing::warn;

use super::shared::Shared;

/// The first file that a service manager hands over.
const FIRST: i32 = 3;

/// Tells the service manager something, if there is one that wants to hear.
pub(crate) fn notify(text: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(why) = send(name.as_encoded_bytes(), text) {
        warn!(%why, "the service manager can't be told");
    }
}

fn send(name: &[u8], text: &str) -> std::io::Result<()> {
    let address = match name.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(std::ffi::OsStr::new(&*String::from_utf8_lossy(name)))?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(|_| ())
}

/// Whether a service manager has opened a socket for this process.
pub(crate) fn is_handed_over() -> bool {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    number("LISTEN_PID") == Some(std::process::id()) && number("LISTEN_FDS").is_some_and(|count| count > 0)
}

/// That socket.
pub(crate) fn inherited() -> std::io::Result<Option<UnixListener>> {
    if !is_handed_over() {
        return Ok(None);
    }
    // A number is no proof that a file is open; the kernel makes the duplicate, and says so if there is none.
    let me = pidfd_open(getpid(), PidfdFlags::empty())?;
    let file = pidfd_getfd(me, FIRST, PidfdGetfdFlags::empty())?;
    if !rustix::net::sockopt::socket_acceptconn(&file)? {
        return Err(std::io::Error::other("the file that was handed over is not a listening socket"));
    }
    Ok(Some(UnixListener::from(file)))
}

/// Tells the service manager that the keeper is well, for as long as it is.
pub(crate) async fn watchdog(shared: Arc<Shared>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let Some(every) = number("WATCHDOG_USEC").filter(|micros| ours && *micros > 0) else { return };
    let half = Duration::from_micros(every.div_ceil(2));
    let mut ticks = tokio::time::interval(half);
    loop {
        ticks.tick().await;
        let well = tokio::time::timeout(half, shared.is_well()).await;
        if matches!(well, Ok(true)) { notify("WATCHDOG=1") } else { warn!("the keeper is not well") }
    }
}

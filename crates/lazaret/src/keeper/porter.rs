//! Who lets connections in, and watches those whose threads are busy answering.

use std::collections::BTreeMap;
use std::io::Result;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lazaret_link::Ticket;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::connection::{Connection, Reading, say};
use super::limits::{EVENTS, WRITE};
use super::shared::Shared;

/// Knows all connections.
pub(crate) struct Porter {
    pub(crate) shared: Arc<Shared>,
    /// Where threads are to be had.
    pub(crate) handle: Handle,
    /// Tells once of each connection that is watched when something comes.
    watched: OwnedFd,
    connections: Mutex<BTreeMap<u64, Weak<Connection>>>,
    next: AtomicU64,
    /// It has hung up.
    over: AtomicBool,
    /// Closed when it hangs up.
    end: std::os::unix::net::UnixStream,
}

/// The number under which that is seen: no connection ever has it.
const END: u64 = u64::MAX;

impl Porter {
    /// One that watches until it hangs up.
    pub(crate) fn start(shared: Arc<Shared>, handle: Handle) -> Result<Arc<Self>> {
        let watched = epoll::create(CreateFlags::CLOEXEC)?;
        let (end, heard) = std::os::unix::net::UnixStream::pair()?;
        epoll::add(&watched, &heard, EventData::new_u64(END), EventFlags::IN)?;
        let (connections, next) = (Mutex::default(), AtomicU64::new(0));
        let over = AtomicBool::new(false);
        let porter = Arc::new(Self { shared, handle, watched, connections, next, over, end });
        let watching = Arc::clone(&porter);
        let watch = move || {
            watching.keep_watch();
            drop(heard);
        };
        std::thread::Builder::new().name("lazaret-porter".into()).spawn(watch)?;
        Ok(porter)
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes connections for as long as it is let.
    pub(crate) async fn accept(self: Arc<Self>, listener: UnixListener, most: usize) {
        let places = Arc::new(Semaphore::new(most));
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => self.admit(stream, place),
                    // Never waits: the other side may not listen.
                    Err(_) => {
                        let text = "too many connections; try again when some have ended";
                        let _ = stream.try_write(&say(Ticket::unasked(), "too-many", text));
                    }
                },
                Err(why) => {
                    // Out of files, most likely: some will be closed soon.
                    warn!(%why, "a connection can't be taken");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Gives a connection a thread, if whoever made it may ask.
    fn admit(self: &Arc<Self>, stream: UnixStream, place: OwnedSemaphorePermit) {
        if !may_ask(&stream) {
            warn!("somebody else's process was turned away");
            let _ = stream.try_write(&say(Ticket::unasked(), "not-you", "this keeper answers only its own user"));
            return;
        }
        if let Err(why) = self.open(stream, place) {
            warn!(%why, "a connection can't be taken");
        }
    }

    fn open(self: &Arc<Self>, stream: UnixStream, place: OwnedSemaphorePermit) -> Result<()> {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(WRITE))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        epoll::add(&self.watched, &stream, EventData::new_u64(number), EventFlags::ONESHOT)?;
        let connection = Arc::new(Connection::new(number, stream, Arc::clone(self), place));
        self.connections().insert(number, Arc::downgrade(&connection));
        // Whoever hangs up sees it, or it is seen here that somebody has.
        if self.over.load(Ordering::SeqCst) {
            return connection.stream.shutdown(Shutdown::Both);
        }
        let reading = Reading::new(self.shared.token.clone());
        self.handle.spawn_blocking(move || connection.attend(reading));
        Ok(())
    }

    /// From here on another thread reads what comes.
    pub(crate) fn watch(&self, connection: &Connection) {
        self.set(connection, EventFlags::IN | EventFlags::ONESHOT);
    }

    /// Somebody reads again.
    pub(crate) fn ignore(&self, connection: &Connection) {
        self.set(connection, EventFlags::ONESHOT);
    }

    fn set(&self, connection: &Connection, events: EventFlags) {
        // INVARIANT: it was added when it was made and is open, so this fails only for want of memory; then it is read when
        // its thread has answered.
        let _ = epoll::modify(&self.watched, &connection.stream, EventData::new_u64(connection.number), events);
    }

    /// Has what comes on watched connections read, until it hangs up.
    fn keep_watch(self: &Arc<Self>) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            match epoll::wait(&self.watched, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(why) => return warn!(%why, "connections can't be watched"),
            }
            for event in events.drain(..) {
                let Event { data, .. } = event;
                match data.u64() {
                    END => return,
                    number => self.read_on(number),
                }
            }
        }
    }

    /// Something came while a connection's thread answers: another one reads on.
    fn read_on(&self, number: u64) {
        let connection = self.connections().get(&number).and_then(Weak::upgrade);
        if let Some((connection, reading)) = connection.and_then(|it| it.take_up().map(|reading| (it, reading))) {
            self.handle.spawn_blocking(move || connection.attend(reading));
        }
    }

    /// A connection is no more.
    pub(crate) fn forget(&self, number: u64) {
        self.connections().remove(&number);
    }

    /// Ends all connections, so that nobody waits for something to come.
    pub(crate) fn hang_up(&self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = self.end.shutdown(Shutdown::Both);
        let all: Vec<_> = self.connections().values().filter_map(Weak::upgrade).collect();
        for connection in all {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Whether whoever connected is the user that the keeper runs as, or root.
fn may_ask(stream: &UnixStream) -> bool {
    let me = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| is_heard(peer.uid(), me))
}

fn is_heard(peer: u32, me: u32) -> bool {
    peer == me || peer == 0
}

#[cfg(test)]
mod tests {
    use super::is_heard;

    /// Who really connects is played in `tests/keeper/life.rs`, if root runs that.
    #[test]
    fn a_keeper_hears_its_own_user_and_root() {
        assert_eq!([(1000, 1000), (0, 1000), (0, 0)].map(|(peer, me)| is_heard(peer, me)), [true; 3]);
        assert_eq!([(1001, 1000), (65534, 0), (1000, 0)].map(|(peer, me)| is_heard(peer, me)), [false; 3]);
    }
}

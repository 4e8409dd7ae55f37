//! A socket that the thread which waits for an answer reads itself.
//!
//! Callers are threads that block, and a request owns its connection: so nothing has to watch many sockets at once. Whoever
//! has nothing to do ends in one blocking read, which waits and reads in the same system call; a reactor would need one to
//! wait and another to read, for each request. The read gives up every few milliseconds, and then it is looked whether
//! the request is late or not wanted any more.
//!
//! HTTP/1.1 uses it step by step. Handshakes and HTTP/2 are futures, which [`Socket::run`] drives to their end.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lazaret_gate::Target;
use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::EgressError;
use super::channel::Received;
use super::clock::Clock;
use crate::limits::{LOOK, READ};

/// One end of a connection. Copies are the same socket: it closes with the last of them.
#[derive(Clone)]
pub(super) struct Socket(Arc<Inner>);

struct Inner {
    tcp: TcpStream,
    inbox: Mutex<Inbox>,
    woken: Arc<Woken>,
}

/// What was read and nobody has taken yet.
struct Inbox {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
    end: Option<End>,
    /// The other side has no room for what is to be sent.
    stuck: bool,
}

/// Why nothing more comes.
#[derive(Clone, Copy)]
enum End {
    Closed,
    Broken(ErrorKind),
}

/// Whether something was done that the future waits for, besides what the socket brings.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Socket {
    /// Takes over a connected socket.
    pub(super) fn over(tcp: TcpStream) -> io::Result<Self> {
        tcp.set_nonblocking(false)?;
        tcp.set_read_timeout(Some(LOOK))?;
        tcp.set_write_timeout(Some(LOOK))?;
        let bytes = vec![0; READ].into_boxed_slice();
        let inbox = Mutex::new(Inbox { bytes, from: 0, to: 0, end: None, stuck: false });
        Ok(Self(Arc::new(Inner { tcp, inbox, woken: Arc::default() })))
    }

    /// Does work that waits for nothing but this socket, in the thread that calls. Nothing if it was cut off, an error if
    /// it took too long.
    pub(super) fn run<T>(
        &self,
        clock: &Clock<'_>,
        target: &Target,
        cut: &mut dyn FnMut() -> bool,
        work: impl Future<Output = Result<T, EgressError>>,
    ) -> Option<Result<T, EgressError>> {
        let waker = Waker::from(Arc::clone(&self.0.woken));
        let (mut context, mut work) = (Context::from_waker(&waker), pin!(work));
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                return Some(done);
            }
            if self.0.woken.0.swap(false, Ordering::Relaxed) {
                // It has more to do at once.
            } else if clock.gives_way() {
                self.glance();
            } else {
                self.wait();
            }
            if let Some(ended) = clock.look(cut) {
                return ended.told(target);
            }
        }
    }

    /// Takes what is there without waiting: the other side may have said something, or hung up, since anybody read.
    pub(super) fn glance(&self) {
        let mut inbox = self.inbox();
        if inbox.is_open() {
            let read = rustix::net::recv(&self.0.tcp, &mut *inbox.bytes, RecvFlags::DONTWAIT);
            inbox.take_in(read.map(|(len, _)| len).map_err(io::Error::from));
        }
    }

    /// Takes what was read and nobody has taken yet.
    pub(super) fn take(&self, into: impl FnOnce(&[u8])) -> io::Result<Received> {
        let mut inbox = self.inbox();
        let there = &inbox.bytes[inbox.from..inbox.to];
        if there.is_empty() {
            return match inbox.end {
                Some(End::Closed) => Ok(Received::End),
                Some(End::Broken(kind)) => Err(kind.into()),
                None => Ok(Received::Nothing),
            };
        }
        into(there);
        inbox.from = inbox.to;
        Ok(Received::Some)
    }

    /// Waits for the other side, for a few milliseconds at most.
    pub(super) fn wait(&self) {
        let mut inbox = self.inbox();
        if std::mem::take(&mut inbox.stuck) {
            // The time was spent on trying to send. What the other side says may be why it takes nothing.
            drop(inbox);
            self.glance();
        } else if inbox.is_open() {
            let read = (&self.0.tcp).read(&mut inbox.bytes);
            inbox.take_in(read);
        } else {
            // Nobody wants what there is: then there is nothing to wait for but time.
            drop(inbox);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // One thread at a time has the connection. Whoever panicked with it has lost what it read, and not the lock.
        self.0.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self, sent: io::Result<usize>) -> Poll<io::Result<usize>> {
        match sent {
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                self.inbox().stuck = true;
                Poll::Pending
            }
            sent => Poll::Ready(sent),
        }
    }
}

impl Inbox {
    /// Whether there is room for more, and more may come.
    fn is_open(&self) -> bool {
        self.from == self.to && self.end.is_none()
    }

    fn take_in(&mut self, read: io::Result<usize>) {
        match read {
            Ok(0) => self.end = Some(End::Closed),
            Ok(len) => (self.from, self.to) = (0, len),
            Err(why) => match why.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                kind => self.end = Some(End::Broken(kind)),
            },
        }
    }
}

impl Inbox {
    /// The first of what is there, at most so many bytes; none at the end.
    fn first(&mut self, most: usize) -> io::Result<&[u8]> {
        let (from, len) = (self.from, (self.to - self.from).min(most));
        match self.end {
            _ if len > 0 || most == 0 => {}
            Some(End::Closed) => {}
            Some(End::Broken(kind)) => return Err(kind.into()),
            None => return Err(ErrorKind::WouldBlock.into()),
        }
        self.from += len;
        Ok(&self.bytes[from..from + len])
    }
}

/// What was read, and nothing that would have to be waited for.
impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut inbox = self.inbox();
        let first = inbox.first(buffer.len())?;
        buffer[..first.len()].copy_from_slice(first);
        Ok(first.len())
    }
}

/// Waits for room, for a few milliseconds at most.
impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0.tcp).write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            // Mostly it is one, and that costs less to send.
            [piece] => self.write(piece),
            pieces => (&self.0.tcp).write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.inbox().first(buffer.remaining()) {
            Ok(bytes) => {
                buffer.put_slice(bytes);
                Poll::Ready(Ok(()))
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => Poll::Pending,
            Err(why) => Poll::Ready(Err(why)),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.sent((&self.0.tcp).write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.sent((&self.0.tcp).write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.tcp.shutdown(Shutdown::Write))
    }
}

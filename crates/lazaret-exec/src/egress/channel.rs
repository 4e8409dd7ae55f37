//! Bytes to and from a server, encrypted or not, in the thread that calls.
//!
//! Each step takes a few milliseconds at most, so that whoever calls can look at the clock in between.

use std::io::{self, BufRead as _, ErrorKind, Write as _};

use rustls::ClientConnection;

use super::socket::Socket;

/// What a look for more has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Some bytes.
    Some,
    /// Nothing yet.
    Nothing,
    /// The other side has said that it has said everything.
    End,
}

pub(super) struct Channel {
    socket: Socket,
    /// Nothing if bytes go as they are.
    tls: Option<Box<ClientConnection>>,
    /// What waits to go out as it is. What is encrypted waits in `tls`.
    waiting: Vec<u8>,
}

impl Channel {
    pub(super) fn new(socket: Socket, tls: Option<Box<ClientConnection>>) -> Self {
        Self { socket, tls, waiting: Vec::new() }
    }

    /// Whether it has something that wasn't sent yet.
    pub(super) fn is_full(&self) -> bool {
        self.tls.as_ref().map_or(!self.waiting.is_empty(), |tls| tls.wants_write())
    }

    /// Takes bytes to send, and says how many: not while it is full.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.writer().write(bytes),
            None => {
                self.waiting.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }

    /// Sends what it took: whether all of it. If not, the other side had no room for a few milliseconds. An error says
    /// whether anything of it was sent.
    pub(super) fn flush(&mut self) -> Result<bool, (io::Error, bool)> {
        let mut some = false;
        loop {
            let sent = match &mut self.tls {
                Some(tls) if tls.wants_write() => tls.write_tls(&mut &self.socket),
                None if !self.waiting.is_empty() => (&self.socket).write(&self.waiting),
                _ => return Ok(true),
            };
            match sent {
                Ok(0) => return Err((ErrorKind::WriteZero.into(), some)),
                Ok(len) if self.tls.is_none() => drop(self.waiting.drain(..len)),
                Ok(_) => {}
                Err(why) if is_wait(&why) => return Ok(false),
                Err(why) => return Err((why, some)),
            }
            some = true;
        }
    }

    /// Adds what came to `into`. If nothing did, waits for it, a few milliseconds at most.
    pub(super) fn receive(&mut self, wait: bool, into: &mut Vec<u8>) -> io::Result<Received> {
        match self.take(into)? {
            Received::Nothing => {}
            done => return Ok(done),
        }
        if wait {
            self.socket.wait();
        } else {
            self.socket.glance();
        }
        self.take(into)
    }

    /// Whether the other side has said nothing since, as far as anybody has looked.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut more = Vec::new();
        matches!(self.take(&mut more), Ok(Received::Nothing)) && self.flush().is_ok_and(|all| all)
    }

    /// Adds what was read already to `into`.
    fn take(&mut self, into: &mut Vec<u8>) -> io::Result<Received> {
        let Some(tls) = &mut self.tls else { return self.socket.take(|bytes| into.extend_from_slice(bytes)) };
        let before = into.len();
        loop {
            let came = match tls.read_tls(&mut &self.socket) {
                Ok(len) => len,
                Err(why) if is_wait(&why) => break,
                Err(why) => return Err(why),
            };
            tls.process_new_packets().map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
            let mut reader = tls.reader();
            loop {
                let len = match reader.fill_buf() {
                    Ok([]) if into.len() > before => return Ok(Received::Some),
                    // It said so itself. Who only hangs up may have been cut off, and that is an error.
                    Ok([]) => return Ok(Received::End),
                    Ok(bytes) => {
                        into.extend_from_slice(bytes);
                        bytes.len()
                    }
                    Err(why) if is_wait(&why) => break,
                    Err(_) if into.len() > before => return Ok(Received::Some),
                    Err(why) => return Err(why),
                };
                reader.consume(len);
            }
            if came == 0 {
                break;
            }
        }
        Ok(if into.len() > before { Received::Some } else { Received::Nothing })
    }
}

/// Whether it means no more than that it takes longer.
fn is_wait(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

//! Asking a keeper, and waiting for its answer.

#![expect(clippy::disallowed_types, reason = "the keeper's socket lies in the data root")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use zeroize::Zeroizing;

use crate::VERSIONS;
use crate::fault::Fault;
use crate::limits::{MAX_ANSWER, MAX_LINE};
use crate::place::Place;
use crate::reply::Reply;
use crate::request::Request;
use crate::session::{Call, Hello, Said};
use crate::token::Token;

/// How long a keeper may take to answer a ping or a hello. One that a service manager starts has to open its data root first.
const PING: std::time::Duration = std::time::Duration::from_secs(30);

/// A value of 64 KiB in base64, and what stands around it.
const SECRET_ROOM: usize = 128 << 10;

/// A connection to a keeper that knows who asks.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    next: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Nobody listens there.
    #[error("no keeper runs on this data root; `lazaret serve` starts one")]
    Nobody,
    /// The keeper said no.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The connection broke.
    #[error("the keeper did not answer: {0}; `lazaret status` shows what is on record")]
    Broken(std::io::Error),
    /// It isn't a keeper that answers.
    #[error("what answers is no keeper of this release: {0}")]
    Nonsense(String),
    /// It can't be asked at all.
    #[error("too large to be asked: {len} bytes; the most is {most}")]
    TooLarge {
        /// Its size.
        len: usize,
        /// The cap.
        most: usize,
    },
}

impl LinkError {
    /// Whether nothing came within the time that was given.
    pub fn is_late(&self) -> bool {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, Self::Broken(why) if matches!(why.kind(), TimedOut | WouldBlock))
    }
}

impl Client {
    fn knock(socket: &Path) -> Result<Self, LinkError> {
        use std::io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
        let connected = Place::of(socket).and_then(|place| UnixStream::connect(place.path()));
        let stream = connected.map_err(|why| match why.kind() {
            NotFound | ConnectionRefused | NotADirectory => LinkError::Nobody,
            _ => LinkError::Broken(why),
        })?;
        Ok(Self { stream: BufReader::new(stream), next: 1 })
    }

    /// Whether anybody answers there. Needs no token.
    pub fn ping(socket: &Path) -> Result<(), LinkError> {
        let mut client = Self::knock(socket)?;
        client.stream.get_mut().set_read_timeout(Some(PING)).map_err(LinkError::Broken)?;
        client.ask(Request::Ping).map(|_| ())
    }

    /// Connects and shows the token.
    pub fn connect(socket: &Path, token: &Token) -> Result<Self, LinkError> {
        let mut client = Self::knock(socket)?;
        client.stream.get_mut().set_read_timeout(Some(PING)).map_err(LinkError::Broken)?;
        let hello = Hello { versions: VERSIONS.to_vec(), token: token.reveal().to_owned() };
        match client.call(Call { id: 0, hello: Some(hello), ask: None })? {
            Reply::Hello { .. } => {
                client.stream.get_mut().set_read_timeout(None).map_err(LinkError::Broken)?;
                Ok(client)
            }
            _ => Err(LinkError::Nonsense("it does not say hello".into())),
        }
    }

    /// Asks and waits, for as long as it takes.
    pub fn ask(&mut self, request: Request) -> Result<Reply, LinkError> {
        let id = self.next;
        self.next += 1;
        self.call(Call { id, hello: None, ask: Some(request) })
    }

    /// The same, for so long and no longer. After that the connection is of no use.
    pub fn ask_within(&mut self, request: Request, most: std::time::Duration) -> Result<Reply, LinkError> {
        self.stream.get_mut().set_read_timeout(Some(most)).map_err(LinkError::Broken)?;
        let answer = self.ask(request);
        self.stream.get_mut().set_read_timeout(None).map_err(LinkError::Broken)?;
        answer
    }

    fn call(&mut self, call: Call) -> Result<Reply, LinkError> {
        let id = call.id;
        // Room for the largest value, so that no part of one is left where the line had been before it grew.
        let room = if call.ask.as_ref().is_some_and(Request::is_secret) { SECRET_ROOM } else { 0 };
        let mut line = Zeroizing::new(Vec::with_capacity(room));
        serde_json::to_writer(&mut *line, &call).map_err(|why| LinkError::Nonsense(why.to_string()))?;
        if line.len() > MAX_LINE {
            return Err(LinkError::TooLarge { len: line.len(), most: MAX_LINE });
        }
        line.push(b'\n');
        // What was refused before it was read is told all the same: the answer comes first.
        let sent = self.stream.get_mut().write_all(&line);
        let answer = self.answer(id);
        match (sent, answer) {
            (Err(why), Err(LinkError::Broken(_))) => Err(LinkError::Broken(why)),
            (_, answer) => answer,
        }
    }

    fn answer(&mut self, id: u64) -> Result<Reply, LinkError> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stream).take(MAX_ANSWER as u64 + 1);
        limited.read_until(b'\n', &mut line).map_err(LinkError::Broken)?;
        if line.is_empty() {
            return Err(LinkError::Broken(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)));
        }
        if line.pop() != Some(b'\n') {
            return Err(LinkError::Broken(std::io::Error::other("its answer was cut off")));
        }
        let said: Said = serde_json::from_slice(&line).map_err(|why| LinkError::Nonsense(why.to_string()))?;
        match said {
            Said { error: Some(fault), .. } => Err(fault.into()),
            Said { id: Some(said), ok: Some(reply), .. } if said == id => Ok(reply),
            _ => Err(LinkError::Nonsense("it answers something else".into())),
        }
    }

    /// Waits until the keeper has hung up; false if it did not within that time.
    pub fn wait_for_end(mut self, most: std::time::Duration) -> bool {
        let mut byte = [0];
        let _ = self.stream.get_mut().set_read_timeout(Some(most));
        matches!(self.stream.read(&mut byte), Ok(0)) || self.stream.get_ref().peer_addr().is_err()
    }
}

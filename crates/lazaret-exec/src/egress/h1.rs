//! HTTP/1.1 over a connection that the request owns and drives itself.
//!
//! One request, then one response, in the thread that calls: no task, no queue and no second reader that could be of another
//! mind about where a message ends. Heads are read by `httparse`; what follows from them is here, and what is not
//! plainly said is refused ([decisions/0014](../../../../decisions/0014-http1-in-the-thread-that-asks.md)).

mod body;
mod head;

use std::io;
use std::net::SocketAddr;

use zeroize::Zeroizing;

use super::ask::{Outgoing, Version};
use super::channel::{Channel, Received};
use super::clock::{Clock, Phase};
use super::link::{Attempt, Coming};
use super::{EgressError, Limits};
use crate::limits::PIECE;
use body::Rest;
use head::Head;

/// A body that goes along with its head: as much as one record of TLS takes with it.
const SMALL: usize = 8 << 10;

pub(super) struct Link {
    channel: Channel,
    /// What came and wasn't read yet.
    inbox: Vec<u8>,
    /// The last request and its answer were done to the end, and the server keeps the connection open.
    whole: bool,
}

impl Link {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, inbox: Vec::new(), whole: true }
    }

    /// One request and its response; nothing if it was cut off.
    pub(super) fn exchange(
        &mut self,
        outgoing: &Outgoing,
        limits: &Limits,
        (clock, cut): (&Clock<'_>, &mut dyn FnMut() -> bool),
        reused: bool,
        address: SocketAddr,
    ) -> Option<Attempt> {
        if !self.reusable() {
            return Some(Attempt::Stale);
        }
        self.whole = false;
        let mut upload = Upload::new(outgoing);
        let mut answer = Answer { outgoing, limits, clock, address, stays: false, stage: Stage::Head { looked: 0 } };
        let mut heard = false;
        loop {
            upload.send(&mut self.channel, clock, &answer.stage);
            match answer.read(&mut self.inbox) {
                Ok(Some(coming)) => {
                    self.whole = answer.stays && upload.is_done();
                    return Some(Attempt::Done(coming.end()));
                }
                Ok(None) => {}
                Err(why) => return Some(why.into()),
            }
            let wait = upload.waits() && !clock.gives_way();
            match self.channel.receive(wait, &mut self.inbox) {
                Ok(Received::Some) => heard = true,
                Ok(Received::Nothing) => {}
                ended => {
                    // A server may close at any moment what it kept open: then what only reads may be asked again, and what
                    // was not sent at all.
                    if reused && !heard && (outgoing.is_safe() || !upload.some) {
                        return Some(Attempt::Stale);
                    }
                    return Some(answer.ended(ended, &upload));
                }
            }
            if let Some(ended) = clock.look(cut) {
                return ended.told(&outgoing.target).map(Attempt::Done);
            }
        }
    }

    /// After a response: whether the server keeps the connection open and said nothing more.
    pub(super) fn reusable(&mut self) -> bool {
        self.whole = self.whole && self.inbox.is_empty() && self.channel.is_quiet();
        self.whole
    }
}

/// A request on its way.
struct Upload<'a> {
    /// The head; with the body, if that is small, so that both go at once.
    first: Zeroizing<Vec<u8>>,
    rest: &'a [u8],
    /// How much of the first was handed over.
    taken: usize,
    /// Something may have been sent.
    some: bool,
    state: Sent,
}

enum Sent {
    Part,
    All,
    /// The server takes no more. What it has said may still be an answer.
    Broken(io::Error),
}

impl<'a> Upload<'a> {
    fn new(outgoing: &'a Outgoing) -> Self {
        let (small, rest) = outgoing.body.split_at(if outgoing.body.len() > SMALL { 0 } else { outgoing.body.len() });
        Self { first: head::written(outgoing, small), rest, taken: 0, some: false, state: Sent::Part }
    }

    fn is_done(&self) -> bool {
        matches!(self.state, Sent::All)
    }

    /// Whether there is nothing to do but to wait for the answer.
    fn waits(&self) -> bool {
        !matches!(self.state, Sent::Part)
    }

    /// Sends the next piece, as far as the server has room. Each gives the rest its time anew, until there is an answer.
    fn send(&mut self, channel: &mut Channel, clock: &Clock<'_>, stage: &Stage<'_>) {
        if self.waits() {
            return;
        }
        let put = self.put(channel).map_err(|why| (why, false));
        match put.and_then(|()| channel.flush()) {
            Ok(true) if self.taken == self.first.len() && self.rest.is_empty() => self.state = Sent::All,
            Ok(true) if matches!(stage, Stage::Head { .. }) => clock.enter(Phase::Head),
            Ok(_) => {}
            Err((why, some)) => {
                self.some |= some;
                self.state = Sent::Broken(why);
                return;
            }
        }
        self.some = true;
    }

    fn put(&mut self, channel: &mut Channel) -> io::Result<()> {
        if channel.is_full() {
            return Ok(());
        }
        if self.taken < self.first.len() {
            self.taken += channel.put(&self.first[self.taken..])?;
        } else {
            let len = channel.put(&self.rest[..self.rest.len().min(PIECE)])?;
            self.rest = &self.rest[len..];
        }
        Ok(())
    }
}

/// A response as it comes in.
struct Answer<'a> {
    outgoing: &'a Outgoing,
    limits: &'a Limits,
    clock: &'a Clock<'a>,
    address: SocketAddr,
    stage: Stage<'a>,
    /// Whether the server keeps the connection open.
    stays: bool,
}

#[expect(clippy::large_enum_variant, reason = "there is one for each request, on the stack")]
enum Stage<'a> {
    /// So many bytes of the head were there at the last look.
    Head {
        looked: usize,
    },
    Body(Rest, Coming<'a>),
}

impl<'a> Answer<'a> {
    /// Reads what came; the response if it is complete.
    fn read(&mut self, inbox: &mut Vec<u8>) -> Result<Option<Coming<'a>>, EgressError> {
        let mut taken = 0;
        while let Stage::Head { looked } = self.stage {
            let fresh = &inbox[taken..];
            let head = if fresh.is_empty() { None } else { head::read(fresh, looked, self.outgoing, self.limits)? };
            let Some(head) = head else {
                self.stage = Stage::Head { looked: fresh.len() };
                inbox.drain(..taken);
                return Ok(None);
            };
            taken += head.len;
            self.stage = if head.is_interim() { Stage::Head { looked: 0 } } else { self.begin(head)? };
        }
        let Stage::Body(rest, coming) = &mut self.stage else { return Ok(None) };
        let (len, done) = rest.take(&inbox[taken..], coming)?;
        inbox.drain(..taken + len);
        if len > 0 && !done {
            self.clock.enter(Phase::Body);
        }
        Ok(if done { self.done() } else { None })
    }

    fn begin(&mut self, head: Head) -> Result<Stage<'a>, EgressError> {
        let Head { status, headers, rest, stays, .. } = head;
        self.clock.enter(Phase::Body);
        self.stays = stays;
        let coming = Coming::head((status, Version::Http1, headers), self.outgoing, self.limits, self.address)?;
        coming.expect(rest.length())?;
        Ok(Stage::Body(rest, coming))
    }

    fn done(&mut self) -> Option<Coming<'a>> {
        match std::mem::replace(&mut self.stage, Stage::Head { looked: 0 }) {
            Stage::Body(_, coming) => Some(coming),
            Stage::Head { .. } => None,
        }
    }

    /// The server hung up: an answer if that is how it ends, else an error.
    fn ended(&mut self, ended: io::Result<Received>, upload: &Upload<'_>) -> Attempt {
        let target = &self.outgoing.target;
        match (ended, &upload.state, &self.stage) {
            (Ok(_), _, Stage::Body(Rest::All, _)) => match self.done() {
                Some(coming) => Attempt::Done(coming.end()),
                None => EgressError::broken(target, "it was closed").into(),
            },
            (Err(why), ..) => EgressError::broken(target, why).into(),
            (Ok(_), Sent::Broken(why), _) => EgressError::broken(target, why).into(),
            (Ok(_), ..) => EgressError::broken(target, "it was closed").into(),
        }
    }
}

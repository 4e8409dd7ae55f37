//! A connection, whichever HTTP it speaks.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;

use lazaret_gate::Target;
use tokio_rustls::TlsConnector;

use super::ask::Outgoing;
use super::channel::Channel;
use super::clock::Clock;
use super::decode::Unpacked;
use super::socket::Socket;
use super::{EgressError, Limits, Reply, Version, h1, h2, tls};

/// A response's headers: names in lower case, in the order in which they came.
pub(super) type Headers = Vec<(String, Vec<u8>)>;

const CONTENT_ENCODING: &str = "content-encoding";
const CONTENT_LENGTH: &str = "content-length";

/// How a try over one connection ended.
pub(super) enum Attempt {
    /// The connection had been closed, and nothing that matters was sent: another may be tried.
    Stale,
    Done(Result<Reply, EgressError>),
}

impl From<EgressError> for Attempt {
    fn from(why: EgressError) -> Self {
        Self::Done(Err(why))
    }
}

/// A connection that belongs to one request, or waits in the pool for one.
pub(super) struct Link {
    wire: Wire,
    pub(super) address: SocketAddr,
}

enum Wire {
    Http1(Box<h1::Link>),
    Http2(Box<h2::Link>),
}

impl Link {
    /// Encrypts if there is something to encrypt with, and agrees on a protocol.
    pub(super) async fn over(
        socket: Socket,
        address: SocketAddr,
        target: &Target,
        tls: Option<&TlsConnector>,
        limits: &Limits,
    ) -> Result<Self, EgressError> {
        let Some(tls) = tls else {
            let wire = Wire::Http1(Box::new(h1::Link::new(Channel::new(socket, None))));
            return Ok(Self { wire, address });
        };
        let name = tls::server_name(target)?;
        let stream = tls.connect(name, socket).await.map_err(|why| tls::fault(target, &why))?;
        let wire = if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            Wire::Http2(Box::new(h2::Link::over(stream, target, limits).await?))
        } else {
            let (socket, tls) = stream.into_inner();
            Wire::Http1(Box::new(h1::Link::new(Channel::new(socket, Some(Box::new(tls))))))
        };
        Ok(Self { wire, address })
    }

    /// One request and its response, over this socket; nothing if it was cut off.
    pub(super) fn exchange(
        &mut self,
        socket: &Socket,
        outgoing: &Outgoing,
        limits: &Limits,
        (clock, cut): (&Clock<'_>, &mut dyn FnMut() -> bool),
        reused: bool,
    ) -> Option<Attempt> {
        let address = self.address;
        match &mut self.wire {
            Wire::Http1(link) => link.exchange(outgoing, limits, (clock, cut), reused, address),
            Wire::Http2(link) => {
                let work = async { Ok(link.exchange(outgoing, limits, clock, reused, address).await) };
                let attempt = socket.run(clock, &outgoing.target, cut, work)?;
                Some(attempt.unwrap_or_else(Attempt::from))
            }
        }
    }

    /// Whether another request may go over it.
    pub(super) fn reusable(&mut self) -> bool {
        match &mut self.wire {
            Wire::Http1(link) => link.reusable(),
            Wire::Http2(link) => link.reusable(),
        }
    }
}

/// A response whose head was taken and whose body is coming.
pub(super) struct Coming<'a> {
    target: &'a Target,
    status: u16,
    version: Version,
    headers: Headers,
    body: Unpacked<'a>,
    address: SocketAddr,
}

impl<'a> Coming<'a> {
    /// Takes a head, if it keeps within the limits.
    pub(super) fn head(
        head: (hyper::StatusCode, Version, Headers),
        outgoing: &'a Outgoing,
        limits: &'a Limits,
        address: SocketAddr,
    ) -> Result<Self, EgressError> {
        let (status, version, headers) = head;
        let target = &outgoing.target;
        let host = || target.host_text().to_owned();
        if status.is_informational() {
            return Err(EgressError::protocol(target, format!("{status} is not an answer")));
        }
        if headers.len() > limits.reply_headers {
            let (count, limit) = (headers.len(), limits.reply_headers);
            return Err(EgressError::TooManyHeaders { host: host(), count, limit });
        }
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len() + ": \r\n".len()).sum();
        if bytes > limits.reply_head {
            return Err(EgressError::head(target, limits));
        }
        let named = headers.iter().filter(|(name, _)| outgoing.unpack && name == CONTENT_ENCODING);
        let packing: Vec<&[u8]> = named.map(|(_, value)| value.as_slice()).collect();
        let body = Unpacked::new(&packing, outgoing.most, target, limits)?;
        Ok(Self { target, status: status.as_u16(), version, headers, body, address })
    }

    /// How long the body will be, if that is known: too long is known at once then.
    pub(super) fn expect(&self, length: Option<u64>) -> Result<(), EgressError> {
        self.body.expect(length)
    }

    /// How long the server says that it will be.
    pub(super) fn said(&self) -> Option<u64> {
        let (_, value) = self.headers.iter().find(|(name, _)| name == CONTENT_LENGTH)?;
        std::str::from_utf8(value).ok()?.parse().ok()
    }

    pub(super) fn piece(&mut self, bytes: &[u8]) -> Result<(), EgressError> {
        self.body.push(bytes)
    }

    pub(super) fn end(self) -> Result<Reply, EgressError> {
        let unpacked = self.body.is_packed();
        let body = self.body.end()?;
        let mut headers = self.headers;
        headers.retain(|(name, _)| !unpacked || (name != CONTENT_ENCODING && name != CONTENT_LENGTH));
        Ok(Reply { status: self.status, version: self.version, headers, body, address: self.address })
    }

    pub(super) fn target(&self) -> &'a Target {
        self.target
    }
}

/// Does the work while serving the connection that it needs; nothing if the connection ended and the work can't.
pub(super) async fn drive<T>(
    connection: &mut (impl Future + Unpin),
    over: &mut bool,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        if !*over {
            // Its error, if there is one, is also the work's, which says more.
            *over = Pin::new(&mut *connection).poll(cx).is_ready();
        }
        // What the connection just did is mostly what was waited for: no need to be woken for it.
        match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if *over => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

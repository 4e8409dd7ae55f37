//! HTTP/1.1 over a connection that the request owns and drives itself.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use lazaret_gate::Target;

use super::ask::{Outgoing, Version};
use super::clock::{Clock, Phase};
use super::link::{Attempt, Coming, Stream, drive};
use super::{EgressError, Limits};
use crate::limits::PIECE;

/// Bytes that hyper wants to have for a head at least.
const MIN_BUFFER: usize = 8 << 10;

/// Headers that hyper reads unless told otherwise.
const ROOM: usize = 100;

pub(super) struct Link {
    send: SendRequest<Sending>,
    connection: Connection<TokioIo<Box<dyn Stream>>, Sending>,
    /// It has ended and must not be asked again.
    over: bool,
}

impl Link {
    pub(super) async fn over(stream: Box<dyn Stream>, target: &Target, limits: &Limits) -> Result<Self, EgressError> {
        let mut builder = Builder::new();
        // Somewhat more than is taken, so that what is a little too large is told apart from what can't be read at all.
        builder.max_buf_size(limits.reply_head.saturating_mul(2).max(MIN_BUFFER));
        // Asking hyper for room that it doesn't have anyway costs an allocation for each response.
        if limits.reply_headers >= ROOM {
            builder.max_headers(limits.reply_headers.saturating_mul(2));
        }
        let made = builder.handshake(TokioIo::new(stream)).await;
        let (send, connection) = made.map_err(|why| EgressError::broken(target, why))?;
        Ok(Self { send, connection, over: false })
    }

    pub(super) async fn exchange(
        &mut self,
        outgoing: &Outgoing,
        limits: &Limits,
        clock: &Clock<'_>,
        reused: bool,
        address: SocketAddr,
    ) -> Attempt {
        if reused && !self.reusable() {
            return Attempt::Stale;
        }
        let Self { send, connection, over } = self;
        let ready = drive(connection, over, send.ready()).await;
        if !matches!(ready, Some(Ok(()))) {
            return Attempt::Stale;
        }
        let body = Sending::new(outgoing.body.clone(), clock);
        let response = drive(connection, over, send.try_send_request(outgoing.h1(body))).await;
        let response = match response {
            Some(Ok(response)) => response,
            Some(Err(mut why)) => {
                let unsent = why.take_message().is_some();
                let why = why.into_error();
                // A server may close at any moment what it kept open; then what only reads may be asked again.
                let closed = reused && outgoing.is_safe() && is_closed(&why);
                if unsent || closed {
                    return Attempt::Stale;
                }
                return fault(&outgoing.target, &why, limits).into();
            }
            None => return EgressError::broken(&outgoing.target, "it was closed").into(),
        };
        let (head, mut body) = response.into_parts();
        clock.enter(Phase::Body);
        let head = (head.status, Version::Http1, head.headers);
        let coming = match Coming::head(head, outgoing, limits, address) {
            Ok(coming) => coming,
            Err(why) => return why.into(),
        };
        Attempt::Done(match read(connection, over, coming, &mut body, limits, clock).await {
            Ok(coming) => coming.end(),
            Err(why) => Err(why),
        })
    }

    /// After a response: whether the server keeps the connection open and said nothing more.
    pub(super) fn reusable(&mut self) -> bool {
        if self.over {
            return false;
        }
        let mut context = Context::from_waker(std::task::Waker::noop());
        self.over = Pin::new(&mut self.connection).poll(&mut context).is_ready();
        !self.over && self.send.is_ready()
    }
}

async fn read<'a>(
    connection: &mut Connection<TokioIo<Box<dyn Stream>>, Sending>,
    over: &mut bool,
    mut coming: Coming<'a>,
    body: &mut Incoming,
    limits: &Limits,
    clock: &Clock<'_>,
) -> Result<Coming<'a>, EgressError> {
    coming.expect(body.size_hint().exact())?;
    loop {
        let frame = drive(connection, over, poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))).await;
        match frame {
            Some(Some(Ok(frame))) => {
                clock.enter(Phase::Body);
                if let Some(bytes) = frame.data_ref() {
                    coming.piece(bytes)?;
                }
            }
            Some(Some(Err(why))) => return Err(fault(coming.target(), &why, limits)),
            Some(None) => return Ok(coming),
            None => return Err(EgressError::broken(coming.target(), "it was closed")),
        }
    }
}

/// Whether the server hung up instead of answering.
fn is_closed(why: &hyper::Error) -> bool {
    let reset = std::error::Error::source(why).and_then(|why| why.downcast_ref::<std::io::Error>());
    why.is_incomplete_message() || why.is_canceled() || why.is_closed() || reset.is_some()
}

fn fault(target: &Target, why: &hyper::Error, limits: &Limits) -> EgressError {
    if why.is_parse_too_large() {
        EgressError::HeadTooLarge { host: target.host_text().to_owned(), limit: limits.reply_head }
    } else if why.is_parse() {
        EgressError::protocol(target, why)
    } else {
        let source = std::error::Error::source(why).map(|source| format!("{why}: {source}"));
        EgressError::broken(target, source.unwrap_or_else(|| why.to_string()))
    }
}

/// A request's body, handed over in pieces that are counted.
pub(super) struct Sending {
    rest: Bytes,
    taken: Option<Arc<AtomicUsize>>,
}

impl Sending {
    fn new(rest: Bytes, clock: &Clock<'_>) -> Self {
        let taken = (rest.len() > PIECE).then(|| clock.pieces());
        Self { rest, taken }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(len);
        if let Some(taken) = &self.taken {
            taken.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

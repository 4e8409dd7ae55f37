//! HTTP/2 over a connection that the request owns and drives itself, one request at a time.
//!
//! Many at once would be possible, and would let one agent's request stall, reset or measure another's. A connection
//! each costs a handshake once, and then they are kept like those of HTTP/1.1.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use hyper::body::Bytes;
use lazaret_gate::Target;
use tokio_rustls::client::TlsStream;

use super::ask::{Outgoing, Version};
use super::clock::{Clock, Phase};
use super::link::{Attempt, Coming, drive};
use super::socket::Socket;
use super::{EgressError, Limits};
use crate::limits::PIECE;

/// What the server may send before it is asked for more: the largest body in a few round trips, and no more kept in
/// memory.
const WINDOW: u32 = 1 << 20;

pub(super) struct Link {
    send: SendRequest<Bytes>,
    connection: Connection<TlsStream<Socket>, Bytes>,
    /// It has ended and must not be asked again.
    over: bool,
    /// The last request and its answer were done to the end.
    whole: bool,
}

impl Link {
    pub(super) async fn over(stream: TlsStream<Socket>, target: &Target, limits: &Limits) -> Result<Self, EgressError> {
        let mut builder = Builder::new();
        builder.enable_push(false).initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        builder.max_header_list_size(u32::try_from(limits.reply_head).unwrap_or(u32::MAX).saturating_mul(2));
        let made = builder.handshake(stream).await;
        let (send, connection) = made.map_err(|why| EgressError::broken(target, words(&why)))?;
        Ok(Self { send, connection, over: false, whole: true })
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
        self.whole = false;
        let request = match outgoing.h2() {
            Ok(request) => request,
            Err(why) => return EgressError::from(why).into(),
        };
        let Self { send, connection, over, whole } = self;
        let ready = drive(connection, over, poll_fn(|cx| send.poll_ready(cx))).await;
        if !matches!(ready, Some(Ok(()))) || *over {
            return Attempt::Stale;
        }
        let Ok((response, stream)) = send.send_request(request, outgoing.body.is_empty()) else {
            return Attempt::Stale;
        };
        let mut upload = Upload { stream, rest: outgoing.body.clone(), clock };
        let response = match drive(connection, over, answer(&mut upload, response)).await {
            Some(Ok(response)) => response,
            Some(Err(why)) => {
                // Refused: the server says that it did nothing with it. Closed: it may have, so only what reads is
                // asked again.
                let refused = why.is_remote() && why.reason() == Some(Reason::REFUSED_STREAM);
                let closed = outgoing.is_safe() && (why.is_io() || why.is_go_away());
                if reused && (refused || closed) {
                    return Attempt::Stale;
                }
                return fault(&outgoing.target, &why, limits).into();
            }
            None if reused && outgoing.is_safe() => return Attempt::Stale,
            None => return EgressError::broken(&outgoing.target, "it was closed").into(),
        };
        let sent = upload.rest.is_empty();
        let (head, mut body) = response.into_parts();
        clock.enter(Phase::Body);
        let fields = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
        let head = (head.status, Version::Http2, fields.collect());
        let coming = match Coming::head(head, outgoing, limits, address) {
            Ok(coming) => coming,
            Err(why) => return why.into(),
        };
        let done = match read(connection, over, coming, &mut body, limits, clock).await {
            Ok(coming) => coming.end(),
            Err(why) => Err(why),
        };
        *whole = sent && done.is_ok();
        Attempt::Done(done)
    }

    pub(super) fn reusable(&mut self) -> bool {
        if !self.whole || self.over {
            return false;
        }
        let mut context = Context::from_waker(std::task::Waker::noop());
        self.over = Pin::new(&mut self.connection).poll(&mut context).is_ready();
        !self.over
    }
}

async fn read<'a>(
    connection: &mut Connection<TlsStream<Socket>, Bytes>,
    over: &mut bool,
    mut coming: Coming<'a>,
    body: &mut RecvStream,
    limits: &Limits,
    clock: &Clock<'_>,
) -> Result<Coming<'a>, EgressError> {
    // What only tells about a body, as the answer to HEAD does, says how long that is as well.
    if !body.is_end_stream() {
        coming.expect(coming.said())?;
    }
    loop {
        match drive(connection, over, poll_fn(|cx| body.poll_data(cx))).await {
            Some(Some(Ok(bytes))) => {
                clock.enter(Phase::Body);
                coming.piece(&bytes)?;
                let released = body.flow_control().release_capacity(bytes.len());
                released.map_err(|why| fault(coming.target(), &why, limits))?;
            }
            Some(Some(Err(why))) => return Err(fault(coming.target(), &why, limits)),
            Some(None) => return Ok(coming),
            None => return Err(EgressError::broken(coming.target(), "it was closed")),
        }
    }
}

/// A request's body on its way.
struct Upload<'a> {
    stream: SendStream<Bytes>,
    rest: Bytes,
    clock: &'a Clock<'a>,
}

impl Upload<'_> {
    /// Sends what the server has room for; ready when all is sent.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        while !self.rest.is_empty() {
            self.stream.reserve_capacity(self.rest.len().min(PIECE));
            let room = match self.stream.poll_capacity(cx) {
                Poll::Ready(Some(room)) => room?,
                // The server wants no more of it.
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            };
            let piece = self.rest.split_to(room.min(self.rest.len()));
            // Each piece gives the rest its time anew.
            self.clock.enter(Phase::Head);
            self.stream.send_data(piece, self.rest.is_empty())?;
        }
        Poll::Ready(Ok(()))
    }
}

/// The response, which may come before all of the request was sent.
async fn answer(
    upload: &mut Upload<'_>,
    mut response: ResponseFuture,
) -> Result<hyper::Response<RecvStream>, h2::Error> {
    poll_fn(move |cx| {
        let sending = upload.poll(cx);
        match (Pin::new(&mut response).poll(cx), sending) {
            (Poll::Ready(response), _) => Poll::Ready(response),
            (Poll::Pending, Poll::Ready(Err(why))) => Poll::Ready(Err(why)),
            (Poll::Pending, _) => Poll::Pending,
        }
    })
    .await
}

fn fault(target: &Target, why: &h2::Error, limits: &Limits) -> EgressError {
    // How h2 ends it with a server whose head is far too large; one that is just beyond what h2 was told is broken to
    // it.
    if why.is_library() && why.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
        EgressError::HeadTooLarge { host: target.host_text().to_owned(), limit: limits.reply_head }
    } else if why.is_library() {
        EgressError::protocol(target, words(why))
    } else {
        EgressError::broken(target, words(why))
    }
}

/// What went wrong, without what the server wrote about it: a server that says goodbye may add any text, and agents are told
/// of failures as of things that nobody outside has worded.
fn words(why: &h2::Error) -> String {
    match (why.reason(), why.is_remote()) {
        (Some(reason), true) => format!("the server ended it: {reason}"),
        (Some(reason), false) => reason.to_string(),
        // The system's or the library's own, then.
        (None, _) => why.to_string(),
    }
}

//! Connections: how many, how slow, and how they end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tracing::{debug, warn};

use super::limits::{CONNECTIONS, HEAD, HEAD_BYTES, HEADERS, STALL};

/// Said to whoever finds all places taken. Nothing is read from them.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\
retry-after: 1\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\ncontent-length: 101\r\n\r\n\
{\"code\":\"too-many\",\"message\":\"too many connections\",\"hint\":\"try again when some have ended\",\"exit\":7}";

/// Open connections, for whoever counts them.
pub(crate) static OPEN: AtomicI64 = AtomicI64::new(0);

struct Counted;

impl Counted {
    fn new() -> Self {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes connections until told to stop, and returns when the last has ended.
pub(crate) async fn serve(listener: TcpListener, app: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = told(&mut stop) => break,
        };
        match taken {
            Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => {
                    let (app, stop) = (app.clone(), stop.clone());
                    tokio::spawn(async move {
                        let _counted = (Counted::new(), place);
                        connection(stream, app, stop).await;
                    });
                }
                Err(_) => drop(stream.try_write(FULL)),
            },
            Err(why) => {
                warn!(%why, "a connection to the HTTP interface can't be taken");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let _ = places.acquire_many(u32::try_from(CONNECTIONS).unwrap_or(u32::MAX)).await;
}

/// Returns when it is time to end.
pub(super) async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(stream: TcpStream, app: Router, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Patient { stream, stalled: None });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES)
        .half_close(false)
        .serve_connection(io, TowerToHyperService::new(app));
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = told(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(why) = ended {
        debug!(%why, "a connection to the HTTP interface broke off");
    }
}

/// A stream whose other side may be slow, but not for ever.
struct Patient {
    stream: TcpStream,
    /// Runs from when nothing could be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    /// What was tried was possible, or its time runs.
    fn tried<T>(&mut self, cx: &mut Context<'_>, tried: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.stalled = None;
            return tried;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + STALL)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.tried(cx, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.tried(cx, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::FULL;

    #[test]
    fn the_answer_to_one_too_many_is_whole() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}

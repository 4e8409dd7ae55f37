//! Streams and waiting. Everything that can be read is already here and everything that can be written is taken at
//! once, so streams are always ready; only timers and unfinished requests have to be waited for.

use lazaret_gate::limits::MAX_VALUE;
use wasmtime::component::{ComponentType, Lower, Resource};

use super::http::{FutureResponse, OutgoingBody};
use super::table::{Kept, Key};
use super::{Asking, Host, Interface, Kind, clocks, stdio};
use crate::limits::{MAX_HANDLES, MAX_TRANSFER};

/// Why a stream operation failed, behind a handle.
pub(super) enum IoError {
    /// A request's body grew over [`MAX_VALUE`].
    BodyTooLarge,
}

/// Something to read from.
pub(super) enum InputStream {
    Stdin,
    /// A response's body.
    Bytes {
        bytes: Vec<u8>,
        at: usize,
    },
}

/// Something to write to.
pub(super) enum OutputStream {
    Stdout,
    Stderr,
    /// A request's body, as long as it isn't finished.
    Body(Key<OutgoingBody>),
}

/// Something to wait for.
pub(super) enum Pollable {
    Ready,
    /// An instant of the monotonic clock.
    At(u64),
    Response(Key<FutureResponse>),
}

impl Kept for IoError {}
impl Kept for OutputStream {}
impl Kept for Pollable {}

impl Kept for InputStream {
    fn weight(&self) -> usize {
        match self {
            Self::Stdin => 0,
            Self::Bytes { bytes, .. } => bytes.len(),
        }
    }
}

#[derive(ComponentType, Lower)]
#[component(variant)]
pub(super) enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

type Streamed<T> = Result<T, StreamError>;

pub(super) fn error(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource::<IoError>("error")?;
    interface.local("[method]error.to-debug-string", |host, (error,): (Resource<IoError>,)| {
        Ok((match host.table().get(&error)? {
            IoError::BodyTooLarge => format!("a request's body can have {MAX_VALUE} bytes and no more"),
        },))
    })
}

// ---- waiting ----

fn is_ready(host: &mut Host<'_>, pollable: &Resource<Pollable>) -> wasmtime::Result<bool> {
    let wasi = host.wasi();
    Ok(match wasi.table.get(pollable)? {
        Pollable::Ready => true,
        Pollable::At(instant) => wasi.clock.has_reached(*instant),
        Pollable::Response(key) => match wasi.table.find(*key) {
            Some(response) => !wasi.table.get(&response)?.is_waiting(),
            // Nobody can get it any more; there is nothing left to wait for.
            None => true,
        },
    })
}

fn all_ready(host: &mut Host<'_>, pollables: &[Resource<Pollable>]) -> wasmtime::Result<Vec<u32>> {
    let mut ready = Vec::new();
    for (index, pollable) in (0..).zip(pollables) {
        if is_ready(host, pollable)? {
            ready.push(index);
        }
    }
    Ok(ready)
}

/// Which are ready; if none is, sleeps until the nearest timer.
fn wait(host: &mut Asking<'_>, pollables: &[Resource<Pollable>]) -> wasmtime::Result<Vec<u32>> {
    host.charge(4 * pollables.len())?;
    let ready = all_ready(host, pollables)?;
    if !ready.is_empty() {
        return Ok(ready);
    }
    let mut nearest = None;
    for pollable in pollables {
        if let Pollable::At(instant) = host.table().get(pollable)? {
            nearest = Some(nearest.map_or(*instant, |nearest: u64| nearest.min(*instant)));
        }
    }
    let Some(instant) = nearest else {
        let why = "the guest waits for the response to a request that it hasn't finished: it would wait for ever";
        return Err(wasmtime::Error::msg(why));
    };
    clocks::sleep_until(host, instant)?;
    all_ready(host, pollables)
}

pub(super) fn poll(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    const ASKS: Kind = Kind::MayAsk(&["clock.monotonic", "clock.sleep"]);
    interface.resource::<Pollable>("pollable")?;
    let looks = Kind::MayAsk(&["clock.monotonic"]);
    interface.asking("[method]pollable.ready", looks, |host, (pollable,): (Resource<Pollable>,)| {
        if let Pollable::At(instant) = *host.table().get(&pollable)?
            && !host.wasi().clock.has_reached(instant)
        {
            clocks::read(host)?;
        }
        Ok((is_ready(host, &pollable)?,))
    })?;
    interface.asking("[method]pollable.block", ASKS, |host, (pollable,): (Resource<Pollable>,)| {
        wait(host, &[pollable]).map(drop)
    })?;
    interface.asking("poll", ASKS, |host, (pollables,): (Vec<Resource<Pollable>>,)| {
        if pollables.is_empty() || pollables.len() > MAX_HANDLES {
            let count = pollables.len();
            return Err(wasmtime::Error::msg(format!("a poll of {count} pollables; it takes 1 to {MAX_HANDLES}")));
        }
        Ok((wait(host, &pollables)?,))
    })
}

// ---- reading ----

/// Up to `len` bytes; none if there are no more.
fn pull(host: &mut Host<'_>, stream: &Resource<InputStream>, len: u64) -> wasmtime::Result<Vec<u8>> {
    let most = usize::try_from(len).unwrap_or(usize::MAX).min(MAX_TRANSFER);
    let wasi = host.wasi();
    let read = wasi.table.change(stream, |stream| match stream {
        InputStream::Stdin => wasi.stdin.read(most).to_vec(),
        InputStream::Bytes { bytes, at } => {
            let start = *at;
            *at = start.saturating_add(most).min(bytes.len());
            bytes[start..*at].to_vec()
        }
    })?;
    host.charge(read.len())?;
    Ok(read)
}

fn read(host: &mut Host<'_>, (stream, len): (Resource<InputStream>, u64)) -> wasmtime::Result<(Streamed<Vec<u8>>,)> {
    let read = pull(host, &stream, len)?;
    Ok((if read.is_empty() && len > 0 { Err(StreamError::Closed) } else { Ok(read) },))
}

fn skip(host: &mut Host<'_>, params: (Resource<InputStream>, u64)) -> wasmtime::Result<(Streamed<u64>,)> {
    let (read,) = read(host, params)?;
    Ok((read.map(|read| read.len() as u64),))
}

fn define_input(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource::<InputStream>("input-stream")?;
    interface.local("[method]input-stream.read", read)?;
    interface.local("[method]input-stream.blocking-read", read)?;
    interface.local("[method]input-stream.skip", skip)?;
    interface.local("[method]input-stream.blocking-skip", skip)?;
    interface.local("[method]input-stream.subscribe", |host, (_,): (Resource<InputStream>,)| {
        Ok((host.table().push(Pollable::Ready)?,))
    })
}

// ---- writing ----

fn put(host: &mut Asking<'_>, stream: &Resource<OutputStream>, bytes: &[u8]) -> wasmtime::Result<Streamed<()>> {
    if bytes.len() > MAX_TRANSFER {
        let len = bytes.len();
        return Err(wasmtime::Error::msg(format!("a write of {len} bytes; `check-write` permits {MAX_TRANSFER}")));
    }
    host.charge(bytes.len())?;
    match *host.table().get(stream)? {
        OutputStream::Stdout => stdio::write_out(host, bytes).map(Ok),
        OutputStream::Stderr => stdio::write_err(host, bytes).map(Ok),
        OutputStream::Body(key) => put_body(host, key, bytes),
    }
}

fn put_body(host: &mut Host<'_>, key: Key<OutgoingBody>, bytes: &[u8]) -> wasmtime::Result<Streamed<()>> {
    let Some(body) = host.table().find(key) else {
        return Ok(Err(StreamError::Closed));
    };
    if host.table().change(&body, |body| body.write(bytes))? {
        return Ok(Ok(()));
    }
    Ok(Err(StreamError::LastOperationFailed(host.table().push(IoError::BodyTooLarge)?)))
}

fn check(host: &mut Host<'_>, (stream,): (Resource<OutputStream>,)) -> wasmtime::Result<(Streamed<u64>,)> {
    let table = host.table();
    let is_closed = matches!(table.get(&stream)?, OutputStream::Body(key) if table.find(*key).is_none());
    Ok((if is_closed { Err(StreamError::Closed) } else { Ok(MAX_TRANSFER as u64) },))
}

fn flush(host: &mut Host<'_>, stream: (Resource<OutputStream>,)) -> wasmtime::Result<(Streamed<()>,)> {
    let (checked,) = check(host, stream)?;
    Ok((checked.map(drop),))
}

fn write(
    host: &mut Asking<'_>,
    (stream, bytes): (Resource<OutputStream>, Vec<u8>),
) -> wasmtime::Result<(Streamed<()>,)> {
    Ok((put(host, &stream, &bytes)?,))
}

fn write_zeroes(
    host: &mut Asking<'_>,
    (stream, len): (Resource<OutputStream>, u64),
) -> wasmtime::Result<(Streamed<()>,)> {
    // One more than is permitted is refused like any more than that.
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(MAX_TRANSFER + 1);
    Ok((put(host, &stream, &vec![0; len])?,))
}

fn splice(
    host: &mut Asking<'_>,
    (stream, source, len): (Resource<OutputStream>, Resource<InputStream>, u64),
) -> wasmtime::Result<(Streamed<u64>,)> {
    let (open,) = check(host, (Resource::new_borrow(stream.rep()),))?;
    if let Err(closed) = open {
        return Ok((Err(closed),));
    }
    let bytes = match read(host, (source, len))?.0 {
        Ok(bytes) => bytes,
        Err(closed) => return Ok((Err(closed),)),
    };
    let put = put(host, &stream, &bytes)?;
    Ok((put.map(|()| bytes.len() as u64),))
}

fn define_output(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    const LOGS: Kind = Kind::MayAsk(&["log.write"]);
    interface.resource::<OutputStream>("output-stream")?;
    interface.local("[method]output-stream.check-write", check)?;
    interface.asking("[method]output-stream.write", LOGS, write)?;
    interface.asking("[method]output-stream.blocking-write-and-flush", LOGS, write)?;
    interface.local("[method]output-stream.flush", flush)?;
    interface.local("[method]output-stream.blocking-flush", flush)?;
    interface.local("[method]output-stream.subscribe", |host, (_,): (Resource<OutputStream>,)| {
        Ok((host.table().push(Pollable::Ready)?,))
    })?;
    interface.asking("[method]output-stream.write-zeroes", LOGS, write_zeroes)?;
    interface.asking("[method]output-stream.blocking-write-zeroes-and-flush", LOGS, write_zeroes)?;
    interface.asking("[method]output-stream.splice", LOGS, splice)?;
    interface.asking("[method]output-stream.blocking-splice", LOGS, splice)
}

pub(super) fn streams(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    define_input(interface)?;
    define_output(interface)
}

//! Heads: that of a request as it is written, that of a response as it is read.

use std::mem::MaybeUninit;

use hyper::{Method, StatusCode};
use zeroize::Zeroizing;

use super::super::ask::Outgoing;
use super::super::link::Headers;
use super::super::{EgressError, Limits};
use super::body::Rest;

/// Headers that there is room for at least: somewhat more than are taken, so that what is a little too much is told apart
/// from what can't be read at all.
const ROOM: usize = 128;

/// The bytes of a request's head, and then these.
pub(super) fn written(outgoing: &Outgoing, body: &[u8]) -> Zeroizing<Vec<u8>> {
    let lines = |(name, value): (&[u8], &[u8])| name.len() + value.len() + ": \r\n".len();
    let room = outgoing.fields().map(lines).sum::<usize>() + outgoing.path().len() + body.len() + 128;
    // With room for all of it from the start: what a vector outgrows is not wiped.
    let mut head = Zeroizing::new(Vec::with_capacity(room));
    for part in [outgoing.method.as_str(), " ", outgoing.path(), " HTTP/1.1\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    for (name, value) in outgoing.fields() {
        for part in [name, b": ", value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    if let Some(length) = outgoing.length() {
        head.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(body);
    head
}

/// The head of a response.
pub(super) struct Head {
    /// Its bytes.
    pub(super) len: usize,
    pub(super) status: StatusCode,
    pub(super) headers: Headers,
    /// What follows it.
    pub(super) rest: Rest,
    /// Whether the server keeps the connection open for more.
    pub(super) stays: bool,
}

impl Head {
    /// Whether it only says that the answer is still to come.
    pub(super) fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// Reads a head if it is there whole. `looked` bytes were there at the last try.
pub(super) fn read(
    bytes: &[u8],
    looked: usize,
    outgoing: &Outgoing,
    limits: &Limits,
) -> Result<Option<Head>, EgressError> {
    // What comes byte by byte is not read from its beginning for each of them.
    let read = if looked > 0 && !ends_since(bytes, looked) {
        None
    } else if limits.reply_headers < ROOM {
        parse(bytes, &mut [const { MaybeUninit::uninit() }; ROOM], outgoing, limits)?
    } else {
        let mut room = vec![MaybeUninit::uninit(); limits.reply_headers.saturating_mul(2)];
        parse(bytes, &mut room, outgoing, limits)?
    };
    if read.is_none() && bytes.len() > limits.reply_head.saturating_mul(2) {
        return Err(EgressError::head(&outgoing.target, limits));
    }
    Ok(read)
}

/// Whether an empty line ends in what came since.
fn ends_since(bytes: &[u8], looked: usize) -> bool {
    let fresh = &bytes[looked.saturating_sub("\r\n\r".len())..];
    memchr::memchr_iter(b'\n', fresh).any(|at| matches!(&fresh[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

fn parse<'b>(
    bytes: &'b [u8],
    room: &mut [MaybeUninit<httparse::Header<'b>>],
    outgoing: &Outgoing,
    limits: &Limits,
) -> Result<Option<Head>, EgressError> {
    let target = &outgoing.target;
    let mut none = [];
    let mut response = httparse::Response::new(&mut none);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, room);
    let len = match parsed {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(EgressError::head(target, limits)),
        Err(why) => return Err(EgressError::protocol(target, why)),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or_else(|| EgressError::protocol(target, "its status is none"))?;
    let headers: Headers =
        response.headers.iter().map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec())).collect();
    let newer = response.version == Some(1);
    let empty = outgoing.method == Method::HEAD
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let framed = if empty { Ok((Rest::Length(0), true)) } else { framing(&headers, newer, limits) };
    let (rest, clear) = framed.map_err(|why| EgressError::protocol(target, why))?;
    let stays = newer && clear && !matches!(rest, Rest::All) && !says_close(&headers);
    Ok(Some(Head { len, status, headers, rest, stays }))
}

/// How a body ends, and whether only one thing is said about that.
fn framing(headers: &Headers, newer: bool, limits: &Limits) -> Result<(Rest, bool), &'static str> {
    let length = length(headers)?;
    let mut codings = values(headers, "transfer-encoding");
    match (codings.next(), length) {
        (None, Some(length)) => Ok((Rest::Length(length), true)),
        (None, None) => Ok((Rest::All, true)),
        (Some(_), _) if !newer => Err("HTTP/1.0 has no chunks"),
        (Some(coding), length) => {
            // Nothing else was asked for, and what else there is can't be searched.
            if !coding.eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
                return Err("its transfer coding is not `chunked` alone");
            }
            Ok((Rest::chunks(limits), length.is_none()))
        }
    }
}

/// The one length that is said, if any.
fn length(headers: &Headers) -> Result<Option<u64>, &'static str> {
    let mut found = None;
    for text in values(headers, "content-length") {
        let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(text).ok().filter(|_| digits);
        let length = text.and_then(|text| text.parse().ok()).ok_or("its length is no number")?;
        if found.replace(length).is_some_and(|before| before != length) {
            return Err("it has two lengths");
        }
    }
    Ok(found)
}

fn says_close(headers: &Headers) -> bool {
    values(headers, "connection").any(|value| value.eq_ignore_ascii_case(b"close"))
}

/// What the headers of this name list.
fn values<'h>(headers: &'h Headers, name: &'static str) -> impl Iterator<Item = &'h [u8]> {
    let named = headers.iter().filter(move |(named, _)| named == name);
    named.flat_map(|(_, value)| value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii))
}

//! What is asked, what comes back, and which requests aren't sent at all.

use std::net::SocketAddr;

use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme as UriScheme};
use hyper::{Method, Uri};
use lazaret_gate::Target;

use super::Limits;

/// One request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// In capital letters, as methods are.
    pub method: String,
    /// Where to, and what for.
    pub url: Target,
    /// Nothing is added to these but `Host` and `Content-Length`.
    pub headers: Vec<(String, Vec<u8>)>,
    /// What is sent along.
    pub body: Vec<u8>,
    /// How many bytes the response's body may have, unpacked; none if only this host's own limit holds.
    pub most: Option<usize>,
}

/// One response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// As sent; a redirect is an answer like any other.
    pub status: u16,
    /// How it came.
    pub version: Version,
    /// As sent, names in lower case. If the body was unpacked, without the headers that said so.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body, unpacked unless the request spoke of packings itself or this one is unknown.
    pub body: Vec<u8>,
    /// Who answered.
    pub address: SocketAddr,
}

/// Which HTTP was spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1 or 1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

/// A request that isn't sent. Header values are never part of the text: they may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAsk {
    /// Not a method, or one that opens a tunnel or echoes.
    #[error("`{0}` is not a method that is sent: use one in capital letters, but not CONNECT or TRACE")]
    Method(String),
    /// Not a header's name.
    #[error("`{0}` is not a header's name: use letters, digits and `-`")]
    HeaderName(String),
    /// A value with a line break or another control character.
    #[error("the value of `{0}` has a line break, a control character, or a space at its start or end: leave it out")]
    HeaderValue(String),
    /// A header about the connection, which isn't the guest's.
    #[error("the header `{0}` is set by the host: leave it out")]
    Connection(String),
    /// Too many headers.
    #[error("the request has {count} headers; the most is {limit}")]
    TooManyHeaders {
        /// How many there are.
        count: usize,
        /// How many are sent.
        limit: usize,
    },
    /// Headers that are too large.
    #[error("the request's headers have {bytes} bytes; the most is {limit}")]
    HeadTooLarge {
        /// How large they are.
        bytes: usize,
        /// How much is sent.
        limit: usize,
    },
    /// A body that is too large.
    #[error("the request's body has {bytes} bytes; the most is {limit}")]
    BodyTooLarge {
        /// How large it is.
        bytes: usize,
        /// How much is sent.
        limit: usize,
    },
    /// A path that HTTP can't carry.
    #[error("the path can't be sent: {0}")]
    Path(String),
}

/// Who says where a message ends, who it is for and what becomes of the connection: with two voices on that, two
/// servers in a row read different requests.
const CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The longest method that is sent; the longest registered one has 17 letters.
const MAX_METHOD: usize = 24;

/// A request that was checked, ready for either protocol.
pub(super) struct Outgoing {
    pub(super) target: Target,
    pub(super) method: Method,
    /// All but `Host` and `Content-Length`, in the order in which they were written.
    headers: Vec<(HeaderName, HeaderValue)>,
    path: PathAndQuery,
    pub(super) body: Bytes,
    /// Whether the body that comes back is unpacked.
    pub(super) unpack: bool,
    /// How large that may be.
    pub(super) most: Option<usize>,
}

impl Outgoing {
    pub(super) fn new(ask: Ask, limits: &Limits) -> Result<Self, BadAsk> {
        let method = method(&ask.method)?;
        let headers = headers(ask.headers, limits)?;
        if ask.body.len() > limits.ask_body {
            return Err(BadAsk::BodyTooLarge { bytes: ask.body.len(), limit: limits.ask_body });
        }
        let path = PathAndQuery::try_from(ask.url.path_and_query()).map_err(|why| BadAsk::Path(why.to_string()))?;
        let unpack = !headers.iter().any(|(name, _)| *name == hyper::header::ACCEPT_ENCODING);
        Ok(Self { target: ask.url, method, headers, path, body: ask.body.into(), unpack, most: ask.most })
    }

    /// What is asked for, as HTTP/1.1 has it.
    pub(super) fn path(&self) -> &str {
        self.path.as_str()
    }

    /// All headers as HTTP/1.1 has them, `Host` first, but for `Content-Length`.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let host = ("host".as_bytes(), self.target.authority().as_bytes());
        let others = self.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        [host].into_iter().chain(others)
    }

    /// What `Content-Length` says, if it is there: not for a request that has no body and isn't made to have one.
    pub(super) fn length(&self) -> Option<usize> {
        let has_one = !self.body.is_empty() || matches!(self.method, Method::POST | Method::PUT | Method::PATCH);
        has_one.then_some(self.body.len())
    }

    /// With the whole URL, from which `:authority` comes.
    pub(super) fn h2(&self) -> Result<hyper::Request<()>, BadAsk> {
        let authority = Authority::try_from(self.target.authority()).map_err(|why| BadAsk::Path(why.to_string()))?;
        let uri = Uri::builder().scheme(UriScheme::HTTPS).authority(authority).path_and_query(self.path.clone());
        let mut request = hyper::Request::new(());
        *request.method_mut() = self.method.clone();
        *request.version_mut() = hyper::Version::HTTP_2;
        *request.uri_mut() = uri.build().map_err(|why| BadAsk::Path(why.to_string()))?;
        let headers = request.headers_mut();
        for (name, value) in &self.headers {
            let (count, limit) = (self.headers.len(), self.headers.len());
            let added = headers.try_append(name.clone(), value.clone());
            added.map_err(|_| BadAsk::TooManyHeaders { count, limit })?;
        }
        if let Some(length) = self.length() {
            headers.insert(hyper::header::CONTENT_LENGTH, length.into());
        }
        Ok(request)
    }

    /// Whether sending it twice does no more than sending it once, and never anything but reading.
    pub(super) fn is_safe(&self) -> bool {
        self.method.is_safe() && self.body.is_empty()
    }
}

fn method(text: &str) -> Result<Method, BadAsk> {
    let capital = |b: u8| b.is_ascii_uppercase() || b == b'-' || b == b'_' || b.is_ascii_digit();
    let lawful = (1..=MAX_METHOD).contains(&text.len()) && text.bytes().all(capital);
    if !lawful || matches!(text, "CONNECT" | "TRACE") {
        return Err(BadAsk::Method(shown(text)));
    }
    Method::from_bytes(text.as_bytes()).map_err(|_| BadAsk::Method(shown(text)))
}

fn headers(written: Vec<(String, Vec<u8>)>, limits: &Limits) -> Result<Vec<(HeaderName, HeaderValue)>, BadAsk> {
    if written.len() > limits.ask_headers {
        return Err(BadAsk::TooManyHeaders { count: written.len(), limit: limits.ask_headers });
    }
    let bytes = written.iter().map(|(name, value)| name.len() + value.len() + ": \r\n".len()).sum();
    if bytes > limits.ask_head {
        return Err(BadAsk::HeadTooLarge { bytes, limit: limits.ask_head });
    }
    let mut headers = Vec::with_capacity(written.len());
    for (name, value) in written {
        let read = HeaderName::from_bytes(name.as_bytes()).map_err(|_| BadAsk::HeaderName(shown(&name)))?;
        if CONNECTION.contains(&read.as_str()) {
            return Err(BadAsk::Connection(shown(&name)));
        }
        let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        if blank(value.first()) || blank(value.last()) {
            return Err(BadAsk::HeaderValue(shown(&name)));
        }
        let value = HeaderValue::try_from(value).map_err(|_| BadAsk::HeaderValue(shown(&name)))?;
        headers.push((read, value));
    }
    Ok(headers)
}

/// A method or a header's name for a message: visible, and not longer than a line.
fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

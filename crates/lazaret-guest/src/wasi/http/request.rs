//! Requests and their bodies while the guest puts them together.

use lazaret_gate::Bytes;
use lazaret_gate::effect::Request;
use lazaret_gate::limits::{MAX_TEXT, MAX_VALUE};
use wasmtime::component::{ComponentType, Lift, Lower, Resource};

use super::super::io::OutputStream;
use super::super::table::{Kept, Key};
use super::super::{Asking, Host, Interface, Wasi};
use super::code::ErrorCode;
use super::fields::Fields;
use super::response::FutureResponse;
use super::{FETCHES, fetch};

#[derive(ComponentType, Lift, Lower, Clone, Debug, PartialEq, Eq)]
#[component(variant)]
enum Method {
    #[component(name = "get")]
    Get,
    #[component(name = "head")]
    Head,
    #[component(name = "post")]
    Post,
    #[component(name = "put")]
    Put,
    #[component(name = "delete")]
    Delete,
    #[component(name = "connect")]
    Connect,
    #[component(name = "options")]
    Options,
    #[component(name = "trace")]
    Trace,
    #[component(name = "patch")]
    Patch,
    #[component(name = "other")]
    Other(String),
}

#[derive(ComponentType, Lift, Lower, Clone, Debug, PartialEq, Eq)]
#[component(variant)]
enum Scheme {
    #[component(name = "HTTP")]
    Http,
    #[component(name = "HTTPS")]
    Https,
    #[component(name = "other")]
    Other(String),
}

impl Method {
    fn name(&self) -> &str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other(name) => name,
        }
    }
}

impl Scheme {
    fn name(&self) -> &str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Other(name) => name,
        }
    }
}

/// Everything of a request but its body.
pub(super) struct Head {
    method: Method,
    scheme: Option<Scheme>,
    authority: Option<String>,
    path: Option<String>,
    headers: Fields,
}

/// Where a request's body is.
pub(super) enum Gathering {
    /// Nobody asked for it: there is none.
    Untaken,
    /// The guest has it.
    Taken(Key<OutgoingBody>),
    /// It is finished.
    Whole(Vec<u8>),
    /// The guest dropped it unfinished.
    Lost,
}

pub(super) struct OutgoingRequest {
    pub(super) head: Head,
    pub(super) body: Gathering,
}

/// Who a body goes to when it is finished.
pub(super) enum Owner {
    Request(Key<OutgoingRequest>),
    Future(Key<FutureResponse>),
}

pub(in super::super) struct OutgoingBody {
    bytes: Vec<u8>,
    promised: Option<u64>,
    is_written: bool,
    pub(super) owner: Owner,
}

/// Timeouts. The host has its own; nothing that is set here would hold.
pub(super) struct RequestOptions;

impl Kept for OutgoingRequest {
    fn weight(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let body = if let Gathering::Whole(bytes) = &self.body { bytes.len() } else { 0 };
        self.head.headers.weight() + text(&self.head.authority) + text(&self.head.path) + body
    }
}

impl Kept for OutgoingBody {
    fn weight(&self) -> usize {
        self.bytes.len()
    }
}

impl Kept for RequestOptions {}

/// What a request whose body was dropped comes to.
pub(super) fn lost() -> ErrorCode {
    ErrorCode::InternalError(Some("the request's body was dropped before it was finished".into()))
}

impl OutgoingBody {
    /// Adds bytes, or nothing and says so if they are too many.
    pub(in super::super) fn write(&mut self, bytes: &[u8]) -> bool {
        let fits = self.bytes.len() + bytes.len() <= MAX_VALUE;
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }
}

impl Head {
    /// The request as an effect has it. The gate judges the very text that is put together here.
    pub(super) fn compose(self) -> Result<Request, ErrorCode> {
        let authority = self.authority.ok_or(ErrorCode::HttpRequestUriInvalid)?;
        let scheme = self.scheme.unwrap_or(Scheme::Https);
        let path = self.path.unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Request {
            method: self.method.name().to_owned(),
            url: format!("{}://{authority}{slash}{path}", scheme.name()),
            headers: self.headers.into_headers(),
            body: Bytes::default(),
        })
    }
}

// ---- what may be set: nothing that would let one part of a URL pass for another ----

fn is_text(text: &str, not: &[u8]) -> bool {
    text.len() <= MAX_TEXT && text.bytes().all(|b| b.is_ascii_graphic() && !not.contains(&b))
}

fn method_ok(method: &Method) -> bool {
    let name = method.name();
    (1..=16).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphabetic())
}

fn scheme_ok(scheme: &Option<Scheme>) -> bool {
    let Some(scheme) = scheme else { return true };
    (1..=16).contains(&scheme.name().len()) && scheme.name().bytes().all(|b| b.is_ascii_alphanumeric())
}

fn authority_ok(authority: &Option<String>) -> bool {
    authority.as_ref().is_none_or(|text| !text.is_empty() && is_text(text, b"/?#@\\"))
}

fn path_ok(path: &Option<String>) -> bool {
    path.as_ref().is_none_or(|text| text.is_empty() || (text.starts_with(['/', '?']) && is_text(text, b"#\\")))
}

type Of = Resource<OutgoingRequest>;

fn set<V>(
    host: &mut Host<'_>,
    request: &Of,
    value: V,
    is_ok: fn(&V) -> bool,
    place: fn(&mut Head) -> &mut V,
) -> wasmtime::Result<(Result<(), ()>,)> {
    if !is_ok(&value) {
        return Ok((Err(()),));
    }
    host.table().change(request, |request| *place(&mut request.head) = value)?;
    Ok((Ok(()),))
}

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource::<OutgoingRequest>("outgoing-request")?;
    interface.local("[constructor]outgoing-request", |host, (headers,): (Resource<Fields>,)| {
        let headers = host.table().take(headers)?;
        let head = Head { method: Method::Get, scheme: None, authority: None, path: None, headers };
        Ok((host.table().push(OutgoingRequest { head, body: Gathering::Untaken })?,))
    })?;
    interface.local("[method]outgoing-request.headers", |host, (request,): (Of,)| {
        let copy = host.table().get(&request)?.head.headers.fixed();
        host.charge(copy.weight())?;
        Ok((host.table().push(copy)?,))
    })?;
    interface.local("[method]outgoing-request.body", take_body)?;
    define_parts(interface)?;
    define_body(interface)?;
    define_options(interface)
}

fn define_parts(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("[method]outgoing-request.method", |host, (request,): (Of,)| {
        Ok((host.table().get(&request)?.head.method.clone(),))
    })?;
    interface.local("[method]outgoing-request.set-method", |host, (request, method): (Of, Method)| {
        set(host, &request, method, method_ok, |head| &mut head.method)
    })?;
    interface.local("[method]outgoing-request.path-with-query", |host, (request,): (Of,)| {
        let path = host.table().get(&request)?.head.path.clone();
        host.charge(path.as_ref().map_or(0, String::len))?;
        Ok((path,))
    })?;
    interface.local(
        "[method]outgoing-request.set-path-with-query",
        |host, (request, path): (Of, Option<String>)| {
            host.charge(path.as_ref().map_or(0, String::len))?;
            set(host, &request, path, path_ok, |head| &mut head.path)
        },
    )?;
    interface.local("[method]outgoing-request.scheme", |host, (request,): (Of,)| {
        Ok((host.table().get(&request)?.head.scheme.clone(),))
    })?;
    interface.local("[method]outgoing-request.set-scheme", |host, (request, scheme): (Of, Option<Scheme>)| {
        set(host, &request, scheme, scheme_ok, |head| &mut head.scheme)
    })?;
    interface.local("[method]outgoing-request.authority", |host, (request,): (Of,)| {
        let authority = host.table().get(&request)?.head.authority.clone();
        host.charge(authority.as_ref().map_or(0, String::len))?;
        Ok((authority,))
    })?;
    interface.local("[method]outgoing-request.set-authority", |host, (request, authority): (Of, Option<String>)| {
        host.charge(authority.as_ref().map_or(0, String::len))?;
        set(host, &request, authority, authority_ok, |head| &mut head.authority)
    })
}

/// The body can be had once.
fn take_body(host: &mut Host<'_>, (request,): (Of,)) -> wasmtime::Result<(Result<Resource<OutgoingBody>, ()>,)> {
    let table = host.table();
    let owner = Owner::Request(table.key(&request)?);
    let OutgoingRequest { head, body: Gathering::Untaken } = table.get(&request)? else {
        return Ok((Err(()),));
    };
    let promised = head.headers.length();
    let body = table.push(OutgoingBody { bytes: Vec::new(), promised, is_written: false, owner })?;
    let key = table.key(&body)?;
    table.change(&request, |request| request.body = Gathering::Taken(key))?;
    Ok((Ok(body),))
}

fn define_body(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource_with::<OutgoingBody>("outgoing-body", lose)?;
    interface.local("[method]outgoing-body.write", |host, (body,): (Resource<OutgoingBody>,)| {
        let table = host.table();
        let key = table.key(&body)?;
        if table.change(&body, |body| std::mem::replace(&mut body.is_written, true))? {
            return Ok((Err(()),));
        }
        Ok((Ok(table.push(OutputStream::Body(key))?),))
    })?;
    interface.asking("[static]outgoing-body.finish", FETCHES, finish)
}

/// A body that is dropped unfinished takes its request with it.
fn lose(wasi: &mut Wasi, body: OutgoingBody) {
    let table = &mut wasi.table;
    // An owner that is gone has nothing to lose.
    let _ = match body.owner {
        Owner::Request(key) => {
            table.find(key).map(|request| table.change(&request, |request| request.body = Gathering::Lost))
        }
        Owner::Future(key) => {
            table.find(key).map(|future| table.change(&future, |future| *future = FutureResponse::ready(Err(lost()))))
        }
    };
}

type Finished = (Resource<OutgoingBody>, Option<Resource<Fields>>);

fn finish(host: &mut Asking<'_>, (body, trailers): Finished) -> wasmtime::Result<(Result<(), ErrorCode>,)> {
    let body = host.table().take(body)?;
    let trailers = trailers.map(|trailers| host.table().take(trailers)).transpose()?;
    if trailers.is_some_and(|trailers| !trailers.is_empty()) {
        lose(host.wasi(), body);
        return Ok((Err(ErrorCode::InternalError(Some("a request can't have trailers here".into()))),));
    }
    let len = body.bytes.len() as u64;
    if body.promised.is_some_and(|promised| promised != len) {
        lose(host.wasi(), body);
        return Ok((Err(ErrorCode::HttpRequestBodySize(Some(len))),));
    }
    match body.owner {
        Owner::Request(key) => {
            if let Some(request) = host.table().find(key) {
                host.table().change(&request, |request| request.body = Gathering::Whole(body.bytes))?;
            }
        }
        Owner::Future(key) => {
            // The guest may have dropped the future: then nobody wants the response, and nothing is sent.
            let future = host.table().find(key);
            let waiting =
                future.map(|future| host.table().change(&future, FutureResponse::take_request)).transpose()?;
            if let Some(request) = waiting.flatten() {
                let response = fetch(host, Request { body: body.bytes.into(), ..request })?;
                if let Some(future) = host.table().find(key) {
                    host.table().change(&future, |future| *future = FutureResponse::ready(response))?;
                }
            }
        }
    }
    Ok((Ok(()),))
}

fn define_options(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    type Options = Resource<RequestOptions>;
    fn get(_: &mut Host<'_>, (_,): (Options,)) -> wasmtime::Result<(Option<u64>,)> {
        Ok((None,))
    }
    fn set(_: &mut Host<'_>, (_, duration): (Options, Option<u64>)) -> wasmtime::Result<(Result<(), ()>,)> {
        Ok((if duration.is_none() { Ok(()) } else { Err(()) },))
    }
    interface.resource::<RequestOptions>("request-options")?;
    interface.local("[constructor]request-options", |host, (): ()| Ok((host.table().push(RequestOptions)?,)))?;
    interface.local("[method]request-options.connect-timeout", get)?;
    interface.local("[method]request-options.set-connect-timeout", set)?;
    interface.local("[method]request-options.first-byte-timeout", get)?;
    interface.local("[method]request-options.set-first-byte-timeout", set)?;
    interface.local("[method]request-options.between-bytes-timeout", get)?;
    interface.local("[method]request-options.set-between-bytes-timeout", set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(authority: &str, path: Option<&str>) -> String {
        let head = Head {
            method: Method::Get,
            scheme: None,
            authority: Some(authority.into()),
            path: path.map(str::to_owned),
            headers: Fields::default(),
        };
        head.compose().map_or_else(|_| panic!("{authority} and {path:?} make no URL"), |request| request.url)
    }

    #[test]
    fn urls_are_put_together() {
        assert_eq!(url("example.com", None), "https://example.com/");
        assert_eq!(url("example.com:8080", Some("/a?b=c")), "https://example.com:8080/a?b=c");
        assert_eq!(url("example.com", Some("?b")), "https://example.com/?b");
    }

    #[test]
    fn one_part_of_a_url_never_passes_for_another() {
        for authority in ["", "good@evil", "good/evil", "good\\evil", "good#", "good evil", "gööd"] {
            assert!(!authority_ok(&Some(authority.into())), "{authority}");
        }
        for path in [".evil.com/", "@evil.com", "/a#b", "/a b", "/\r\n", "\\evil"] {
            assert!(!path_ok(&Some(path.into())), "{path}");
        }
        for method in ["", "GET /", "GET\r\n", "AVERYLONGMETHODNAME"] {
            assert!(!method_ok(&Method::Other(method.into())), "{method}");
        }
    }
}

//! A small HTTP client for durable agents, over `lazaret:host/http`.
//!
//! ```text
//! let found = Request::get("https://api.example.com/tasks").bearer_secret("tracker").send()?;
//! println!("{} {}", found.status, found.text()?);
//! ```
//!
//! A turn is one call, so the answer is there when `send` returns. A key is written by its slot and never seen: where it
//! belongs stands its handle, and the host puts the value in. What the gate refuses is [`Error::Refused`], whole. A redirect
//! is an answer like any other, unless [`Request::follow`] asks for more; then each step is a request of its own to the gate,
//! and credentials stay with the origin that they were written for.
//!
//! It is one file: put it beside your own as `lazaret_http.rs`, and say `mod lazaret_http;` after
//! `wit_bindgen::generate!({ path: "wit", world: "agent" })`, whose bindings it uses.

#![allow(dead_code, reason = "an agent uses what it needs")]

use std::fmt;

use crate::lazaret::host::http;
use crate::lazaret::host::types::Fault;

/// How every handle begins.
const HANDLE: &str = "lazaret-secret:";

/// Headers that say who asks, whatever they hold.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// A request to be made.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    follow: u32,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Response {
    /// Where it came from: after redirects that were followed, the last.
    pub url: String,
    /// Such as 200.
    pub status: u16,
    /// Names and values, as they came.
    pub headers: Vec<(String, String)>,
    /// May be empty.
    pub body: Vec<u8>,
}

/// The gate said no. The same text is in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Stable, for programs: `not-granted`, `secret-not-bound`, …
    pub code: String,
    /// The stage that decided.
    pub layer: String,
    /// What was asked, and what is allowed that comes nearest.
    pub reason: String,
    /// What change by an operator would let it pass.
    pub remedy: String,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The gate said no.
    Refused(Refusal),
    /// It was permitted and tried, and did not work.
    Failed(String),
    /// There were more redirects than were to be followed. The last one's target was not asked for.
    TooManyRedirects(String),
    /// A redirect leads to what is no URL.
    BadRedirect(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "refused: {}: {}", refusal.code, refusal.reason),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::TooManyRedirects(url) => write!(f, "too many redirects; the last one leads to {url}"),
            Self::BadRedirect(location) => write!(f, "a redirect to {location:?}, which is no URL"),
        }
    }
}

impl std::error::Error for Error {}

/// One GET.
pub fn get(url: impl Into<String>) -> Result<Response, Error> {
    Request::get(url).send()
}

impl Request {
    /// A request by any method.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self { method: method.into(), url: url.into(), headers: Vec::new(), body: Vec::new(), follow: 0 }
    }

    /// A GET.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// A POST.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// A PUT.
    pub fn put(url: impl Into<String>) -> Self {
        Self::new("PUT", url)
    }

    /// A DELETE.
    pub fn delete(url: impl Into<String>) -> Self {
        Self::new("DELETE", url)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Adds `authorization: Bearer`, with the secret of this slot behind it.
    #[must_use]
    pub fn bearer_secret(self, slot: &str) -> Self {
        self.header("authorization", format!("Bearer {HANDLE}{slot}"))
    }

    /// Adds a header that is the secret of this slot, in the form that an operator bound it in.
    #[must_use]
    pub fn secret(self, name: &str, slot: &str) -> Self {
        self.header(name, format!("{HANDLE}{slot}"))
    }

    /// What is sent.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Follows up to so many redirects. Credentials don't go to another origin.
    #[must_use]
    pub fn follow(mut self, most: u32) -> Self {
        self.follow = most;
        self
    }

    /// Asks, and returns what came back.
    pub fn send(self) -> Result<Response, Error> {
        let (mut request, mut followed) = (self, 0);
        loop {
            let response = request.ask()?;
            if request.follow == 0 || !is_redirect(response.status) {
                return Ok(response);
            }
            // A redirect without a target is the server's answer, whatever it means by it.
            let Some(location) = response.header("location") else { return Ok(response) };
            let target = resolve(&request.url, location);
            let target = target.ok_or_else(|| Error::BadRedirect(location.to_owned()))?;
            followed += 1;
            if followed > request.follow {
                return Err(Error::TooManyRedirects(target));
            }
            request = next(request, response.status, target);
        }
    }

    fn ask(&self) -> Result<Response, Error> {
        let header = |(name, value): &(String, String)| http::Header { name: name.clone(), value: value.clone() };
        let asked = http::Request {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: self.headers.iter().map(header).collect(),
            body: self.body.clone(),
        };
        match http::fetch(&asked) {
            Ok(answer) => Ok(Response {
                url: asked.url,
                status: answer.status,
                headers: answer.headers.into_iter().map(|header| (header.name, header.value)).collect(),
                body: answer.body,
            }),
            Err(Fault::Refused(no)) => {
                Err(Error::Refused(Refusal { code: no.code, layer: no.layer, reason: no.reason, remedy: no.remedy }))
            }
            Err(Fault::Failed(why)) => Err(Error::Failed(why)),
        }
    }
}

impl Response {
    /// Whether it is one of success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body, if it is UTF-8.
    pub fn text(&self) -> Result<&str, std::str::Utf8Error> {
        std::str::from_utf8(&self.body)
    }
}

// ---- redirects ----

/// Whether a status sends elsewhere.
fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The request that follows a redirect. What says who asks stays with the origin that it was written for; and where browsers
/// turn a request into a GET, so does this.
fn next(mut request: Request, status: u16, target: String) -> Request {
    if origin(&request.url) != origin(&target) {
        let stays = |(name, value): &(String, String)| !CREDENTIALS.contains(&name.as_str()) && !value.contains(HANDLE);
        request.headers.retain(stays);
    }
    let becomes_get = match status {
        303 => !matches!(request.method.as_str(), "GET" | "HEAD"),
        301 | 302 => request.method == "POST",
        _ => false,
    };
    if becomes_get {
        request.method = "GET".to_owned();
        request.body.clear();
        request.headers.retain(|(name, _)| !name.starts_with("content-"));
    }
    request.url = target;
    request
}

/// Scheme, host and port. What isn't a URL has none of its own, and is like nothing else.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let (scheme, authority) = (scheme.to_ascii_lowercase(), authority.to_ascii_lowercase());
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.strip_suffix(usual).unwrap_or(&authority);
    Some(format!("{scheme}://{authority}"))
}

/// The URL that a `location` means, seen from the one that answered. Whether it may be asked for is the gate's to say.
fn resolve(base: &str, location: &str) -> Option<String> {
    let location = location.trim();
    // The part behind `#` is for whoever shows the page.
    let location = location.split('#').next().unwrap_or(location);
    let (scheme, rest) = base.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('?').next().unwrap_or(path);
    let of_web = |text: &str| text.starts_with("https://") || text.starts_with("http://");
    let has_scheme = location.split(['/', '?']).next().is_some_and(|first| first.contains(':'));
    if location.is_empty() || location.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '\\') {
        None
    } else if has_scheme {
        of_web(location).then(|| location.to_owned())
    } else if location.starts_with("//") {
        Some(format!("{scheme}:{location}"))
    } else if location.starts_with('/') {
        Some(format!("{scheme}://{authority}{location}"))
    } else if location.starts_with('?') {
        Some(format!("{scheme}://{authority}{path}{location}"))
    } else {
        let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
        Some(format!("{scheme}://{authority}{folder}{location}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_seen_from_where_it_came() {
        let base = "https://a.example:8443/x/y?q=1";
        for (location, expected) in [
            ("https://b.example/z", Some("https://b.example/z")),
            ("//b.example/z", Some("https://b.example/z")),
            ("/z?p=1#top", Some("https://a.example:8443/z?p=1")),
            ("z", Some("https://a.example:8443/x/z")),
            ("z?at=https://b.example", Some("https://a.example:8443/x/z?at=https://b.example")),
            ("?q=2", Some("https://a.example:8443/x/y?q=2")),
            ("", None),
            ("#top", None),
            ("javascript:alert(1)", None),
            ("file:///etc/passwd", None),
            ("/a b", None),
            ("\\\\b.example", None),
        ] {
            assert_eq!(resolve(base, location).as_deref(), expected, "{location}");
        }
        assert_eq!(resolve("https://a.example", "z").as_deref(), Some("https://a.example/z"));
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let asked = || {
            let request = Request::post("https://a.example/x").bearer_secret("key").header("x-key", "lazaret-secret:k");
            request.header("Cookie", "a=b").header("accept", "text/plain").header("content-type", "x/y").body("hello")
        };
        let names = |request: &Request| request.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        for same in ["https://a.example/y", "https://A.example:443/y"] {
            let next = next(asked(), 307, same.to_owned());
            assert_eq!(names(&next), ["authorization", "x-key", "cookie", "accept", "content-type"], "{same}");
            assert_eq!((next.method.as_str(), next.body.as_slice(), next.url.as_str()), ("POST", &b"hello"[..], same));
        }
        for other in
            ["http://a.example/y", "https://a.example:8443/y", "https://b.example/", "https://a.example.b.example/"]
        {
            assert_eq!(names(&next(asked(), 308, other.to_owned())), ["accept", "content-type"], "{other}");
        }
    }

    #[test]
    fn some_redirects_make_it_a_get() {
        for (status, method, expected) in [
            (301, "POST", "GET"),
            (302, "POST", "GET"),
            (303, "PUT", "GET"),
            (303, "HEAD", "HEAD"),
            (307, "POST", "POST"),
            (308, "PUT", "PUT"),
            (301, "PUT", "PUT"),
        ] {
            let asked = Request::new(method, "https://a.example/").header("content-type", "x/y").body("hello");
            let next = next(asked, status, "https://a.example/b".to_owned());
            assert_eq!(next.method, expected, "{status} {method}");
            assert_eq!(next.body.is_empty(), expected == "GET", "{status} {method}");
        }
    }
}

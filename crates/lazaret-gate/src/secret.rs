//! Handles: what stands in a request where a secret's value belongs.
//!
//! A handle is the text `lazaret-secret:SLOT`. It is no secret and means nothing anywhere else: it may be in an agent's
//! memory, on a tape and in a log. Whoever executes the request puts the value in its place, or refuses.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem::Finder;

use crate::effect::{Effect, Header, Request};
use crate::limits::MAX_SLOT;

/// How every handle begins.
pub const HANDLE: &str = "lazaret-secret:";

/// Looks for it.
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(HANDLE));

/// The header that names who asks.
const AUTHORIZATION: &str = "authorization";

/// The name of a place that an operator fills with a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(String);

/// A text that can't name a slot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name for a slot: use 1 to {MAX_SLOT} lower-case letters, digits, `-`, `_` and `.`, starting with a letter"
)]
pub struct BadSlot(String);

impl Slot {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What an agent writes where the value belongs.
    pub fn handle(&self) -> String {
        format!("{HANDLE}{}", self.0)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn belongs(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
}

impl FromStr for Slot {
    type Err = BadSlot;

    fn from_str(text: &str) -> Result<Self, BadSlot> {
        const SHOWN: usize = 12;
        let lawful = text.len() <= MAX_SLOT && text.starts_with(|c: char| c.is_ascii_lowercase());
        if lawful && text.bytes().all(belongs) {
            return Ok(Self(text.to_owned()));
        }
        // Whoever wrote a value where a name belongs shouldn't find all of it in a log.
        let mut start: String = text.chars().take(SHOWN).collect();
        if start.len() < text.len() {
            start.push('…');
        }
        Err(BadSlot(start))
    }
}

/// The names behind all handles in a text, as they are written: not every one can name a slot.
pub fn handles(text: &str) -> impl Iterator<Item = &str> {
    FINDER.find_iter(text.as_bytes()).map(|at| {
        let rest = &text[at + HANDLE.len()..];
        let end = rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        &rest[..end]
    })
}

/// Whether a handle stands in these bytes.
pub fn has_handle(bytes: &[u8]) -> bool {
    FINDER.find(bytes).is_some()
}

/// Where a handle stands in a request, and may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the value of the header with this number, from 0.
    Header(usize),
    /// The same, but as the password that `Basic` authentication wraps in base64, as ordinary clients do.
    Basic(usize),
    /// In the value of the query's part with this number, from 0.
    Query(usize),
}

/// A handle in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Whose name it has, as it is written.
    pub slot: String,
    /// Where it stands.
    pub place: Place,
}

/// The handles in a request's header values and in the values of its query, in order.
pub fn mentions(request: &Request) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut find = |text: &str, place| {
        found.extend(handles(text).map(|slot| Mention { slot: slot.to_owned(), place }));
    };
    for (at, header) in request.headers.iter().enumerate() {
        find(&header.value, Place::Header(at));
        if let Some(wrapped) = basic(header) {
            find(&wrapped, Place::Basic(at));
        }
    }
    for (at, part) in query(&request.url).enumerate() {
        if let Some((_, value)) = part.split_once('=') {
            find(&unescaped(value), Place::Query(at));
        }
    }
    found
}

/// What has to be asked before a request that has handles in it: the use of each slot, once, there.
pub fn uses(request: &Request) -> Vec<Effect> {
    let mut slots: Vec<String> = Vec::new();
    for mention in mentions(request) {
        if !slots.contains(&mention.slot) {
            slots.push(mention.slot);
        }
    }
    let (method, url) = (&request.method, &request.url);
    let using = |slot| Effect::SecretUse { slot, method: method.clone(), url: url.clone() };
    slots.into_iter().map(using).collect()
}

/// The parts of a URL's query.
pub fn query(url: &str) -> impl Iterator<Item = &str> {
    url.split_once('?').map(|(_, query)| query).into_iter().flat_map(|query| query.split('&'))
}

/// What `Basic` authentication wraps: `USER:PASSWORD`.
fn basic(header: &Header) -> Option<String> {
    let wrapped = header.value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))?.1;
    let bytes = (header.name == AUTHORIZATION).then(|| STANDARD.decode(wrapped.trim()).ok()).flatten()?;
    String::from_utf8(bytes).ok()
}

/// A text without its percent-encoding; what isn't one stays.
pub fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let pair = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let pair = pair.filter(|pair| *first == b'%' && pair.bytes().all(|b| b.is_ascii_hexdigit()));
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    fn request(url: &str, headers: &[(&str, &str)]) -> Request {
        let header = |(name, value): &(&str, &str)| Header { name: (*name).to_owned(), value: (*value).to_owned() };
        let headers = headers.iter().map(header).collect();
        Request { method: "GET".into(), url: url.into(), headers, body: Bytes::default() }
    }

    #[test]
    fn a_slot_is_a_plain_name() {
        for good in ["a", "github", "x.y-z_9"] {
            assert_eq!(good.parse::<Slot>().unwrap().handle(), format!("lazaret-secret:{good}"));
        }
        for bad in ["", "9a", "A", "a/b", "a b", "ä", &"a".repeat(MAX_SLOT + 1)] {
            assert!(bad.parse::<Slot>().is_err(), "{bad}");
        }
        let shown = "Secret0123456789abcdefghij".parse::<Slot>().unwrap_err().to_string();
        assert!(shown.starts_with("`Secret012345…` is no name"), "{shown}");
    }

    #[test]
    fn handles_are_found_where_they_may_stand() {
        let wrapped = format!("Basic {}", STANDARD.encode("ada:lazaret-secret:mail"));
        let asked = request(
            "https://a.example/p?x=1&key=lazaret-secret%3Amaps&y=lazaret-secret:git",
            &[
                ("authorization", "Bearer lazaret-secret:git"),
                ("x-two", "lazaret-secret:a, lazaret-secret:b."),
                ("authorization", &wrapped),
                ("x-other", &wrapped),
            ],
        );
        let found: Vec<_> = mentions(&asked).into_iter().map(|found| (found.slot, found.place)).collect();
        let expected = [
            ("git", Place::Header(0)),
            ("a", Place::Header(1)),
            ("b.", Place::Header(1)),
            ("mail", Place::Basic(2)),
            ("maps", Place::Query(1)),
            ("git", Place::Query(2)),
        ];
        assert_eq!(found, expected.map(|(slot, place)| (slot.to_owned(), place)));
        let slots: Vec<_> = uses(&asked).iter().map(Effect::summary).collect();
        assert_eq!(slots.len(), 5);
        assert!(slots[0].starts_with("secret.use git for GET https://a.example/p?x=1"), "{slots:?}");
        assert!(uses(&request("https://a.example/lazaret-secret:git", &[])).is_empty());
    }

    #[test]
    fn escapes_are_undone_once() {
        assert_eq!(unescaped("a%3Ab%3ac%%3%zz%25%33"), "a:b:c%%3%zz%3");
        assert_eq!(unescaped("%c3%a4"), "ä");
    }
}

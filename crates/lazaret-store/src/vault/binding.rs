//! Where a secret may go: whose slot it fills, to which hosts, in which form.

use std::fmt;

use lazaret_gate::grant::{Origin, Scheme};
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_BOUND, MAX_BOUND_PATH, MAX_FORM_TEXT};

use super::name::{Holder, Name};

/// What an operator says about a slot. Whatever isn't said isn't allowed, but for methods and paths: none means any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Whose slot.
    pub holder: Holder,
    /// Which slot, as the app's manifest names it.
    pub slot: Name,
    /// What fills it.
    pub secret: Name,
    /// The only places it is sent to. At least one.
    pub hosts: Vec<Host>,
    /// How it stands in a request.
    pub form: Form,
    /// The only methods; none means any.
    pub methods: Vec<Method>,
    /// The only paths; none means any.
    pub paths: Vec<PathPrefix>,
}

/// Why a request isn't one that a secret is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another host, port or scheme.
    #[error("it is not bound to that host")]
    Host,
    /// Another method.
    #[error("it is not bound to that method")]
    Method,
    /// Another path.
    #[error("it is not bound to that path")]
    Path,
    /// A path that two servers could read differently, where paths matter.
    #[error(
        "the path has a dot segment or an encoded dot, slash or backslash, and the secret is bound to certain paths"
    )]
    UnclearPath,
}

/// A binding that can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBinding {
    /// Not a host.
    #[error(
        "`{text}` is not a host that a secret can be sent to: {why}; write `api.example.org` or `api.example.org:8443`"
    )]
    Host {
        /// As it was written.
        text: String,
        /// Why not.
        why: String,
    },
    /// In the clear, and not on this machine.
    #[error(
        "`{text}` is plain http, over which anybody on the way reads the secret; only a loopback address may be named so"
    )]
    Plain {
        /// As it was written.
        text: String,
    },
    /// None at all.
    #[error("a binding names at least one host; a secret that may go anywhere isn't one for long")]
    NoHost,
    /// Too many.
    #[error("a binding has at most {MAX_BOUND} {what}; make several")]
    Many {
        /// Of what.
        what: &'static str,
    },
    /// Twice.
    #[error("`{text}` is named twice")]
    Twice {
        /// What.
        text: String,
    },
    /// Not a method.
    #[error("`{text}` is not a method; write it as `GET` or `POST`")]
    Method {
        /// As it was written.
        text: String,
    },
    /// Not a path.
    #[error(
        "`{text}` is not the beginning of a path: it starts with `/`, has no dot segments, no `?` and no `#`, and is percent-encoded where it must be"
    )]
    Path {
        /// As it was written.
        text: String,
    },
    /// Not a header for that.
    #[error("`{text}` can't be the header that carries a secret: {why}")]
    Header {
        /// As it was written.
        text: String,
        /// Why not.
        why: &'static str,
    },
    /// Not a parameter.
    #[error("`{text}` can't be a query parameter: use letters, digits, `-`, `_`, `.` and `~`")]
    Query {
        /// As it was written.
        text: String,
    },
    /// Not a user.
    #[error("`{text}` can't be the user of basic authentication: printable ASCII without `:`")]
    User {
        /// As it was written.
        text: String,
    },
}

impl Binding {
    /// Whether a request to this place, by this method and path (without its query), may carry the secret.
    pub fn admits(&self, place: &Origin, method: &str, path: &str) -> Result<(), Mismatch> {
        if !self.hosts.iter().any(|host| host.0 == *place) {
            return Err(Mismatch::Host);
        }
        if !self.methods.is_empty() && !self.methods.iter().any(|lawful| lawful.0 == method) {
            return Err(Mismatch::Method);
        }
        if self.paths.is_empty() {
            return Ok(());
        }
        if !is_clear(path) {
            return Err(Mismatch::UnclearPath);
        }
        if self.paths.iter().any(|prefix| prefix.covers(path)) { Ok(()) } else { Err(Mismatch::Path) }
    }

    /// Whether every part that isn't a type of its own is as it must be.
    pub(super) fn check(&self) -> Result<(), BadBinding> {
        if self.hosts.is_empty() {
            return Err(BadBinding::NoHost);
        }
        sound("hosts", &self.hosts)?;
        sound("methods", &self.methods)?;
        sound("paths", &self.paths)?;
        self.form.check()
    }

    /// As people write it.
    pub(super) fn place(&self) -> String {
        format!("slot `{}` of {}", self.slot, self.holder)
    }
}

fn sound<T: PartialEq + fmt::Display>(what: &'static str, list: &[T]) -> Result<(), BadBinding> {
    if list.len() > MAX_BOUND {
        return Err(BadBinding::Many { what });
    }
    match list.iter().enumerate().find(|(at, one)| list[..*at].contains(one)) {
        Some((_, twice)) => Err(BadBinding::Twice { text: twice.to_string() }),
        None => Ok(()),
    }
}

/// One host and port over TLS, or a loopback address in the clear.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Host(Origin);

impl Host {
    /// Scheme, host and port.
    pub fn origin(&self) -> &Origin {
        &self.0
    }

    /// Whether the secret goes there in the clear.
    pub fn is_plain(&self) -> bool {
        self.0.scheme() == Scheme::Http
    }
}

impl std::str::FromStr for Host {
    type Err = BadBinding;

    fn from_str(text: &str) -> Result<Self, BadBinding> {
        let bad = |why: &str| BadBinding::Host { text: shown(text), why: why.to_owned() };
        let origin = Origin::of_grant(text).map_err(|why| bad(&why.to_string()))?;
        if !origin.is_sealed() {
            return Err(BadBinding::Plain { text: shown(text) });
        }
        Ok(Self(origin))
    }
}

/// What kind of text it must be, and how it is written again.
macro_rules! as_text {
    ($($type:ident),*) => {$(
        impl TryFrom<String> for $type {
            type Error = BadBinding;

            fn try_from(text: String) -> Result<Self, BadBinding> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )*};
}

as_text!(Host, Method, PathPrefix);

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.as_grant())
    }
}

/// A method of HTTP, in capitals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Method(String);

impl std::str::FromStr for Method {
    type Err = BadBinding;

    fn from_str(text: &str) -> Result<Self, BadBinding> {
        let lawful = (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
        if lawful { Ok(Self(text.to_owned())) } else { Err(BadBinding::Method { text: shown(text) }) }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The beginning of a path, in whole segments: `/v1` covers `/v1` and `/v1/x`, not `/v10`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathPrefix(String);

impl PathPrefix {
    fn covers(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.0.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.0.ends_with('/'))
    }
}

impl std::str::FromStr for PathPrefix {
    type Err = BadBinding;

    fn from_str(text: &str) -> Result<Self, BadBinding> {
        let plain = |b: u8| matches!(b, 0x21..=0x7e) && !matches!(b, b'?' | b'#' | b'\\' | b'"' | b'<' | b'>');
        let lawful = text.starts_with('/') && text.len() <= MAX_BOUND_PATH && text.bytes().all(plain) && is_clear(text);
        if lawful { Ok(Self(text.to_owned())) } else { Err(BadBinding::Path { text: shown(text) }) }
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether every server reads the same segments in it.
fn is_clear(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or(path).to_ascii_lowercase();
    let hidden = ["%2e", "%2f", "%5c", "%00", "\\"].iter().any(|code| path.contains(code));
    // `/x;y/../` and `/..;/` are dot segments to servers that take parameters off first.
    let dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    path.starts_with('/') && !hidden && !path.contains("//") && !path.split('/').any(dots)
}

/// How a secret stands in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Form {
    /// A header: `name: prefix` and the value.
    Header {
        /// In lower case.
        name: String,
        /// What stands before the value, such as `Bearer ` with its space.
        prefix: String,
    },
    /// A parameter of the query, percent-encoded.
    Query {
        /// Its name.
        name: String,
    },
    /// Basic authentication, with the value as the password.
    Basic {
        /// The user.
        user: String,
    },
}

/// Headers that say how a message is cut up or where it goes: a value there would be read by the wrong party.
const NOT_FOR_SECRETS: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "keep-alive",
    "location",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];

impl Form {
    fn check(&self) -> Result<(), BadBinding> {
        match self {
            Self::Header { name, prefix } => {
                let bad = |text: &str, why| Err(BadBinding::Header { text: shown(text), why });
                let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
                if name.is_empty() || name.len() > MAX_FORM_TEXT || !name.bytes().all(token) {
                    return bad(name, "its name is lower-case letters, digits, `-` and `_`");
                }
                if NOT_FOR_SECRETS.contains(&name.as_str()) {
                    return bad(name, "it says how the message travels, and others than the host read it");
                }
                let lawful = |b| matches!(b, 0x20..=0x7e);
                if prefix.len() > MAX_FORM_TEXT || !prefix.bytes().all(lawful) || prefix.starts_with(' ') {
                    return bad(prefix, "what stands before the value is printable ASCII and begins with a letter");
                }
                Ok(())
            }
            Self::Query { name } => {
                let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
                let lawful = (1..=MAX_FORM_TEXT).contains(&name.len()) && name.bytes().all(plain);
                if lawful { Ok(()) } else { Err(BadBinding::Query { text: shown(name) }) }
            }
            Self::Basic { user } => {
                let lawful = |b| matches!(b, 0x20..=0x7e) && b != b':';
                let lawful = user.len() <= MAX_FORM_TEXT && user.bytes().all(lawful);
                if lawful { Ok(()) } else { Err(BadBinding::User { text: shown(user) }) }
            }
        }
    }
}

/// What somebody wrote, in a length that fits a message.
fn shown(text: &str) -> String {
    const SHOWN: usize = 80;
    let mut start: String = text.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        start.push('…');
    }
    start
}

//! The one reader of URLs: what it makes is what is checked, looked up, dialled, named in the handshake and sent as
//! `Host`.
//!
//! A URL is read by the web's own rules (`url`), and then it must be what those rules would write. Nothing is repaired:
//! a text that two programs could read differently is refused, with what would have to be written instead.

mod label;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::grant::Scheme;
use crate::limits::{MAX_HOST, MAX_LABEL, MAX_URL};

/// Where a request goes and what it asks for there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The whole of it, in the only spelling that is accepted; the path is at least `/`.
    text: String,
    scheme: Scheme,
    host: Host,
    port: u16,
    /// Where the path begins in `text`.
    path: usize,
}

/// Who is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name that has to be looked up.
    Name(Name),
    /// An address that stands in the URL itself and is never looked up.
    Ip(IpAddr),
}

/// A host name: lower-case ASCII, each label checked, `xn--` labels also for what they decode to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// As it is looked up, without a dot at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A URL that isn't carried, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// Longer than any server takes.
    #[error("the URL has {0} bytes; the most is {MAX_URL}")]
    TooLong(usize),
    /// A zero byte, at which C programs stop reading.
    #[error("the URL has a zero byte: leave it out, or write `%00` in the path or query")]
    Nul,
    /// CR or LF, which end a line of a request.
    #[error("the URL has a line break: leave it out, or write `%0A` in the path or query")]
    LineBreak,
    /// A space or a tab.
    #[error("the URL has a space or tab: leave it out, or write `%20` in the path or query")]
    Blank,
    /// Another control character.
    #[error("the URL has the control character {0:?}: leave it out")]
    Control(char),
    /// Browsers take it for `/`, others don't.
    #[error("the URL has a backslash: write `/`, or `%5C` in the path or query")]
    Backslash,
    /// Another scheme, none, or one not in lower case.
    #[error("{0}: a URL starts with `https://` or `http://`")]
    Scheme(String),
    /// `#…`, which is for readers and never sent.
    #[error("the URL has a fragment (`#…`), which is never sent: leave it out")]
    Fragment,
    /// `user:password@host`.
    #[error("the URL has user information before `@`: leave it out, and send credentials in a header")]
    UserInfo,
    /// Nothing where the host should be.
    #[error("the URL has no host after `{0}://`")]
    NoHost(&'static str),
    /// `%2e` in a host: decoded by some, looked up as it is by others.
    #[error("{0}: a host has no percent-encoding or zone: write its characters")]
    EncodedHost(String),
    /// A host beyond ASCII.
    #[error("{host}: a host is written in ASCII{}", .ascii.as_ref().map(|ascii| format!(": `{ascii}`")).unwrap_or_default())]
    UnicodeHost {
        /// As written.
        host: String,
        /// What would be looked up, if anything can stand for it.
        ascii: Option<String>,
    },
    /// Capital letters in a host.
    #[error("{0}: a host is written in lower case")]
    UpperCase(String),
    /// What no host name has.
    #[error("{host}: a host has only letters, digits, `-` and `.`, not {character:?}")]
    Character {
        /// As written.
        host: String,
        /// The first that doesn't belong.
        character: char,
    },
    /// `example.com.`: the same place, another name to compare, to send and to find in a certificate.
    #[error("{0}: leave out the dot at the host's end")]
    TrailingDot(String),
    /// Two dots in a row, or one at the start.
    #[error("{0}: between the host's dots stands at least one character")]
    EmptyLabel(String),
    /// More than DNS can carry.
    #[error("{0}: a part of a host has at most {MAX_LABEL} bytes")]
    LongLabel(String),
    /// More than DNS can carry.
    #[error("the host has {0} bytes; the most is {MAX_HOST}")]
    LongName(usize),
    /// A hyphen where no registry allows one.
    #[error("{0}: a part of a host neither starts nor ends with `-`")]
    Hyphen(String),
    /// `127.1`, `0x7f000001`, `017700000001`, `2130706433`, and names that end in a number.
    #[error(
        "{0}: an IPv4 address is written as four decimal numbers without leading zeros, and no name ends in a number"
    )]
    OddAddress(String),
    /// An IPv6 address that isn't one, or not in the one spelling.
    #[error("{host}: not an IPv6 address as URLs write it{}", .canonical.as_ref().map(|text| format!(": `{text}`")).unwrap_or_default())]
    OddAddress6 {
        /// As written.
        host: String,
        /// In the one spelling, if it is an address.
        canonical: Option<String>,
    },
    /// No number, leading zeros, zero, or too large.
    #[error("{0}: a port is 1 to 65535 without leading zeros")]
    Port(String),
    /// `https://…:443`: the same place in another spelling.
    #[error("leave out `:{0}`: it is the scheme's own port")]
    DefaultPort(u16),
    /// An `xn--` label that no registry could have given out.
    #[error("{0}: not a valid internationalised name")]
    Idna(String),
    /// Letters of scripts that aren't written together, or that aren't for names.
    #[error("{label} reads {decoded}: its characters aren't written together in one name")]
    MixedScript {
        /// As written.
        label: String,
        /// What it decodes to.
        decoded: String,
    },
    /// A label that looks like one in ASCII and is another.
    #[error("{label} reads {decoded}, which looks like {looks}: write that, if it is meant")]
    Confusable {
        /// As written.
        label: String,
        /// What it decodes to.
        decoded: String,
        /// What a reader would take it for.
        looks: String,
    },
    /// A path or query beyond ASCII.
    #[error("the path or query has {0:?}: percent-encode it")]
    UnicodePath(char),
    /// `%` without two hexadecimal digits.
    #[error("{0}: `%` is followed by two hexadecimal digits; a `%` itself is `%25`")]
    Escape(String),
    /// `.` or `..` in the path, however it is escaped.
    #[error("the path has a `.` or `..` segment: write where it leads")]
    DotSegment,
    /// Anything else in which the text isn't what a reader of URLs would write.
    #[error("a URL is written in one way only; here: {0}")]
    NotCanonical(String),
    /// A grant that goes on after the port.
    #[error("a grant names a host, perhaps with scheme and port, and no path: leave out what follows")]
    NotOrigin,
    /// What no reader of URLs takes.
    #[error("not a URL: {0}")]
    NoUrl(String),
}

impl Target {
    /// Reads a URL, or says what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, BadTarget> {
        characters(url)?;
        let (scheme, rest) = scheme(url)?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if authority.contains('@') {
            return Err(BadTarget::UserInfo);
        }
        let (written, port) = port(scheme, authority)?;
        let host = host(scheme, written)?;
        path(tail)?;
        let text = canonical(url, tail)?;
        let path = text.len() - tail.len() - usize::from(!tail.starts_with('/'));
        Ok(Self { text, scheme, host, port, path })
    }

    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How it travels.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Who is asked.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, the scheme's own when none is written.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Scheme, host and port as they stand in the URL, in the only spelling that they have.
    pub fn origin(&self) -> &str {
        &self.text[..self.path]
    }

    /// Host and port as a request's `Host` has them: the port only when it isn't the scheme's own.
    pub fn authority(&self) -> &str {
        &self.text[self.scheme.name().len() + "://".len()..self.path]
    }

    /// The host as it stands in the URL: a name, an IPv4 address, or an IPv6 address in `[…]`.
    pub fn host_text(&self) -> &str {
        let authority = self.authority();
        match authority.rfind(':').filter(|at| !authority[*at..].contains(']')) {
            Some(at) => &authority[..at],
            None => authority,
        }
    }

    /// What is asked for: the path, which is at least `/`, and the query if there is one.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.path..]
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Target {
    type Err = BadTarget;

    fn from_str(url: &str) -> Result<Self, BadTarget> {
        Self::parse(url)
    }
}

/// What is wrong wherever it stands.
fn characters(url: &str) -> Result<(), BadTarget> {
    if url.len() > MAX_URL {
        return Err(BadTarget::TooLong(url.len()));
    }
    // Nearly all are of these alone, and one look says so.
    if url.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#')) {
        return Ok(());
    }
    for character in url.chars() {
        return Err(match character {
            '\0' => BadTarget::Nul,
            '\r' | '\n' => BadTarget::LineBreak,
            ' ' | '\t' => BadTarget::Blank,
            '\\' => BadTarget::Backslash,
            control if control.is_control() => BadTarget::Control(control),
            _ => continue,
        });
    }
    if url.contains('#') { Err(BadTarget::Fragment) } else { Ok(()) }
}

fn scheme(url: &str) -> Result<(Scheme, &str), BadTarget> {
    for scheme in [Scheme::Https, Scheme::Http] {
        if let Some(rest) = url.strip_prefix(scheme.name()).and_then(|rest| rest.strip_prefix("://")) {
            return Ok((scheme, rest));
        }
    }
    Err(BadTarget::Scheme(quoted(url.split_inclusive("://").next().unwrap_or_default())))
}

/// The host as written, and the port.
fn port(scheme: Scheme, authority: &str) -> Result<(&str, u16), BadTarget> {
    let Some(at) = authority.rfind(':').filter(|at| !authority[*at..].contains(']')) else {
        return Ok((authority, scheme.default_port()));
    };
    let digits = &authority[at + 1..];
    let plain = !digits.is_empty() && !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    let port = plain.then(|| digits.parse().ok()).flatten().ok_or_else(|| BadTarget::Port(quoted(digits)))?;
    if port == scheme.default_port() {
        return Err(BadTarget::DefaultPort(port));
    }
    Ok((&authority[..at], port))
}

fn host(scheme: Scheme, host: &str) -> Result<Host, BadTarget> {
    if host.is_empty() {
        return Err(BadTarget::NoHost(scheme.name()));
    }
    if host.contains('%') {
        return Err(BadTarget::EncodedHost(quoted(host)));
    }
    if host.starts_with('[') || host.contains(':') {
        return address6(host);
    }
    if !host.is_ascii() {
        return Err(BadTarget::UnicodeHost { host: quoted(host), ascii: label::to_ascii(host) });
    }
    if host.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(BadTarget::UpperCase(quoted(host)));
    }
    let belongs = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if let Some(character) = host.chars().find(|c| !belongs(*c)) {
        return Err(BadTarget::Character { host: quoted(host), character });
    }
    if host.len() > MAX_HOST {
        return Err(BadTarget::LongName(host.len()));
    }
    if host.ends_with('.') && !host.ends_with("..") && host.len() > 1 {
        return Err(BadTarget::TrailingDot(quoted(host)));
    }
    if host.split('.').any(str::is_empty) {
        return Err(BadTarget::EmptyLabel(quoted(host)));
    }
    if ends_in_number(host) {
        let address = host.parse::<Ipv4Addr>().ok().filter(|address| address.to_string() == host);
        return address.map(|address| Host::Ip(address.into())).ok_or_else(|| BadTarget::OddAddress(quoted(host)));
    }
    host.split('.').try_for_each(label::check)?;
    Ok(Host::Name(Name(host.to_owned())))
}

fn address6(host: &str) -> Result<Host, BadTarget> {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = inner.and_then(|inner| inner.parse::<Ipv6Addr>().ok());
    let canonical = address.map(|address| url::Host::<&str>::Ipv6(address).to_string());
    match address.filter(|_| canonical.as_deref() == Some(host)) {
        Some(address) => Ok(Host::Ip(address.into())),
        None => Err(BadTarget::OddAddress6 { host: quoted(host), canonical }),
    }
}

/// Whether readers of URLs take the host for an IPv4 address, or for a failed one.
fn ends_in_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || last.bytes().all(|b| b.is_ascii_digit())
}

fn path(tail: &str) -> Result<(), BadTarget> {
    if let Some(character) = tail.chars().find(|c| !c.is_ascii()) {
        return Err(BadTarget::UnicodePath(character));
    }
    for (at, _) in tail.match_indices('%') {
        let digits = tail.get(at + 1..at + 3).unwrap_or_default();
        if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadTarget::Escape(quoted(tail.get(at..at + 3).unwrap_or(&tail[at..]))));
        }
    }
    let path = tail.split('?').next().unwrap_or_default();
    let dotted = |path: &str| path.split('/').any(|segment| matches!(segment, "." | ".."));
    // Some servers take an escaped slash or backslash for a slash, and an escaped dot for a dot.
    let undone = |path: &str| path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    if dotted(path) || (path.contains('%') && dotted(&undone(path))) {
        return Err(BadTarget::DotSegment);
    }
    Ok(())
}

/// The whole text as a reader of URLs writes it, which must be as it was written but for an empty path.
fn canonical(url: &str, tail: &str) -> Result<String, BadTarget> {
    let read = url::Url::parse(url).map_err(|why| BadTarget::NoUrl(why.to_string()))?;
    let text = String::from(read);
    let head = &url[..url.len() - tail.len()];
    let same = match text.strip_prefix(head) {
        Some(rest) if tail.starts_with('/') => rest == tail,
        Some(rest) => rest.strip_prefix('/') == Some(tail),
        None => false,
    };
    if same { Ok(text) } else { Err(BadTarget::NotCanonical(quoted(&text))) }
}

/// A piece of a URL for a message: visible, and not longer than a line.
fn quoted(text: &str) -> String {
    const LINE: usize = 80;
    let shown: String = text.chars().take(LINE).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(LINE).is_some() { "…" } else { "" };
    format!("`{shown}{more}`")
}

//! Scheme, host and port: the part of a URL that a grant speaks about.
//!
//! The grammar is smaller than the web's on purpose. What two parsers could read differently (user information,
//! backslashes, percent-encoded or upper-case hosts, ports with leading zeros) is refused, so the name that is checked
//! is the name that is dialled whichever parser dials it.

use std::fmt;

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// TLS.
    Https,
    /// In the clear: must be granted by name.
    Http,
}

impl Scheme {
    /// The name, as URLs spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
}

/// A URL that isn't carried.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadUrl {
    /// Another scheme, or none.
    #[error("a URL starts with `https://` or `http://`")]
    Scheme,
    /// No host, or one with characters that parsers disagree on.
    #[error(
        "the host must be lower-case letters, digits, `-` and `.`, or an address in `[…]`, and no user information"
    )]
    Host,
    /// Not a port.
    #[error("the port must be 1 to 65535 without leading zeros")]
    Port,
    /// Spaces, control characters, backslashes or anything beyond ASCII.
    #[error("the path has a character that must be percent-encoded")]
    Path,
}

impl Origin {
    /// Reads the origin of a whole URL, checking every character of it.
    pub fn of_url(url: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = split_scheme(url).ok_or(BadUrl::Scheme)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if path.contains('#')
            || path.bytes().any(|b| !(0x21..=0x7e).contains(&b) || matches!(b, b'\\' | b'"' | b'<' | b'>'))
        {
            return Err(BadUrl::Path);
        }
        Self::of_authority(scheme, authority)
    }

    /// Reads what stands behind `http:` in a grant.
    pub fn of_grant(text: &str) -> Result<Self, BadUrl> {
        let (scheme, authority) = split_scheme(text).unwrap_or((Scheme::Https, text));
        Self::of_authority(scheme, authority)
    }

    fn of_authority(scheme: Scheme, authority: &str) -> Result<Self, BadUrl> {
        let (host, port) = match authority.rfind(':').filter(|at| !authority[*at..].contains(']')) {
            Some(at) => (&authority[..at], parse_port(&authority[at + 1..]).ok_or(BadUrl::Port)?),
            None => (authority, scheme.default_port()),
        };
        let lawful = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
                !host.is_empty()
                    && host.len() <= 253
                    && host.bytes().all(plain)
                    && host.split('.').all(|l| !l.is_empty() && l.len() <= 63)
            }
        };
        if lawful { Ok(Self { scheme, host: host.to_owned(), port }) } else { Err(BadUrl::Host) }
    }

    /// The host, as written: a name, an IPv4 address, or an IPv6 address in `[…]`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// How it travels.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The port, the scheme's own when none was written.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How a grant spells it: the scheme only when plain, the port only when unusual.
    pub fn as_grant(&self) -> String {
        let scheme = if self.scheme == Scheme::Http { "http://" } else { "" };
        if self.port == self.scheme.default_port() {
            format!("{scheme}{}", self.host)
        } else {
            format!("{scheme}{}:{}", self.host, self.port)
        }
    }

    pub(super) fn likeness(&self, other: &Self) -> usize {
        let tail = self.host.bytes().rev().zip(other.host.bytes().rev()).take_while(|(a, b)| a == b).count();
        4 * tail + 2 * usize::from(self.scheme == other.scheme) + usize::from(self.port == other.port)
    }

    pub(super) fn difference(&self, other: &Self) -> &'static str {
        if self.host != other.host {
            "the host differs"
        } else if self.scheme != other.scheme {
            "the scheme differs"
        } else {
            "the port differs"
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.scheme == Scheme::Http { "http" } else { "https" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

fn split_scheme(text: &str) -> Option<(Scheme, &str)> {
    text.strip_prefix("https://")
        .map(|rest| (Scheme::Https, rest))
        .or_else(|| text.strip_prefix("http://").map(|rest| (Scheme::Http, rest)))
}

fn parse_port(digits: &str) -> Option<u16> {
    let plain = !digits.is_empty() && !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

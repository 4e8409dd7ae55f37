//! Scheme, host and port: the part of a URL that a grant speaks about.
//!
//! There is no grammar here. URLs are read by [`Target`], and what a grant names is read by it too: what is granted is
//! what is checked, looked up, dialled and named in the handshake.

use std::fmt;

use crate::target::{BadTarget, Target};

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// The port when a URL names none.
    pub fn default_port(self) -> u16 {
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

impl Origin {
    /// Where a request goes.
    pub fn of(target: &Target) -> Self {
        Self { scheme: target.scheme(), host: target.host_text().to_owned(), port: target.port() }
    }

    /// Reads the origin of a whole URL, checking every character of it.
    pub fn of_url(url: &str) -> Result<Self, BadTarget> {
        Target::parse(url).map(|target| Self::of(&target))
    }

    /// Reads what stands behind `http:` in a grant: a host, perhaps with its port, perhaps with its scheme.
    pub fn of_grant(text: &str) -> Result<Self, BadTarget> {
        let (scheme, authority) = match text.split_once("://") {
            None => (Scheme::Https, text),
            Some(("https", authority)) => (Scheme::Https, authority),
            Some(("http", authority)) => (Scheme::Http, authority),
            // The reader of URLs says what is wrong with it.
            Some(_) => return Self::of_url(text),
        };
        if authority.contains(['/', '?']) {
            return Err(BadTarget::NotOrigin);
        }
        // A URL leaves its scheme's own port out. Whoever grants may say it all the same.
        let usual = format!(":{}", scheme.default_port());
        let authority = authority.strip_suffix(&usual).unwrap_or(authority);
        Self::of_url(&format!("{}://{authority}", scheme.name()))
    }

    /// A URL of its first page.
    pub fn target(&self) -> Result<Target, BadTarget> {
        let scheme = self.scheme.name();
        let port = if self.port == self.scheme.default_port() { String::new() } else { format!(":{}", self.port) };
        Target::parse(&format!("{scheme}://{}{port}/", self.host))
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

    /// Whether a secret may be sent there: over TLS, or in the clear to this very machine.
    pub fn is_sealed(&self) -> bool {
        self.scheme == Scheme::Https || self.is_loopback()
    }

    /// Whether it is this very machine, by an address or by the name that means nothing else.
    fn is_loopback(&self) -> bool {
        let inner = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host);
        inner.parse::<std::net::IpAddr>().map_or(inner == "localhost", |address| address.is_loopback())
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

//! Addresses: what kind each is, and whether a rule lets a request go there.
//!
//! Only the public internet is open by itself. Everything that the registries of special-purpose addresses set apart
//! (IANA, IPv4 and IPv6), and the places where clouds hand out credentials, must be named by a rule.

mod net;
mod special;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use net::{BadNet, Net};

/// What kind of address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Public unicast.
    Global,
    /// Somebody's own network (RFC 1918).
    Private,
    /// This machine.
    Loopback,
    /// This cable.
    LinkLocal,
    /// Somebody's own network, IPv6 (RFC 4193).
    UniqueLocal,
    /// Many at once.
    Multicast,
    /// Nobody; many systems take it for this machine.
    Unspecified,
    /// IPv4 written as IPv6 (`::ffff:a.b.c.d` and its older kin): dialled as IPv4.
    Mapped(Ipv4Addr),
    /// IPv4 behind a translator (RFC 6052).
    Nat64(Ipv4Addr),
    /// IPv4 behind a tunnel (RFC 3056).
    SixToFour(Ipv4Addr),
    /// A tunnel that carries an IPv4 address in disguise (RFC 4380).
    Teredo,
    /// For measuring networks (RFC 2544, RFC 5180).
    Benchmark,
    /// For examples in texts.
    Documentation,
    /// Between a provider and its customers (RFC 6598).
    Shared,
    /// Where a cloud answers any process on its machines, often with credentials.
    Metadata,
    /// Everybody on this cable.
    Broadcast,
    /// Set apart for something else, or for later.
    Reserved,
}

impl Class {
    /// In words, for a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::Global => "public",
            Self::Private => "private",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::UniqueLocal => "unique-local",
            Self::Multicast => "multicast",
            Self::Unspecified => "unspecified",
            Self::Mapped(_) => "IPv4-mapped",
            Self::Nat64(_) => "NAT64",
            Self::SixToFour(_) => "6to4",
            Self::Teredo => "Teredo",
            Self::Benchmark => "benchmarking",
            Self::Documentation => "documentation",
            Self::Shared => "carrier-shared",
            Self::Metadata => "cloud metadata",
            Self::Broadcast => "broadcast",
            Self::Reserved => "reserved",
        }
    }

    /// The IPv4 address inside, if there is one.
    pub fn wrapped(self) -> Option<Ipv4Addr> {
        match self {
            Self::Mapped(inner) | Self::Nat64(inner) | Self::SixToFour(inner) => Some(inner),
            _ => None,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wrapped() {
            Some(inner) => write!(f, "{}, {inner} inside", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

/// What kind of address it is.
pub fn classify(address: IpAddr) -> Class {
    if special::METADATA.iter().any(|(known, _)| *known == address) {
        return Class::Metadata;
    }
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> Class {
    let bits = u128::from(address.to_bits());
    let row = special::V4.iter().find(|row| covers(u128::from(row.start.to_bits()), row.len, 32, bits));
    row.map_or(Class::Global, |row| row.class)
}

fn v6(address: Ipv6Addr) -> Class {
    let bits = address.to_bits();
    let low = || Ipv4Addr::from_bits((bits & u128::from(u32::MAX)) as u32);
    let Some(row) = special::V6.iter().find(|row| covers(row.start.to_bits(), row.len, 128, bits)) else {
        // Everything else that isn't handed out for unicast.
        return if bits >> 125 == 0b001 { Class::Global } else { Class::Reserved };
    };
    match row.class {
        special::Kind::Plain(class) => class,
        special::Kind::Mapped => Class::Mapped(low()),
        special::Kind::Nat64 => Class::Nat64(low()),
        special::Kind::SixToFour => Class::SixToFour(Ipv4Addr::from_bits((bits >> 80) as u32)),
    }
}

/// Whether the first `len` bits of two addresses of `width` bits agree.
fn covers(start: u128, len: u8, width: u8, address: u128) -> bool {
    let rest = u32::from(width - len);
    start.checked_shr(rest).unwrap_or(0) == address.checked_shr(rest).unwrap_or(0)
}

/// Which addresses a request may go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    named: Vec<Net>,
    everywhere: bool,
}

/// An address that a request may not go to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is not a public address ({class}); only a grant of {} lets a request go there", needs(*.address, *.class))]
pub struct Forbidden {
    /// Where it would have gone.
    pub address: IpAddr,
    /// What kind of address that is.
    pub class: Class,
}

fn needs(address: IpAddr, class: Class) -> String {
    match (class, class.wrapped()) {
        (Class::Metadata, _) => format!("exactly `{address}`"),
        (_, Some(inner)) => format!("`{address}`, and `{inner}` too unless that is public,"),
        (_, None) => format!("`{address}` or a range around it"),
    }
}

impl Forbidden {
    /// What is amiss with the range that comes nearest.
    pub(crate) fn beside(&self, net: &Net) -> &'static str {
        match (net.contains(self.address), self.class) {
            (false, _) => "not in it",
            (true, Class::Metadata) => "in it, but such an address has to be granted alone",
            (true, _) => "in it, but the one inside is in no grant",
        }
    }
}

impl Destinations {
    /// Any address at all: for agents whose egress isn't enforced.
    pub fn everywhere() -> Self {
        Self { named: Vec::new(), everywhere: true }
    }

    /// The public internet and what a rule named besides: addresses and ranges.
    pub fn naming(named: impl IntoIterator<Item = Net>) -> Self {
        Self { named: named.into_iter().collect(), everywhere: false }
    }

    /// Whether a request may go there.
    pub fn check(&self, address: IpAddr) -> Result<(), Forbidden> {
        if self.everywhere {
            return Ok(());
        }
        let class = classify(address);
        let named = |address| self.named.iter().any(|net| net.contains(address));
        let open = match class {
            Class::Global => true,
            // A range that happens to hold such a place doesn't mean it.
            Class::Metadata => self.named.iter().any(|net| net.is_exactly(address)),
            // Where it ends is what counts, but nobody writes it so by chance: both must be meant.
            class => match class.wrapped() {
                Some(inner) => named(address) && self.check(inner.into()).is_ok(),
                None => named(address),
            },
        };
        if open { Ok(()) } else { Err(Forbidden { address, class }) }
    }
}

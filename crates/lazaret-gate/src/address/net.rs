//! An address or a range of them, as a rule writes it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::covers;

/// An address or a range: `192.0.2.7`, `10.0.0.0/8`, `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net {
    start: IpAddr,
    len: u8,
}

/// What isn't an address or a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNet {
    /// Not an address.
    #[error("`{0}` is not an address or range: write it like `192.0.2.7`, `10.0.0.0/8` or `fd00::/8`")]
    Address(String),
    /// Not a length that the address has.
    #[error("`{0}`: the length after `/` is 0 to {1}, without leading zeros")]
    Length(String, u8),
    /// Bits behind the length, so that one can't tell what was meant.
    #[error("`{0}` has bits behind its length: write `{1}`, or the address alone")]
    Bits(String, String),
}

impl Net {
    /// Whether it is in there. An IPv4 address is never in a range of IPv6, however it is wrapped.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.start.is_ipv4() == address.is_ipv4()
            && covers(bits(self.start), self.len, width(self.start), bits(address))
    }

    /// Whether it is of the same family.
    pub(crate) fn is_kin(&self, address: IpAddr) -> bool {
        self.start.is_ipv4() == address.is_ipv4()
    }

    /// How many bits at the start it shares with an address of its family.
    pub(crate) fn likeness(&self, address: IpAddr) -> u32 {
        let unused = 128 - u32::from(width(address));
        ((bits(self.start) ^ bits(address)).leading_zeros() - unused).min(u32::from(self.len))
    }

    /// Whether it is that address and nothing else.
    pub fn is_exactly(&self, address: IpAddr) -> bool {
        self.start == address && self.len == width(address)
    }
}

impl From<IpAddr> for Net {
    fn from(start: IpAddr) -> Self {
        Self { start, len: width(start) }
    }
}

impl FromStr for Net {
    type Err = BadNet;

    fn from_str(text: &str) -> Result<Self, BadNet> {
        let shown = || text.chars().take(80).flat_map(char::escape_debug).collect::<String>();
        let (start, len) = text.split_once('/').map_or((text, None), |(start, len)| (start, Some(len)));
        let start: IpAddr = start.parse().map_err(|_| BadNet::Address(shown()))?;
        let Some(len) = len else { return Ok(start.into()) };
        let plain = len == "0" || (!len.starts_with('0') && len.bytes().all(|b| b.is_ascii_digit()));
        let len = plain.then(|| len.parse().ok()).flatten().filter(|len| *len <= width(start));
        let len: u8 = len.ok_or_else(|| BadNet::Length(shown(), width(start)))?;
        let rest = u32::from(width(start) - len);
        let cut = bits(start).checked_shr(rest).and_then(|bits| bits.checked_shl(rest)).unwrap_or(0);
        if cut == bits(start) {
            return Ok(Self { start, len });
        }
        let meant = Self { start: address(cut, start.is_ipv4()), len };
        Err(BadNet::Bits(shown(), meant.to_string()))
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == width(self.start) {
            write!(f, "{}", self.start)
        } else {
            write!(f, "{}/{}", self.start, self.len)
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(bits: u128, v4: bool) -> IpAddr {
    if v4 { std::net::Ipv4Addr::from_bits(bits as u32).into() } else { std::net::Ipv6Addr::from_bits(bits).into() }
}

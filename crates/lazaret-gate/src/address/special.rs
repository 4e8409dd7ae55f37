//! The addresses that are set apart, each with where that is written. First match counts.
//!
//! Sources: IANA's IPv4 and IPv6 Special-Purpose Address Registries, multicast registries, and what cloud providers
//! document. Where a registry calls a sliver of a block globally reachable (anycast for relays and the like), the whole
//! block stays shut: nothing that an agent asks for lives there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Class;

/// A block of IPv4.
pub(super) struct V4 {
    pub(super) start: Ipv4Addr,
    pub(super) len: u8,
    pub(super) class: Class,
}

/// A block of IPv6.
pub(super) struct V6 {
    pub(super) start: Ipv6Addr,
    pub(super) len: u8,
    pub(super) class: Kind,
}

/// What a block of IPv6 is: something of its own, or a wrapping of IPv4.
pub(super) enum Kind {
    Plain(Class),
    Mapped,
    Nat64,
    SixToFour,
}

const fn ip4(a: u8, b: u8, c: u8, d: u8, len: u8, class: Class) -> V4 {
    V4 { start: Ipv4Addr::new(a, b, c, d), len, class }
}

const fn ip6(start: [u16; 8], len: u8, class: Kind) -> V6 {
    let [a, b, c, d, e, f, g, h] = start;
    V6 { start: Ipv6Addr::new(a, b, c, d, e, f, g, h), len, class }
}

/// Blocks of IPv4.
pub(super) const V4: &[V4] = &[
    ip4(0, 0, 0, 0, 32, Class::Unspecified),        // RFC 1122
    ip4(0, 0, 0, 0, 8, Class::Reserved),            // "this network", RFC 791
    ip4(10, 0, 0, 0, 8, Class::Private),            // RFC 1918
    ip4(100, 64, 0, 0, 10, Class::Shared),          // RFC 6598
    ip4(127, 0, 0, 0, 8, Class::Loopback),          // RFC 1122
    ip4(169, 254, 0, 0, 16, Class::LinkLocal),      // RFC 3927
    ip4(172, 16, 0, 0, 12, Class::Private),         // RFC 1918
    ip4(192, 0, 0, 0, 24, Class::Reserved),         // IETF protocol assignments, RFC 6890
    ip4(192, 0, 2, 0, 24, Class::Documentation),    // TEST-NET-1, RFC 5737
    ip4(192, 31, 196, 0, 24, Class::Reserved),      // AS112, RFC 7535
    ip4(192, 52, 193, 0, 24, Class::Reserved),      // AMT, RFC 7450
    ip4(192, 88, 99, 0, 24, Class::Reserved),       // former 6to4 relays, RFC 7526
    ip4(192, 168, 0, 0, 16, Class::Private),        // RFC 1918
    ip4(192, 175, 48, 0, 24, Class::Reserved),      // AS112, RFC 7534
    ip4(198, 18, 0, 0, 15, Class::Benchmark),       // RFC 2544
    ip4(198, 51, 100, 0, 24, Class::Documentation), // TEST-NET-2, RFC 5737
    ip4(203, 0, 113, 0, 24, Class::Documentation),  // TEST-NET-3, RFC 5737
    ip4(224, 0, 0, 0, 4, Class::Multicast),         // RFC 5771
    ip4(255, 255, 255, 255, 32, Class::Broadcast),  // RFC 919
    ip4(240, 0, 0, 0, 4, Class::Reserved),          // RFC 1112
];

/// Blocks of IPv6. What is outside of 2000::/3 and not here is reserved.
pub(super) const V6: &[V6] = &[
    ip6([0, 0, 0, 0, 0, 0, 0, 0], 128, Kind::Plain(Class::Unspecified)), // RFC 4291
    ip6([0, 0, 0, 0, 0, 0, 0, 1], 128, Kind::Plain(Class::Loopback)),    // RFC 4291
    ip6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, Kind::Mapped),                // RFC 4291
    ip6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, Kind::Mapped),                // IPv4-translated, RFC 2765
    ip6([0, 0, 0, 0, 0, 0, 0, 0], 96, Kind::Mapped),                     // IPv4-compatible, RFC 4291
    ip6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Kind::Nat64),              // RFC 6052
    ip6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Kind::Nat64),              // RFC 8215
    ip6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, Kind::Plain(Class::Reserved)), // discard only, RFC 6666
    ip6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Kind::Plain(Class::Teredo)),  // RFC 4380
    ip6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, Kind::Plain(Class::Benchmark)), // RFC 5180
    ip6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Kind::Plain(Class::Reserved)), // IETF protocol assignments, RFC 2928
    ip6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Kind::Plain(Class::Documentation)), // RFC 3849
    ip6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Kind::SixToFour),             // RFC 3056
    ip6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, Kind::Plain(Class::Reserved)), // AS112, RFC 7534
    ip6([0x3ffe, 0, 0, 0, 0, 0, 0, 0], 16, Kind::Plain(Class::Reserved)), // former 6bone, RFC 3701
    ip6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Kind::Plain(Class::Documentation)), // RFC 9637
    ip6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Kind::Plain(Class::UniqueLocal)), // RFC 4193
    ip6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Kind::Plain(Class::LinkLocal)), // RFC 4291
    ip6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Kind::Plain(Class::Multicast)), // RFC 4291
];

const fn cloud4(a: u8, b: u8, c: u8, d: u8, whose: &'static str) -> (IpAddr, &'static str) {
    (IpAddr::V4(Ipv4Addr::new(a, b, c, d)), whose)
}

const fn cloud6(start: [u16; 8], whose: &'static str) -> (IpAddr, &'static str) {
    let [a, b, c, d, e, f, g, h] = start;
    (IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), whose)
}

/// Where clouds answer whoever asks from one of their machines.
pub(super) const METADATA: &[(IpAddr, &str)] = &[
    cloud4(169, 254, 169, 254, "AWS, Azure, Google Cloud, OpenStack, DigitalOcean, Hetzner and others"),
    cloud4(169, 254, 170, 2, "AWS, credentials of a container"),
    cloud4(169, 254, 170, 23, "AWS, credentials of a Kubernetes pod"),
    cloud4(169, 254, 169, 123, "AWS, time"),
    cloud4(169, 254, 169, 253, "AWS, names"),
    cloud4(169, 254, 42, 42, "Scaleway"),
    cloud4(169, 254, 0, 23, "Tencent Cloud"),
    cloud4(100, 100, 100, 200, "Alibaba Cloud"),
    cloud4(192, 0, 0, 192, "Oracle Cloud"),
    cloud4(168, 63, 129, 16, "Azure, wire server: an address that looks public"),
    cloud6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], "AWS"),
    cloud6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], "AWS, credentials of a Kubernetes pod"),
    cloud6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x123], "AWS, time"),
    cloud6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x253], "AWS, names"),
    cloud6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], "Google Cloud"),
    cloud6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], "Scaleway"),
];

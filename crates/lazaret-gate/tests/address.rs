//! What kind each address is, row by row, and what naming one opens.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::net::IpAddr;

use lazaret_gate::address::{BadNet, Class, Destinations, Net, classify};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn naming(nets: &[&str]) -> Destinations {
    Destinations::naming(nets.iter().map(|net| net.parse::<Net>().unwrap()))
}

#[test]
fn every_row_has_its_class() {
    let rows = include_str!("address/classes.txt").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for row in rows {
        let mut words = row.split(' ');
        let (address, class) = (ip(words.next().unwrap()), words.next().unwrap());
        let expected = words.next().map_or(class.to_owned(), |inner| format!("{class}({inner})"));
        let found = classify(address);
        assert_eq!(format!("{found:?}"), expected, "{address}");
        assert_eq!(Destinations::default().check(address).is_ok(), found == Class::Global, "{address}");
        count += 1;
    }
    assert!(count > 140, "{count} rows");
}

/// A row: what rules name, what stays shut, what is open.
const NAMED: &[(&[&str], &[&str], &[&str])] = &[
    (&["127.0.0.1"], &["127.0.0.2", "::1", "::ffff:127.0.0.1", "10.0.0.1"], &["127.0.0.1", "8.8.8.8"]),
    (&["10.0.0.0/8"], &["172.16.0.1", "::ffff:10.0.0.1"], &["10.1.2.3", "10.255.255.255"]),
    (&["169.254.0.0/16"], &["169.254.169.254"], &["169.254.1.1"]),
    (&["169.254.169.254"], &["169.254.1.1", "::ffff:169.254.169.254"], &["169.254.169.254"]),
    (&["0.0.0.0/0"], &["169.254.169.254", "168.63.129.16", "::1"], &["127.0.0.1", "255.255.255.255", "0.0.0.0"]),
    (&["::ffff:0:0/96"], &["::ffff:127.0.0.1", "127.0.0.1"], &["::ffff:8.8.8.8"]),
    (&["::ffff:0:0/96", "127.0.0.1"], &["::ffff:127.0.0.2", "::ffff:169.254.169.254"], &["::ffff:127.0.0.1"]),
    (&["64:ff9b::/96"], &["64:ff9b::7f00:1"], &["64:ff9b::808:808"]),
    (&["2002::/16"], &["2002:7f00:1::"], &["2002:808:808::1"]),
    (&["::/0"], &["fd00:ec2::254", "::ffff:10.0.0.1", "10.0.0.1"], &["fe80::1", "fd00::1", "::1", "2001::1"]),
];

#[test]
fn only_what_is_named_opens() {
    for (named, shut, open) in NAMED {
        let rules = naming(named);
        for address in *shut {
            assert!(rules.check(ip(address)).is_err(), "{named:?} opens {address}");
        }
        for address in *open {
            assert!(rules.check(ip(address)).is_ok(), "{named:?} keeps {address} shut");
        }
    }
}

#[test]
fn the_message_says_what_would_open_it() {
    let told = |address: &str| Destinations::default().check(ip(address)).unwrap_err().to_string();
    for (address, expected) in [
        ("10.0.0.1", "10.0.0.1 is not a public address (private); only a grant of `10.0.0.1` or a range around it"),
        (
            "169.254.169.254",
            "169.254.169.254 is not a public address (cloud metadata); only a grant of exactly `169.254.169.254`",
        ),
        (
            "::ffff:127.0.0.1",
            "::ffff:127.0.0.1 is not a public address (IPv4-mapped, 127.0.0.1 inside); only a grant of \
             `::ffff:127.0.0.1`, and `127.0.0.1` too unless that is public,",
        ),
    ] {
        assert_eq!(told(address), format!("{expected} lets a request go there"));
    }
}

#[test]
fn a_range_is_written_in_one_way() {
    for text in ["127.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::1", "::/0"] {
        assert_eq!(text.parse::<Net>().unwrap().to_string(), text);
    }
    assert_eq!("1.2.3.4/32".parse::<Net>().unwrap().to_string(), "1.2.3.4");
    let bad = |text: &str| text.parse::<Net>().unwrap_err();
    for text in ["", "a", "010.0.0.0/8", "10.0.0/8", "10.0.0.0 /8", "[::1]", "fe80::1%eth0"] {
        assert_eq!(bad(text), BadNet::Address(text.to_owned()), "{text}");
    }
    for text in ["10.0.0.0/", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8/8"] {
        assert_eq!(bad(text), BadNet::Length(text.to_owned(), 32), "{text}");
    }
    assert_eq!(bad("fd00::/129"), BadNet::Length("fd00::/129".into(), 128));
    assert_eq!(bad("10.0.0.1/8"), BadNet::Bits("10.0.0.1/8".into(), "10.0.0.0/8".into()));
}

//! Which URLs are carried, and that whoever else reads one that is reads the same.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use lazaret_gate::grant::Origin;
use lazaret_gate::target::{BadTarget, Host, Target};
use proptest::prelude::*;

/// What is written, and how it is written back if that differs.
const GOOD: &[(&str, &str)] = &[
    ("https://example.com", "https://example.com/"),
    ("https://example.com/", "https://example.com/"),
    ("https://example.com?q=1", "https://example.com/?q=1"),
    ("https://example.com:8443/a/b?c=d&e=/f?g", "https://example.com:8443/a/b?c=d&e=/f?g"),
    ("http://example.com:443/", "http://example.com:443/"),
    ("http://localhost/", "http://localhost/"),
    ("https://a.b-c.d0.example/%41%c3%A9~!$&'()*+,;=:@", "https://a.b-c.d0.example/%41%c3%A9~!$&'()*+,;=:@"),
    ("https://example.com//a//b/", "https://example.com//a//b/"),
    ("https://example.com/...", "https://example.com/..."),
    ("https://192.0.2.1:1/", "https://192.0.2.1:1/"),
    ("https://[::1]/", "https://[::1]/"),
    ("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]:8443/x"),
    ("https://[::ffff:7f00:1]/", "https://[::ffff:7f00:1]/"),
    ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
    ("https://xn--fiqs8s/", "https://xn--fiqs8s/"),
    ("https://r3---sn-4g5e6nsz.example/", "https://r3---sn-4g5e6nsz.example/"),
    ("https://1.example/", "https://1.example/"),
    ("https://0x.example/", "https://0x.example/"),
];

/// What is written, and the name of what is wrong with it.
const BAD: &[(&str, &str)] = &[
    ("", "Scheme"),
    ("example.com", "Scheme"),
    ("ftp://example.com/", "Scheme"),
    ("file:///etc/passwd", "Scheme"),
    ("HTTPS://example.com/", "Scheme"),
    ("https:/example.com/", "Scheme"),
    ("https:example.com", "Scheme"),
    ("//example.com/", "Scheme"),
    ("javascript:alert(1)", "Scheme"),
    ("https:///example.com/", "NoHost"),
    ("https://", "NoHost"),
    ("https://:8443/", "NoHost"),
    ("https://?q", "NoHost"),
    ("https://user@example.com/", "UserInfo"),
    ("https://user:pass@example.com/", "UserInfo"),
    ("https://@example.com/", "UserInfo"),
    ("https://good.example@evil.example/", "UserInfo"),
    ("https://example.com\0.evil.example/", "Nul"),
    ("https://example.com/\r\nHost: evil", "LineBreak"),
    ("https://example.com/\n", "LineBreak"),
    ("https://exam\tple.com/", "Blank"),
    (" https://example.com/", "Blank"),
    ("https://example.com/a b", "Blank"),
    ("https://example.com/\u{7f}", "Control"),
    ("https://example.com/\u{85}", "Control"),
    ("https://example.com\\@evil.example/", "Backslash"),
    ("https:\\\\example.com/", "Backslash"),
    ("https://example.com/?\\", "Backslash"),
    ("https://example.com/#top", "Fragment"),
    ("https://example.com#@evil.example/", "Fragment"),
    ("https://example.com:/", "Port"),
    ("https://example.com:0443/", "Port"),
    ("https://example.com:0/", "Port"),
    ("https://example.com:65536/", "Port"),
    ("https://example.com:+1/", "Port"),
    ("https://example.com:1:2/", "OddAddress6"),
    ("https://example.com:x/", "Port"),
    ("https://example.com:443/", "DefaultPort"),
    ("http://example.com:80/", "DefaultPort"),
    ("https://%65xample.com/", "EncodedHost"),
    ("https://example%2ecom/", "EncodedHost"),
    ("https://127.0.0.1%2f.example.com/", "EncodedHost"),
    ("https://[fe80::1%25eth0]/", "EncodedHost"),
    ("https://bücher.example/", "UnicodeHost"),
    ("https://example。com/", "UnicodeHost"),
    ("https://１２７.0.0.1/", "UnicodeHost"),
    ("https://ⓔxample.com/", "UnicodeHost"),
    ("https://exa\u{ad}mple.com/", "UnicodeHost"),
    ("https://Example.com/", "UpperCase"),
    ("https://a_b.example/", "Character"),
    ("https://a,b.example/", "Character"),
    ("https://*.example/", "Character"),
    ("https://example.com./", "TrailingDot"),
    ("https://127.0.0.1./", "TrailingDot"),
    ("https://./", "EmptyLabel"),
    ("https://example..com/", "EmptyLabel"),
    ("https://.example.com/", "EmptyLabel"),
    ("https://example.com../", "EmptyLabel"),
    ("https://-a.example/", "Hyphen"),
    ("https://a-.example/", "Hyphen"),
    ("https://127.1/", "OddAddress"),
    ("https://127.0.1/", "OddAddress"),
    ("https://2130706433/", "OddAddress"),
    ("https://0x7f000001/", "OddAddress"),
    ("https://0x7f.0.0.1/", "OddAddress"),
    ("https://017700000001/", "OddAddress"),
    ("https://0177.0.0.1/", "OddAddress"),
    ("https://127.0.0.01/", "OddAddress"),
    ("https://256.1.1.1/", "OddAddress"),
    ("https://1.2.3.4.5/", "OddAddress"),
    ("https://example.1/", "OddAddress"),
    ("https://example.0x/", "OddAddress"),
    ("https://[::1/", "OddAddress6"),
    ("https://::1/", "OddAddress6"),
    ("https://[0:0:0:0:0:0:0:1]/", "OddAddress6"),
    ("https://[::FFFF:7f00:1]/", "OddAddress6"),
    ("https://[::ffff:127.0.0.1]/", "OddAddress6"),
    ("https://[127.0.0.1]/", "OddAddress6"),
    ("https://[v1.x]/", "OddAddress6"),
    ("https://xn--/", "Hyphen"),
    ("https://xn--a/", "Idna"),
    ("https://xn--example/", "Idna"),
    ("https://xn--bcher-kvb.example/", "Idna"),
    ("https://xn--google-.example/", "Hyphen"),
    ("https://xn--pple-43d.com/", "MixedScript"),
    ("https://xn--80aj7an.com/", "Confusable"),
    ("https://example.com/é", "UnicodePath"),
    ("https://example.com/%", "Escape"),
    ("https://example.com/%4", "Escape"),
    ("https://example.com/%zz", "Escape"),
    ("https://example.com/?%+1", "Escape"),
    ("https://example.com/a/../b", "DotSegment"),
    ("https://example.com/.", "DotSegment"),
    ("https://example.com/%2e%2E/b", "DotSegment"),
    ("https://example.com/a%2f..%2fb", "DotSegment"),
    ("https://example.com/a%5c..", "DotSegment"),
    ("https://example.com/<b>", "NotCanonical"),
    ("https://example.com/\"", "NotCanonical"),
    ("https://example.com/{x}", "NotCanonical"),
    ("https://example.com/?'", "NotCanonical"),
];

fn kind(why: &BadTarget) -> String {
    format!("{why:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned()
}

#[test]
fn what_is_carried() {
    for (written, canonical) in GOOD {
        let target = Target::parse(written).unwrap_or_else(|why| unreachable!("{written}: {why}"));
        assert_eq!(target.as_str(), *canonical);
        agrees(&target);
    }
}

#[test]
fn what_is_not_carried() {
    for (written, expected) in BAD {
        match Target::parse(written) {
            Ok(target) => assert_eq!(*expected, "", "{written:?} is taken for {target}"),
            Err(why) => {
                assert_eq!(kind(&why), *expected, "{written:?}: {why}");
                let told = why.to_string();
                assert!(!told.contains(['\r', '\n', '\0']) && told.len() < 500, "{told:?}");
            }
        }
    }
    let long = |len: usize| Target::parse(&format!("https://{}.com/", "a".repeat(len)));
    assert!(long(63).is_ok());
    assert_eq!(kind(&long(64).unwrap_err()), "LongLabel");
    let name = |parts: usize| Target::parse(&format!("https://{}com/", "abcdefg.".repeat(parts)));
    assert!(name(31).is_ok());
    assert_eq!(kind(&name(32).unwrap_err()), "LongName");
    let url = |len: usize| Target::parse(&format!("https://a.example/{}", "a".repeat(len)));
    assert!(url(8 * 1024 - 18).is_ok());
    assert_eq!(kind(&url(8 * 1024 - 17).unwrap_err()), "TooLong");
}

#[test]
fn messages_say_what_to_write() {
    let told = |url: &str| Target::parse(url).unwrap_err().to_string();
    assert_eq!(
        told("https://bücher.example/"),
        "`bücher.example`: a host is written in ASCII: `xn--bcher-kva.example`"
    );
    assert_eq!(told("https://аpple.com/"), "`аpple.com`: a host is written in ASCII");
    assert_eq!(
        told("https://xn--80aj7an.com/"),
        "`xn--80aj7an` reads `ерау`, which looks like `epay`: write that, if it is meant"
    );
    assert_eq!(told("https://[::FFFF:1]/"), "`[::FFFF:1]`: not an IPv6 address as URLs write it: `[::ffff:1]`");
    assert_eq!(told("https://a.example/{x}"), "a URL is written in one way only; here: `https://a.example/%7Bx%7D`");
}

/// The gate's reader of origins sees the same scheme, host and port, and the parts make up the whole.
fn agrees(target: &Target) {
    let origin = Origin::of_url(target.as_str()).unwrap_or_else(|why| unreachable!("{target}: {why}"));
    assert_eq!((origin.scheme(), origin.host(), origin.port()), (target.scheme(), target.host_text(), target.port()));
    let whole = format!("{}://{}{}", target.scheme().name(), target.authority(), target.path_and_query());
    assert_eq!(whole, target.as_str());
    assert!(target.path_and_query().starts_with('/'));
    match target.host() {
        Host::Name(name) => assert_eq!(name.as_str(), target.host_text()),
        Host::Ip(address) => assert_eq!(
            *address,
            target.host_text().trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().unwrap()
        ),
    }
    assert_eq!(Target::parse(target.as_str()).as_ref(), Ok(target));
}

fn hosts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9.-]{1,20}",
        "[a-zA-Z0-9._~%-]{1,20}",
        "(xn--)?[a-z0-9-]{1,12}\\.[a-z]{2,4}",
        "[0-9]{1,3}(\\.[0-9x]{1,4}){0,4}",
        "\\[[0-9a-fA-F:.]{0,24}\\]",
        any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|address| format!("[{address}]")),
        "\\PC{1,12}",
    ]
}

fn urls() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![4 => Just("https://"), 2 => Just("http://"), 1 => Just("HTTP://"), 1 => Just("")];
    let port = prop_oneof![3 => Just(String::new()), 1 => ":[0-9]{0,6}", 1 => "[:@].{0,6}"];
    let tail = prop_oneof!["", "/[ -~]{0,30}", "[/?][a-zA-Z0-9%./?&=_~:@!$'()*+,;|^`{}\\[\\]-]{0,30}", "\\PC{0,20}"];
    (scheme, hosts(), port, tail).prop_map(|(scheme, host, port, tail)| format!("{scheme}{host}{port}{tail}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn whoever_reads_it_reads_the_same(url in urls()) {
        if let Ok(target) = Target::parse(&url) {
            agrees(&target);
            let head = format!("{}://{}", target.scheme().name(), target.authority());
            let slashed = url.strip_prefix(&head).map(|tail| format!("{head}/{tail}"));
            prop_assert!(url == target.as_str() || slashed.as_deref() == Some(target.as_str()));
        }
    }

    #[test]
    fn nothing_makes_it_fall_over(url in any::<String>()) {
        let _ = Target::parse(&url);
        let _ = Target::parse(&format!("https://{url}"));
    }
}

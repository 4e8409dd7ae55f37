//! Canonical JSON: one spelling per value, and nothing else is read.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::collections::BTreeMap;

use lazaret_gate::canonical::{Bytes, Digest, Exact, decode, encode};
use lazaret_gate::entry::{Broken, Chain, Entry, NO_ENTRY, frame};
use lazaret_gate::record::{AgentRemoved, Body};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    zeta: u64,
    alpha: Option<String>,
    bytes: Bytes,
    exact: Exact,
}

/// The same in canonical order, so that it is compared with its bytes and not written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sorted {
    alpha: Option<String>,
    bytes: Bytes,
    exact: Exact,
    zeta: u64,
}

fn sample() -> Sample {
    Sample { zeta: 7, alpha: None, bytes: Bytes(vec![0, 1, 255]), exact: Exact(u64::MAX) }
}

const SPELLED: &str = r#"{"alpha":null,"bytes":"AAH/","exact":"18446744073709551615","zeta":7}"#;

#[test]
fn a_value_has_one_spelling() {
    assert_eq!(encode(&sample()).unwrap(), SPELLED.as_bytes());
    assert_eq!(decode::<Sample>(SPELLED.as_bytes()).unwrap(), sample());
    let others = [
        ("a space", SPELLED.replacen(':', ": ", 1)),
        ("a newline behind", format!("{SPELLED}\n")),
        ("another order", r#"{"bytes":"AAH/","alpha":null,"exact":"18446744073709551615","zeta":7}"#.into()),
        ("the order of the fields", r#"{"zeta":7,"alpha":null,"bytes":"AAH/","exact":"18446744073709551615"}"#.into()),
        ("an absent option", SPELLED.replace(r#""alpha":null,"#, "")),
        ("an unknown key", SPELLED.replace("}", r#","zz":1}"#)),
        ("a key twice", SPELLED.replace("}", r#","zeta":7}"#)),
        ("a fraction", SPELLED.replace(":7", ":7.0")),
        ("an exponent", SPELLED.replace(":7", ":7e0")),
        ("a negative number", SPELLED.replace(":7", ":-7")),
        ("an escaped letter", SPELLED.replace("zeta", "\\u007aeta")),
        ("a plus sign", SPELLED.replace("\"1844", "\"+1844")),
        ("a leading zero", SPELLED.replace("\"1844", "\"01844")),
        ("base64 without padding", SPELLED.replace("AAH/", "AAE")),
        ("base64 with stray bits", SPELLED.replace("AAH/", "AAF=")),
        ("base64 for URLs", SPELLED.replace("AAH/", "AAH_")),
        ("a list for an object", r#"[null,"AAH/","18446744073709551615",7]"#.into()),
        ("2^53", SPELLED.replace(":7", ":9007199254740992")),
        ("2^53 + 1", SPELLED.replace(":7", ":9007199254740993")),
        ("what 2^64 - 1 rounds to", SPELLED.replace(":7", ":18446744073709552000")),
        ("nothing", String::new()),
    ];
    for (what, text) in others {
        assert_ne!(text, SPELLED, "{what}");
        assert!(decode::<Sample>(text.as_bytes()).is_err(), "{what}: {text}");
        assert!(decode::<Sorted>(text.as_bytes()).is_err(), "{what}, in order: {text}");
    }
    let Sample { zeta, alpha, bytes, exact } = sample();
    assert_eq!(decode::<Sorted>(SPELLED.as_bytes()).unwrap(), Sorted { alpha, bytes, exact, zeta });
}

/// A map's keys are the agent's or the operator's. One that another begins with is the hard case, beside those that aren't
/// plain.
#[test]
fn a_map_has_one_spelling() {
    type Map = BTreeMap<String, u8>;
    for text in [r#"{"a":1,"a!":2,"ab":3}"#, r#"{"":1,"A":2,"_":3}"#, "{\"a\":1,\"é\":2}", r#"{"\"":1,"a\n":2}"#, "{}"]
    {
        assert_eq!(encode(&decode::<Map>(text.as_bytes()).unwrap()).unwrap(), text.as_bytes());
    }
    for text in [
        r#"{"a!":2,"a":1}"#,
        r#"{"ab":3,"a":1}"#,
        "{\"é\":2,\"a\":1}",
        r#"{"a":1,"a":1}"#,
        r#"{"a":01}"#,
        "{\"\u{fb33}\":0,\"\u{1f600}\":0}",
    ] {
        assert!(decode::<Map>(text.as_bytes()).is_err(), "{text}");
    }
}

/// Found when the second checker was written: numbers beyond 2^53 were rounded, so that two records had one digest.
#[test]
fn a_number_that_would_be_rounded_is_refused() {
    let most = (1 << 53) - 1;
    let of = |zeta| encode(&Sample { zeta, ..sample() });
    assert!(of(most).unwrap().ends_with(b":9007199254740991}"));
    assert!(of(most + 1).is_err());
    assert!(of(most + 2).is_err());
    assert!(of(u64::MAX).is_err());
    let why = encode(&[0.5]).unwrap_err().to_string();
    assert_eq!(why, "can't be written as canonical JSON: the number 0.5 is not a whole one up to 9007199254740991");
    assert!(encode(&[-1]).is_err());
    assert!(encode(&[1e300]).is_err());
    // Digits in strings are text.
    encode(&["9007199254740993", "\"9007199254740993", "\\", "-1"]).unwrap();
}

#[test]
fn strings_are_escaped_as_rfc_8785_says() {
    let text = "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f} \"\\/\u{7f}\u{80}é\u{2028}\u{1f600}";
    let spelled = "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\u{7f}\u{80}é\u{2028}\u{1f600}\"";
    assert_eq!(encode(&text).unwrap(), spelled.as_bytes());
    assert_eq!(decode::<String>(spelled.as_bytes()).unwrap(), text);
    assert!(decode::<String>(b"\"\\ud83d\\ude00\"").is_err(), "a pair of surrogates is another spelling");
    assert!(decode::<String>(b"\"\\ud83d\"").is_err(), "a lone surrogate is no text");
    assert!(decode::<String>(b"\"\xff\"").is_err(), "not UTF-8");
}

/// RFC 8785, 3.2.3: by UTF-16 code units, so that U+1F600 (D83D DE00) stands before U+FB33.
#[test]
fn keys_are_sorted_by_utf16() {
    let keys = ["\u{fb33}", "\u{1f600}", "\u{20ac}", "\r", "1", "\u{80}", "é"];
    let map: BTreeMap<&str, u8> = keys.iter().map(|key| (*key, 0)).collect();
    let spelled = "{\"\\r\":0,\"1\":0,\"\u{80}\":0,\"é\":0,\"\u{20ac}\":0,\"\u{1f600}\":0,\"\u{fb33}\":0}";
    assert_eq!(String::from_utf8(encode(&map).unwrap()).unwrap(), spelled);
}

#[test]
fn digests_are_blake3_in_lower_case() {
    let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(Digest::of(b"").to_string(), empty);
    assert_eq!(Digest::parse(empty), Some(Digest::of(b"")));
    assert_eq!(Digest::parse(&empty.to_uppercase()), None);
    assert_eq!(Digest::parse(&empty[1..]), None);
    assert_eq!(Digest::parse(&empty.replace('a', "é")), None);
    assert_eq!(Digest::of(b"").short(), "af1349b9f5f9");
}

fn removed(seq: u64, prev: Digest) -> Entry {
    let body = Body::AgentRemoved(AgentRemoved { agent: "a".parse().unwrap() });
    Entry { body, prev, seq, time: 1_700_000_000_000 }
}

#[test]
fn a_frame_is_the_entry_s_canonical_form() {
    let entry = removed(41, Digest::of(b"before"));
    let framed = frame(&encode(&entry.body).unwrap(), &entry.prev, entry.seq, entry.time);
    assert_eq!(framed, encode(&entry).unwrap());
    assert_eq!(Entry::read(&framed).unwrap(), entry);
}

#[test]
fn a_chain_sees_what_is_out_of_place() {
    let first = encode(&removed(0, NO_ENTRY)).unwrap();
    let second = encode(&removed(1, Digest::of(&first))).unwrap();
    let signed = String::from_utf8(second.clone()).unwrap().replace(":17", ":+17").into_bytes();
    let mut chain = Chain::default();
    chain.follow(&first).unwrap();
    assert!(matches!(chain.follow(&first), Err(Broken::OutOfPlace { expected: 1, found: 0 })));
    let unlinked = encode(&removed(1, NO_ENTRY)).unwrap();
    assert!(matches!(chain.follow(&unlinked), Err(Broken::Unlinked { seq: 1, .. })));
    for bad in
        [&b""[..], b"{\"body\":{", b"{\"body\":{},\"prev\":\"", &second[1..], &second[..second.len() - 1], &signed]
    {
        assert!(
            matches!(chain.follow(bad), Err(Broken::Unreadable { seq: 1, .. })),
            "{}",
            String::from_utf8_lossy(bad)
        );
    }
    chain.follow(&second).unwrap();
    assert_eq!((chain.len(), chain.head()), (2, Digest::of(&second)));
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(zeta in 0_u64..1 << 53, alpha: Option<String>, bytes: Vec<u8>, exact: u64) {
        let value = Sample { zeta, alpha, bytes: Bytes(bytes), exact: Exact(exact) };
        let spelled = encode(&value).unwrap();
        prop_assert_eq!(&decode::<Sample>(&spelled).unwrap(), &value);
    }

    /// Reading compares where it can and writes where it must; both say the same of every byte.
    #[test]
    fn no_byte_changes_unseen(
        map in proptest::collection::btree_map("[a-c!_\"é]{0,3}", proptest::option::of("[0-9a\\\\\n]{0,3}"), 0..6),
        at: proptest::sample::Index,
        byte in proptest::sample::select(b"0123456789abc!_,:\"\\{}[] n".to_vec()),
    ) {
        let mut bytes = encode(&map).unwrap();
        prop_assert_eq!(&decode::<BTreeMap<String, Option<String>>>(&bytes).unwrap(), &map);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let read: Option<BTreeMap<String, Option<String>>> = serde_json::from_slice(&bytes).ok();
        let canonical = read.filter(|read| encode(read).unwrap() == bytes);
        prop_assert_eq!(decode(&bytes).ok(), canonical, "{}", String::from_utf8_lossy(&bytes));
    }
}

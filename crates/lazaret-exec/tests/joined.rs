//! The broker searches URL and headers of a request, and the headers of what comes back, in one go. Whatever a search of each
//! by itself would find, that one finds: held against each other for values in all forms, for credentials, and for
//! neighbours that leave escapes unfinished.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use lazaret_exec::Broker;
use lazaret_exec::broker::{Errand, Filling, Secrets, Unfilled};
use lazaret_gate::effect::{Header, Request};
use lazaret_gate::leak::{Guard, Shapes, fit};
use lazaret_gate::outcome::Response;
use lazaret_gate::refusal::Code;
use lazaret_gate::secret::Slot;
use lazaret_gate::{AgentId, Undone};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A vault from which nothing is used.
struct Closed(Option<Arc<Guard>>);

impl Secrets for Closed {
    fn admits(&self, _: &AgentId, _: &Slot, _: Option<&Errand>) -> Result<(), Unfilled> {
        Err(Unfilled::Unbound)
    }

    fn fill(&self, _: &AgentId, _: &Slot, _: &Errand) -> Result<Filling, Unfilled> {
        Err(Unfilled::Unbound)
    }

    fn guard(&self) -> Result<Option<Arc<Guard>>, String> {
        Ok(self.0.clone())
    }
}

fn text(pattern: &str) -> impl Strategy<Value = String> + use<> {
    proptest::string::string_regex(pattern).unwrap()
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => text("[A-Za-z0-9_-]{8,40}"),
        2 => text("[ -~]{8,40}"),
        2 => text("[a-c%\\\\&\"/+ =#;x0-9]{8,30}"),
        1 => text("[a-zà-ÿα-ω😀-😎 ]{8,20}"),
    ]
    .prop_filter("guardable", |value| fit(value.as_bytes()).is_ok())
}

/// Characters as an encoder writes each, whatever it is.
fn each(text: &str, write: impl Fn(char) -> String) -> String {
    text.chars().map(write).collect()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn units(c: char) -> String {
    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// A value or a credential, in one of the forms that are looked for.
fn form(text: &str, which: usize) -> String {
    let json = |text: &str| each(text, |c| if c.is_ascii_alphanumeric() { c.into() } else { units(c) });
    match which {
        0 => text.to_owned(),
        1 => percent(text),
        2 => json(text),
        3 => each(text, |c| format!("&#{};", u32::from(c))),
        4 => each(text, |c| format!("&#x{:x};", u32::from(c))),
        5 => STANDARD.encode(text),
        6 => URL_SAFE.encode(format!("ab{text}tail")),
        7 => percent(&json(text)),
        8 => json(&percent(text)),
        _ => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Escapes that were begun and not ended.
const CUT: [&str; 15] =
    ["%", "%2", "%25", "%5", "%5C", "\\", "\\u", "\\ud83d", "\\ud83d\\u", "\\x4", "&", "&am", "&#", "&#x", "&#12"];

/// What stands beside it: words, and escapes that are whole, broken or cut off.
fn beside() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => text("[A-Za-z0-9 .,_-]{0,20}"),
        3 => select(&CUT[..]).prop_map(str::to_owned),
        2 => text("[%\\\\&a-f0-9u;#x]{0,20}"),
        1 => text("[A-Za-z0-9+/=]{0,20}"),
    ]
}

/// A few that the shipped shapes know.
fn credential() -> impl Strategy<Value = String> {
    prop_oneof![text("ghp_[A-Za-z0-9]{36}"), text("AKIA[A-Z2-7]{16}"), text("xoxb-[0-9]{12}-[0-9]{12}-[A-Za-z0-9]{24}")]
}

/// A name, a value or the end of a URL, made with what must not get out if there is any.
fn part(hidden: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let with = (beside(), select(&["", " ", "=", ":"][..]), hidden, 0..10_usize, beside());
    prop_oneof![
        2 => (beside(), beside()).prop_map(|(a, b)| a + &b),
        1 => with.prop_map(|(before, gap, hidden, which, after)| before + gap + &form(&hidden, which) + gap + &after),
    ]
}

/// A value, and parts in some of which it is, or a credential.
fn case() -> impl Strategy<Value = (String, Vec<String>)> {
    value().prop_flat_map(|value| {
        let hidden = prop_oneof![3 => Just(value.clone()), 1 => credential()];
        (Just(value), vec(part(hidden), 1..8))
    })
}

fn headers(parts: &[String]) -> Vec<Header> {
    let header = |pair: &[String]| Header { name: pair[0].clone(), value: pair.get(1).cloned().unwrap_or_default() };
    parts.chunks(2).map(header).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_in_a_part_is_found_in_all_of_them((value, parts) in case(), guarded in any::<bool>()) {
        let guard = guarded.then(|| Arc::new(Guard::new([("key", &value)]).unwrap()));
        let url = format!("https://api.example.org/{}", parts[0]);
        let shapes = Shapes::shipped().unwrap();
        let hides = |part: &str| {
            shapes.scan(part.as_bytes()).is_some() || guard.as_ref().is_some_and(|guard| guard.scan(part.as_bytes()).is_some())
        };
        let hidden = hides(&url) || parts[1..].iter().any(|part| hides(part));
        let mut broker = Broker::new("clerk".parse().unwrap(), Arc::new(Closed(guard.clone())));
        let request = Request { method: "GET".into(), url, headers: headers(&parts[1..]), body: "".into() };
        let ok = Response { status: 200, headers: Vec::new(), body: "fine".into() };
        let asked = broker.fetch(request, |_| Ok(ok));
        let leaked = matches!(&asked, Err(Undone::Cut(refusal)) if refusal.code == Code::SecretLeak);
        prop_assert_eq!(leaked, hidden, "{:?}", parts);
    }

    #[test]
    fn what_comes_back_has_it_in_no_header((value, parts) in case()) {
        let guard = Arc::new(Guard::new([("key", &value)]).unwrap());
        let mut broker = Broker::new("clerk".parse().unwrap(), Arc::new(Closed(Some(guard.clone()))));
        let request =
            Request { method: "GET".into(), url: "https://api.example.org/".into(), headers: Vec::new(), body: "".into() };
        let sent = Response { status: 200, headers: headers(&parts), body: "fine".into() };
        let back = broker.fetch(request, |_| Ok(sent)).map_err(|_| TestCaseError::fail("nothing came back"))?;
        for header in &back.headers {
            prop_assert!(guard.scan(header.name.as_bytes()).is_none(), "{:?}", header.name);
            prop_assert!(guard.scan(header.value.as_bytes()).is_none(), "{:?}", header.value);
        }
    }
}

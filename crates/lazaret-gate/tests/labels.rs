//! What an agent has seen: which outcomes add to it, that it only grows, and that rules are asked about it.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, reason = "a test says what is wrong by failing")]

mod turn;

use lazaret_gate::labels::{added, after};
use lazaret_gate::outcome::Response;
use lazaret_gate::record::{Ending, Failure, Judged, Message, Reply};
use lazaret_gate::refusal::Code;
use lazaret_gate::{
    AgentId, Answer, Budget, Bytes, Digest, Effect, Grants, Labels, Outcome, TapeEntry, TurnRecord, Undone, canonical,
};
use proptest::prelude::*;
use turn::{Turn, body, get};

const ALL: &str = "@id(\"all\") permit (principal, action, resource);";

/// The rule that all presets have, and one that names a single label.
const RULES: &str = "
@id(\"all\") permit (principal, action, resource);
@id(\"both\") forbid (principal, action == Action::\"http.fetch\", resource)
when { context.labels.containsAll([\"private\", \"untrusted\"]) };
@id(\"made-up\") forbid (principal, action, resource) when { context.labels.contains(\"made-up\") };";

const GRANTS: &[&str] = &[
    "storage",
    "agent:other",
    "http:web.example",
    "http:ours.example",
    "trusted:ours.example",
    "http:mail.example",
    "private:mail.example",
    "http:http://desk.example:8080",
    "trusted:http://desk.example:8080",
    "private:http://desk.example:8080",
];

fn grants() -> Grants {
    Grants::new(GRANTS.iter().map(|grant| grant.parse().unwrap()).collect())
}

fn done() -> Outcome {
    Outcome::Done(Answer::Response(Response { status: 204, headers: Vec::new(), body: Bytes::default() }))
}

#[test]
fn what_comes_back_is_marked_by_where_it_comes_from() {
    for (url, labels) in [
        ("https://web.example/", vec!["untrusted"]),
        ("https://ours.example/a?b", vec![]),
        ("https://mail.example/", vec!["private", "untrusted"]),
        ("http://desk.example:8080/", vec!["private"]),
        // Another scheme or port is another host.
        ("http://ours.example/", vec!["untrusted"]),
        ("https://ours.example:8443/", vec!["untrusted"]),
        ("https://desk.example:8080/", vec!["untrusted"]),
        ("https://ours.example.evil.example/", vec!["untrusted"]),
        ("no URL at all", vec!["untrusted"]),
    ] {
        let found = added(&get(url), &done(), &grants());
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), labels, "{url}");
        assert!(added(&get(url), &Outcome::Failed("no route".into()), &grants()).is_empty(), "{url}");
    }
    let key = Effect::StorageGet { key: "k".into() };
    assert!(added(&key, &Outcome::Done(Answer::Entry(None)), &grants()).is_empty());
}

#[test]
fn marks_grant_no_access() {
    for mark in ["trusted:web.example", "private:web.example"] {
        let mut turn = Turn::new(ALL, &[mark]);
        let outcome = turn.ask(get("https://web.example/"), body(1));
        let Outcome::Refused(no) = outcome else { panic!("{mark}: {outcome:?}") };
        assert_eq!(no.code, Code::EgressDenied, "{no}");
        assert!(turn.seen().is_empty());
    }
    for (text, says) in
        [("trusted:", "is not a grant"), ("private:a/b", "is not a grant"), ("trusted:ftp://a", "is not a grant")]
    {
        assert!(text.parse::<lazaret_gate::Grant>().unwrap_err().to_string().contains(says), "{text}");
    }
    let spelled: lazaret_gate::Grant = "trusted:https://ours.example:443".parse().unwrap();
    assert_eq!(spelled.to_string(), "trusted:ours.example");
}

#[test]
fn a_label_holds_for_the_next_ask_and_the_gate_counts_for_itself() {
    let mut turn = Turn::new(RULES, GRANTS);
    // The host's word for labels is not taken: rule `made-up` would forbid everything.
    assert!(matches!(turn.ask(get("http://desk.example:8080/"), body(3)), Outcome::Done(_)));
    assert_eq!(turn.seen(), ["private"]);
    assert!(matches!(turn.ask(get("https://web.example/"), Err("no route".into())), Outcome::Failed(_)));
    assert_eq!(turn.seen(), ["private"], "what failed has brought nothing");
    assert!(matches!(turn.ask(get("https://web.example/"), body(3)), Outcome::Done(_)));
    assert_eq!(turn.seen(), ["private", "untrusted"]);
    let Outcome::Refused(no) = turn.ask(get("https://web.example/"), body(3)) else { panic!("it has both") };
    assert_eq!(no.code, Code::Forbidden);
    assert!(no.reason.contains("rule `both`"), "{no}");
    let found = |at: usize| turn.tape[at].1.as_ref().unwrap().under.facts.labels.len();
    assert_eq!([found(0), found(1), found(2), found(3)], [0, 1, 1, 2], "each ask's are on record");
}

#[test]
fn an_old_record_is_judged_as_it_was() {
    let mut turn = Turn::new(RULES, GRANTS);
    turn.labels = None;
    for _ in 0..3 {
        assert!(matches!(turn.ask(get("https://mail.example/"), body(3)), Outcome::Done(_)));
    }
    assert!(turn.tape.iter().all(|(_, ruling, _)| ruling.as_ref().unwrap().under.facts.labels.is_empty()));
    // And reads and is written as it was.
    let old = br#"{"body":"","content_type":"a/b","sender":null}"#;
    let message: Message = canonical::decode(old).unwrap();
    assert_eq!((canonical::encode(&message).unwrap(), message.labels.len()), (old.to_vec(), 0));
    let judged = format!(
        r#"{{"caps":{},"day":1,"rulings":[],"spending":{}}}"#,
        String::from_utf8(canonical::encode(&turn.caps).unwrap()).unwrap(),
        String::from_utf8(canonical::encode(turn.account()).unwrap()).unwrap()
    );
    let read: Judged = canonical::decode(judged.as_bytes()).unwrap();
    assert_eq!((read.labels.clone(), canonical::encode(&read).unwrap()), (None, judged.into_bytes()));
}

fn outcome() -> impl Strategy<Value = Result<Answer, Undone>> {
    prop_oneof![
        3 => (0_usize..40).prop_map(body),
        1 => Just(Err(Undone::Failed("no route".into()))),
        1 => Just(Err(Undone::TooLarge)),
    ]
}

fn record(turn: &Turn, input: Message, ending: Ending) -> TurnRecord {
    let agent: AgentId = "clerk".parse().unwrap();
    let tape = turn.tape.iter().map(|(effect, _, outcome)| TapeEntry {
        effect: effect.clone(),
        outcome: outcome.clone(),
        ruling: None,
    });
    TurnRecord {
        agent,
        turn: 1,
        previous: Digest::of(b""),
        component: Digest::of(b""),
        engine: Digest::of(b""),
        grants: grants(),
        budget: Budget::default(),
        image_before: None,
        input,
        tape: tape.collect(),
        judged: Digest::of(b""),
        ending,
        fuel: 0,
        image_after: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// In a turn, labels only grow; and what the record says of it afterwards is what the gate counted.
    #[test]
    fn labels_only_grow(asks in prop::collection::vec((0_usize..6, outcome()), 0..8), before in 0_u8..4, sent in 0_u8..4) {
        let some = |bits: u8| -> Labels {
            let names = ["private", "from-a-peer"].into_iter().enumerate();
            names.filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| name.to_owned()).collect()
        };
        let (before, input) = (some(before), Message { labels: some(sent), ..Message::outside("", "") });
        let mut turn = Turn::new(RULES, GRANTS);
        turn.labels = Some(lazaret_gate::labels::at_start(&before, &input));
        for (which, with) in asks {
            let had = turn.labels.clone().unwrap();
            let urls = ["https://web.example/", "https://ours.example/", "https://mail.example/",
                        "http://desk.example:8080/", "https://not-granted.example/", "https://web.example/a/../b"];
            turn.ask(get(urls[which]), with);
            prop_assert!(turn.labels.as_ref().unwrap().is_superset(&had));
        }
        let replied = Ending::Replied(Reply { content_type: String::new(), body: Bytes::default() });
        let kept = record(&turn, input.clone(), replied);
        prop_assert_eq!(&after(Some(&before), &kept), turn.labels.as_ref().unwrap());
        prop_assert!(after(None, &kept).is_empty(), "nobody counted then");
        let failed = record(&turn, input, Ending::Failed(Failure::Failed("no".into())));
        prop_assert_eq!(after(Some(&before), &failed), before, "nothing of it is kept, also not what was seen");
    }
}

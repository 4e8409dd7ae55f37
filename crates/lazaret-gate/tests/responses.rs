//! How large a response may be: what `@maxResponse` may say, which of several holds, and that the gate holds agents to it.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, reason = "a test says what is wrong by failing")]

mod turn;

use lazaret_gate::approval::{Decision, Draft, Moment, Now, Question, Requester, Scope, Verdict};
use lazaret_gate::canonical::Bytes;
use lazaret_gate::ledger::Caps;
use lazaret_gate::policy::{Facts, MaxResponse, Policies, Request, Who};
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::risk::Around;
use lazaret_gate::ruling::{Answered, Asked};
use lazaret_gate::{Circumstance, Effect, Grants, Outcome, Refusal, Undone};
use turn::{Turn, body, get, rulebook};

const URL: &str = "https://api.example/v1";
const GRANTS: &[&str] = &["http:api.example", "storage"];

fn load(text: &str) -> Result<Policies, String> {
    let loaded = Policies::load(&[("rules.cedar", text)]);
    loaded.map_err(|problems| problems.iter().map(|problem| format!("{problem}\n")).collect())
}

fn rule(id: &str, marks: &str) -> String {
    format!("@id(\"{id}\") {marks}\npermit (principal, action == Action::\"http.fetch\", resource);\n")
}

fn decided(rules: &str, effect: &Effect) -> (lazaret_gate::policy::Decision, lazaret_gate::policy::Why) {
    let (book, agent) = (rulebook(rules), "clerk".parse().unwrap());
    let facts = Facts { run: "r".into(), tier: "A".into(), ..Facts::default() };
    let risk = book.risks().weigh(effect, &Around::of(effect, &Grants::default(), None));
    let request = Request::of(effect, &Who::agent(&agent, None), &facts, &risk).unwrap();
    assert_eq!(book.decide(&request), book.policies().decide(&request), "cached or not");
    (book.decide(&request), book.policies().why(&request))
}

fn most(rules: &str) -> Option<(u64, String)> {
    decided(rules, &get(URL)).0.max_response.map(|MaxResponse { bytes, rule }| (bytes, rule))
}

fn too_large(outcome: Outcome) -> Refusal {
    let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
    assert_eq!((refusal.code, refusal.layer), (Code::ResponseTooLarge, Layer::Policy), "{refusal}");
    refusal
}

#[test]
fn sizes_are_bytes_or_have_a_unit() {
    for (written, bytes) in [("0", 0), ("65536", 65536), ("64KiB", 65536), ("1MiB", 1 << 20), ("1048576", 1 << 20)] {
        assert_eq!(most(&rule("a", &format!("@maxResponse(\"{written}\")"))), Some((bytes, "a".into())), "{written}");
    }
    let sizes = "write bytes, as in \"65536\", \"64KiB\" or \"1MiB\"; the host takes 1048576 at most";
    for bad in
        ["", "-1", "+1", "01", "1.5", "1e3", "1 KiB", "1kib", "1KB", "KiB", "1048577", "2MiB", "99999999999999999999"]
    {
        let text = format!("// first\n{}", rule("a", &format!("@maxResponse(\"{bad}\")")));
        let says = format!("rules.cedar:2:1: `@maxResponse` of `{bad}`, which is not a size ({sizes})\n");
        assert_eq!(load(&text).unwrap_err(), says);
    }
    let bare = load(&rule("a", "@maxResponse")).unwrap_err();
    assert!(bare.starts_with("rules.cedar:1:1: `@maxResponse` of ``, which is not a size"), "{bare}");
}

#[test]
fn it_stands_where_it_means_something() {
    let says = |text: &str| load(text).unwrap_err();
    assert_eq!(
        says("\n@id(\"a\") @maxResponse(\"9\")\nforbid (principal, action == Action::\"http.fetch\", resource);"),
        "rules.cedar:2:1: `@maxResponse` on a forbid (what is forbidden has no response; drop the annotation, or permit)\n"
    );
    assert_eq!(
        says("@id(\"a\") @maxResponse(\"9\") permit (principal, action in Action::\"storage.*\", resource);"),
        "rules.cedar:1:1: `@maxResponse` on a permit that no request can match (only `http.fetch` has a response; drop the \
         annotation, or permit that)\n"
    );
    for action in ["action", "action in Action::\"http.*\"", "action in [Action::\"tool.*\", Action::\"http.fetch\"]"] {
        load(&format!("@id(\"a\") @maxResponse(\"9\") permit (principal, {action}, resource);")).unwrap();
    }
}

#[test]
fn the_smallest_of_all_that_match_holds() {
    let never = "@id(\"never\") @maxResponse(\"1\")\npermit (principal, action == Action::\"http.fetch\", resource) when \
                 { context.method == \"POST\" };";
    let rules = [
        rule("free", ""),
        rule("large", "@maxResponse(\"1KiB\")"),
        rule("small", "@maxResponse(\"9\")"),
        rule("other", "@maxResponse(\"9\")"),
        never.to_owned(),
    ]
    .concat();
    assert_eq!(most(&rules), Some((9, "other".into())), "the first by name of those that are equal");
    assert_eq!(most(&rule("free", "")), None);
    // A question is asked by one rule, and the limit may stand in another.
    let rules = [rule("ask", "@requireApproval(\"look\")"), rule("small", "@maxResponse(\"9\")")].concat();
    let (decision, why) = decided(&rules, &get(URL));
    assert_eq!((decision.verdict.name(), decision.rules), ("ask", vec!["ask".to_owned()]));
    assert_eq!(decision.max_response, Some(MaxResponse { bytes: 9, rule: "small".into() }));
    assert_eq!(why.response().unwrap(), "at most 9 bytes, by rule `small`");
    assert!(why.to_string().contains("\n  answer:  at most 9 bytes, by rule `small`\n"), "{why}");
    assert!(why.reason().ends_with("asks first: look; the response may have at most 9 bytes, by rule `small`"));
    // Nothing else has a response, so nothing is said of one.
    let all = "@id(\"all\") @maxResponse(\"9\") permit (principal, action, resource);";
    assert_eq!(decided(all, &Effect::StorageGet { key: "k".into() }).1.response(), None);
}

#[test]
fn a_larger_answer_is_withheld() {
    let mut turn = Turn::new(&rule("small", "@maxResponse(\"9\")"), GRANTS);
    assert!(matches!(turn.ask(get(URL), body(9)), Outcome::Done(_)));
    assert_eq!(turn.seen(), ["untrusted"]);
    let mut turn = Turn::new(&rule("small", "@maxResponse(\"9\")"), GRANTS);
    // Whether the executor stopped early or not, the gate says the same.
    let by_gate = too_large(turn.ask(get(URL), body(10)));
    let by_executor = too_large(turn.ask(get(URL), Err(Undone::TooLarge)));
    assert_eq!(by_gate, by_executor);
    assert_eq!(
        by_gate.to_string(),
        "refused (response-too-large, policy): `http.fetch` to `api.example`: it was sent, and the answer is withheld: its \
         body has more than the 9 bytes that rule `small` (rules.cedar:1) lets come back; an operator can raise \
         `@maxResponse` of rule `small` in rules.cedar"
    );
    assert!(turn.seen().is_empty(), "the agent was told nothing of it");
    // Where no rule says how large it may be, nobody can say that it is too large.
    let mut turn = Turn::new(&rule("free", ""), GRANTS);
    assert!(matches!(turn.ask(get(URL), Err(Undone::TooLarge)), Outcome::Failed(_)));
    assert!(matches!(turn.ask(get(URL), body(1 << 20)), Outcome::Done(_)));
}

#[test]
fn what_was_read_of_it_counts_against_the_host() {
    let mut turn = Turn::new(&rule("small", "@maxResponse(\"64KiB\")"), GRANTS);
    turn.caps = Caps::default();
    turn.caps.set("host.api.example.bytes_per_day", "1000000").unwrap();
    too_large(turn.ask(get(URL), Err(Undone::TooLarge)));
    let used = turn.account().hosts()["api.example"].bytes;
    assert_eq!(used, get(URL).weight() + (64 << 10));
}

/// Asked under one set of rules and approved; by then another is in force.
fn approved(then: &str) -> Outcome {
    let mut turn = Turn::new(&rule("ask", "@requireApproval(\"look\") @maxResponse(\"9\")"), GRANTS);
    let later = rulebook(then);
    turn.now.others = vec![later.clone()];
    turn.now.answers = Box::new(move |matter, under| {
        let now = |ms| Now { moment: Moment { wall_ms: ms, monotonic_ms: ms }, boot: "b".into() };
        let draft = Draft {
            id: "q".into(),
            agent: "clerk".parse().unwrap(),
            run: "r".into(),
            effect: matter.effect.clone(),
            // The approver was told of the rules that are in force when it runs.
            policy: later.digest(),
            rule: matter.rule.into(),
            reason: matter.reason.into(),
            risk: matter.risk.clone(),
            labels: Vec::new(),
            nonce: Bytes(vec![0; 16]),
            requester: Requester::Agent("clerk".parse().unwrap()),
        };
        let question = Question::ask(draft, &now(5), 1000).unwrap();
        let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
        let decision = Decision::sign(&question, Verdict::Approve, Scope::Once, 6, &key).unwrap();
        let answer = Answered { decision, key: Bytes(key.verifying_key().as_bytes().to_vec()), at: now(6) };
        let then = Circumstance { rulebook: later.digest(), ..under.clone() };
        Asked { question, answer: Some(answer), at: now(7), then, ignored: Vec::new() }
    });
    turn.ask(get(URL), body(20))
}

#[test]
fn after_a_wait_the_rules_of_then_hold() {
    let no = too_large(approved(&rule("tighter", "@maxResponse(\"19\")")));
    assert!(no.reason.contains("the 19 bytes that rule `tighter`"), "{no}");
    assert!(matches!(approved(&rule("wider", "@maxResponse(\"20\")")), Outcome::Done(_)));
    assert!(matches!(approved(&rule("free", "")), Outcome::Done(_)));
}

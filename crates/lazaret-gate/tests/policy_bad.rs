//! What is wrong with rules and requests is said, and nothing is permitted by it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use lazaret_gate::policy::{Cached, Context, Kind, Policies, Request, Uid, Verdict, Who, preset, testing};

fn log() -> Request {
    Request {
        principal: Who { kind: Kind::Agent, id: "clerk".into(), parents: vec![Uid::new(Kind::App, "mail")] },
        action: "log.write".into(),
        resource: Uid::new(Kind::Namespace, "clerk"),
        context: Context::default(),
    }
}

/// Sums that don't fit, for numbers at their greatest.
const TOO_MUCH: &[&str] = &[
    "context.spent + 1 > 0",
    "context.spent + context.time > 0",
    "0 - context.spent - 2 < 0",
    "context.spent * 2 > 0",
    "-(0 - context.spent - 1) > 0",
    "context.labels.contains(\"x\") || context.spent * context.time == 0",
];

#[test]
fn a_sum_that_overflows_denies_with_the_rule_and_the_reason() {
    let mut most = log();
    (most.context.spent, most.context.time) = (i64::MAX, i64::MAX);
    let cached = Cached::new(100);
    for sum in TOO_MUCH {
        for effect in ["permit", "forbid", "@requireApproval(\"x\") permit"] {
            for clause in ["when", "unless"] {
                let text = format!(
                    "@id(\"all\") permit (principal, action, resource);
                     @id(\"bad\") {effect} (principal, action == Action::\"log.write\", resource) {clause} {{ {sum} }};"
                );
                let policies = Policies::load(&[("a.cedar", text)]).unwrap();
                let found = policies.decide(&most);
                assert_eq!(
                    (&found.verdict, found.rules.as_slice()),
                    (&Verdict::Deny, &["bad".to_owned()][..]),
                    "{sum}"
                );
                assert!(found.errors[0].starts_with("rule `bad`: integer overflow"), "{:?}", found.errors);
                assert_eq!(cached.decide(&policies, &most), found);
                let why = policies.why(&most);
                assert!(why.reason().contains("can't be decided: rule `bad`: integer overflow"), "{}", why.reason());
                // Numbers that fit are decided.
                assert!(policies.decide(&log()).errors.is_empty(), "{sum}");
            }
        }
    }
}

#[test]
fn numbers_that_are_none_are_no_request() {
    let text = serde_json::to_string(&log()).unwrap();
    let field = r#""spent":0"#;
    assert!(text.contains(field) && serde_json::from_str::<Request>(&text).is_ok());
    for (number, says) in [
        ("NaN", "expected value"),
        ("Infinity", "expected value"),
        ("-Infinity", "invalid number"),
        ("1e999", "number out of range"),
        ("1e3", "expected a whole number"),
        ("0.5", "expected a whole number"),
        ("9223372036854775808", "larger than 2^63-1"),
        ("-9223372036854775809", "expected a whole number"),
        ("\"NaN\"", "`NaN` is not a whole number"),
        ("\"9223372036854775808\"", "is not a whole number"),
        ("null", "expected a whole number"),
        ("[1]", "expected a whole number"),
    ] {
        let found = serde_json::from_str::<Request>(&text.replace(field, &format!("\"spent\":{number}")));
        let found = found.unwrap_err().to_string();
        assert!(found.contains(says), "{number}: {found}");
    }
    let policies = Policies::load(&[preset("open").unwrap()]).unwrap();
    let case = |spent: &str| {
        format!(
            "[[case]]\nname = \"n\"\nexpect = \"allow\"\naction = \"log.write\"
             principal = {{ kind = \"Agent\", id = \"a\" }}\nresource = {{ kind = \"Namespace\", id = \"a\" }}
             context = {{ spent = {spent} }}"
        )
    };
    assert!(testing::run(&policies, &case("1")).unwrap()[0].passed);
    for number in ["nan", "inf", "-inf", "1.0", "9223372036854775808", "\"1e3\"", "true"] {
        let found = testing::run(&policies, &case(number)).unwrap_err();
        assert!(found.line >= 1 && !found.what.is_empty(), "{number}: {found:?}");
    }
}

#[test]
fn nothing_belongs_to_itself_not_even_by_a_roundabout_way() {
    let policies = Policies::load(&[preset("open").unwrap()]).unwrap();
    let who = |kind: Kind, id: &str, parents: &[(Kind, &str)]| Who {
        kind,
        id: id.into(),
        parents: parents.iter().map(|(kind, id)| Uid::new(*kind, *id)).collect(),
    };
    for (circle, says) in [
        (who(Kind::Agent, "a", &[(Kind::Agent, "a")]), "Agent::\"a\" can't belong to Agent::\"a\""),
        (who(Kind::Agent, "a", &[(Kind::App, "m"), (Kind::Agent, "b")]), "Agent::\"a\" can't belong to Agent::\"b\""),
        (who(Kind::App, "m", &[(Kind::Agent, "a")]), "App::\"m\" can't belong to Agent::\"a\""),
        (who(Kind::App, "m", &[(Kind::App, "m")]), "App::\"m\" can't belong to App::\"m\""),
        (who(Kind::Workflow, "w", &[(Kind::Workflow, "v")]), "Workflow::\"w\" can't belong to Workflow::\"v\""),
    ] {
        let asked = Request { principal: circle, ..log() };
        let found = policies.decide(&asked);
        assert_eq!((&found.verdict, found.errors.as_slice()), (&Verdict::Deny, &[says.to_owned()][..]));
        assert_eq!(Cached::new(9).decide(&policies, &asked), found);
    }
    // One name for two kinds is no circle, and neither is asking for oneself.
    let own = Request { principal: who(Kind::Agent, "a", &[(Kind::App, "a")]), ..log() };
    assert!(policies.decide(&own).errors.is_empty());
    let mail = Context { content_type: Some("a/b".into()), ..Context::default() };
    let (action, resource) = ("message.send".to_owned(), Uid::new(Kind::Agent, "a"));
    assert!(policies.decide(&Request { action, resource, context: mail, ..own }).errors.is_empty());
}

#[test]
fn a_preset_cut_off_or_garbled_is_refused_or_is_whole_rules() {
    let (name, text) = preset("locked-down").unwrap();
    let whole = Policies::load(&[(name, text)]).unwrap();
    for end in (0..text.len()).step_by(41).filter(|end| text.is_char_boundary(*end)) {
        let cut = &text[..end];
        match Policies::load_after(&[(name, cut)], Some(&whole)) {
            Ok(some) => assert!(some.ids().all(|id| whole.source(id).is_some()), "{cut}"),
            Err(problems) => assert!(!problems.is_empty() && problems.iter().all(|problem| problem.at.file == name)),
        }
    }
    for byte in ["\0", "\"", "{", "}", "\\", "@", ";", "\u{feff}", "\u{202e}", "é"] {
        for at in (0..text.len()).step_by(397).filter(|at| text.is_char_boundary(*at)) {
            let garbled = format!("{}{byte}{}", &text[..at], &text[at..]);
            // What comes after a set that is known is found out as if nothing were.
            let (fast, slow) =
                (Policies::load_after(&[(name, &garbled)], Some(&whole)), Policies::load(&[(name, &garbled)]));
            assert_eq!(fast.map(|set| set.digest()).map_err(|found| format!("{found:?}")), {
                slow.map(|set| set.digest()).map_err(|found| format!("{found:?}"))
            });
        }
    }
}

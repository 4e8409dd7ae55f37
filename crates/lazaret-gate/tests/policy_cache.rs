//! The cache, the slices and the mapping beside bare Cedar: random rules and random requests, and every answer the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{AuthorizationError, Authorizer, Entities, EntityUid, Schema};
use lazaret_gate::policy::{
    ACTIONS, Cached, Context, Decision, Kind, MaxResponse, Policies, Request, RiskFacts, SCHEMA, Shape, Uid, Verdict,
    Who,
};
use lazaret_gate::risk::RiskTier;
use lazaret_gate::trust::Score;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

/// Conditions that fit every action.
const ANYWHERE: &[&str] = &[
    "context.risk.tier == \"high\"",
    "context.risk.score > 500",
    "context.risk has tier",
    "context.risk == {tier: \"low\", score: 0}",
    "context.labels.contains(\"private\")",
    "context.labels.containsAll([\"private\", \"untrusted\"])",
    "context.labels.isEmpty()",
    "context.labels == [\"untrusted\"]",
    "context.run == \"r1\"",
    "context.run like \"r*\"",
    "context has device",
    "context has device && context.device == \"d1\"",
    "context has device && context[\"device\"] == context.run",
    "context.tier == \"A\"",
    "context.spent + 1 > 5",
    "context.time - context.spent < 3",
    "context.bytes * 4611686018427387904 > 0",
    "context has amount && context.amount > 3",
    "context has trust",
    "context has trust && context.trust < 50",
    "context has trust && context[\"trust\"] * 2 > context.spent",
    "(if context.time > 2 then context.spent else context.bytes) > 1",
    "principal is Agent",
    "principal in App::\"mail\"",
    "principal is Agent in App::\"mail\"",
    "principal is Agent && principal == Agent::\"clerk\"",
    "[context.run, context.tier].contains(\"A\")",
    "{a: context}.a.run == \"r2\"",
    "(if context.spent > 2 then context else context).run == \"r1\"",
    "Agent::\"clerk\" in App::\"mail\"",
    "(if context.spent > 2 then Agent::\"clerk\" else Agent::\"miller\") in App::\"mail\"",
    "Host::\"a.example.com\" in Host::\"example.com\"",
    "resource is Host && resource in Host::\"example.com\"",
    "resource is Tool && resource == Tool::\"mail.list\"",
    "resource is Agent && resource in App::\"mail\"",
    "(resource is Agent && principal is Agent) && principal == resource",
    "action in Action::\"tool.*\"",
    "action == Action::\"http.fetch\"",
];

const HTTP: &[&str] = &[
    "context.method == \"GET\"",
    "[\"GET\", \"HEAD\"].contains(context.method)",
    "context.scheme == \"https\"",
    "context.port == 443",
    "context.path like \"/v1/*\"",
    "context has content_type && context.content_type like \"text/*\"",
];

const SCOPES: &[(&str, &[&str])] = &[
    ("principal, action, resource", &[]),
    ("principal is Agent, action, resource", &[]),
    ("principal in App::\"mail\", action, resource", &[]),
    ("principal == Agent::\"clerk\", action, resource", &[]),
    ("principal is Agent in App::\"mail\", action, resource", &[]),
    ("principal is Workflow in App::\"web\", action, resource is Namespace", &[]),
    ("principal in App::\"web\", action in [Action::\"http.fetch\"], resource is Host in Host::\"com\"", HTTP),
    ("principal == App::\"clerk\", action == Action::\"tool.call\", resource == Tool::\"mail\"", &[]),
    ("principal == App::\"mail\", action, resource", &[]),
    ("principal, action == Action::\"tool.call\", resource == Tool::\"mail\"", &[]),
    ("principal, action == Action::\"http.fetch\", resource == Host::\"example.com\"", HTTP),
    ("principal, action in Action::\"http.*\", resource", HTTP),
    ("principal, action == Action::\"http.fetch\", resource in Host::\"example.com\"", HTTP),
    ("principal, action == Action::\"http.fetch\", resource is Host", HTTP),
    ("principal, action == Action::\"tool.call\", resource in Tool::\"mail\"", &[]),
    ("principal, action in [Action::\"tool.*\", Action::\"message.*\"], resource", &[]),
    ("principal, action in Action::\"storage.*\", resource", &["context.path like \"k*\"", "context.path == \"k1\""]),
    ("principal, action == Action::\"message.send\", resource in App::\"mail\"", &["context.content_type == \"a/b\""]),
    ("principal, action == Action::\"message.send\", resource == Agent::\"clerk\"", &[]),
];

fn rule() -> impl Strategy<Value = String> {
    let scope = select(SCOPES);
    scope.prop_flat_map(|(scope, own)| {
        let conditions: Vec<&'static str> = ANYWHERE.iter().chain(own).copied().collect();
        let piece = (select(conditions), any::<bool>()).prop_map(|(text, not)| match not {
            true => format!("!({text})"),
            false => format!("({text})"),
        });
        let clause = (prop::collection::vec(piece, 1..3), select(&["&&", "||"][..]), select(&["when", "unless"][..]))
            .prop_map(|(pieces, with, word)| format!("{word} {{ {} }}", pieces.join(&format!(" {with} "))));
        let head = prop_oneof![
            4 => Just("permit"),
            2 => Just("forbid"),
            2 => Just("@requireApproval(\"why\") permit"),
            1 => Just("@maxResponse(\"9\") permit"),
            1 => Just("@requireApproval(\"why\") @maxResponse(\"10\") permit"),
        ];
        (head, prop::collection::vec(clause, 0..3))
            .prop_map(move |(head, clauses)| format!("{head} ({scope}) {};", clauses.join(" ")))
    })
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0..6_i64, 1 => Just(i64::MAX), 1 => Just(i64::MAX - 1)]
}

fn context(shape: Shape) -> impl Strategy<Value = Context> {
    let labels = prop::collection::btree_set(select(&["private", "untrusted", "x"][..]), 0..3);
    let device = prop::option::of(select(&["d1", "r1"][..]));
    let facts = (labels, select(&["r1", "r2", "A"][..]), device, number(), number(), number());
    let risk = (select(&[RiskTier::Low, RiskTier::High][..]), select(&[0_u32, 501][..]));
    let trust = prop::option::of(select(&[0_u8, 2, 49, 50, 100][..]));
    let asked = (
        select(&["GET", "POST"][..]),
        select(&["https", "http"][..]),
        select(&["/v1/x", "k1", "/"][..]),
        prop::option::of(select(&["text/plain", "a/b"][..])),
        prop::option::of(0..6_i64),
        select(&["A", "B"][..]),
    );
    (facts, risk, asked, trust).prop_map(move |(facts, risk, asked, trust)| {
        let (labels, run, device, spent, time, bytes) = facts;
        let (method, scheme, path, content_type, amount, tier) = asked;
        let http = shape == Shape::Http;
        // A secret goes somewhere, or only its name is asked for.
        let sent = shape == Shape::Secret && content_type.is_some();
        let away = http || sent;
        Context {
            risk: RiskFacts { tier: risk.0, score: risk.1 },
            labels: labels.into_iter().map(str::to_owned).collect(),
            run: run.into(),
            device: device.map(str::to_owned),
            tier: tier.into(),
            spent,
            time,
            bytes,
            arguments: "0".repeat(64),
            amount,
            trust: trust.map(|hundredths| Score::try_from(hundredths).unwrap()),
            host: sent.then(|| "h.example".to_owned()),
            method: away.then(|| method.to_owned()),
            scheme: away.then(|| scheme.to_owned()),
            port: away.then_some(443),
            path: (away || shape == Shape::Storage).then(|| path.to_owned()),
            content_type: match shape {
                Shape::Http => content_type.map(str::to_owned),
                Shape::Message => Some("a/b".to_owned()),
                _ => None,
            },
        }
    })
}

fn request() -> impl Strategy<Value = Request> {
    let actions: Vec<_> = ACTIONS
        .iter()
        .filter(|action| ["http.fetch", "tool.call", "storage.get", "message.send", "log.write"].contains(&action.name))
        .collect();
    select(actions).prop_flat_map(|action| {
        let parents = prop_oneof![Just(vec![]), Just(vec!["mail"]), Just(vec!["mail", "web"]), Just(vec!["web"])];
        let who =
            (select(action.principals), select(&["clerk", "miller"][..]), parents).prop_map(|(kind, id, apps)| {
                let above = match kind {
                    Kind::Agent | Kind::Workflow => Some(Kind::App),
                    Kind::Device => Some(Kind::Operator),
                    _ => None,
                };
                let parents = above.into_iter().flat_map(|kind| apps.iter().map(move |app| Uid::new(kind, *app)));
                Who { kind, id: id.into(), parents: parents.collect() }
            });
        let names = match action.resources[0] {
            Kind::Host => &["example.com", "a.example.com", "10.0.0.1"][..],
            Kind::Tool => &["mail.list", "mail", "other"],
            _ => &["clerk", "miller"],
        };
        let resource = (select(action.resources), select(names)).prop_map(|(kind, id)| Uid::new(kind, id));
        (who, resource, context(action.shape)).prop_map(|(principal, resource, context)| Request {
            principal,
            action: action.name.into(),
            resource,
            context,
        })
    })
}

/// The same request put to Cedar by hand: from JSON, checked against the schema, all rules at once.
fn bare(schema: &Schema, policies: &Policies, request: &Request) -> Decision {
    let uid = |kind: &str, id: &str| format!("{kind}::{id:?}").parse::<EntityUid>().unwrap();
    let action = uid("Action", &request.action);
    let json = serde_json::to_value(&request.context).unwrap();
    let numbers = ["spent", "time", "bytes"];
    let fields = json.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    // Numbers that JSON would round are spelled as text.
    let fields = fields.map(|(name, value)| match value.as_str().filter(|_| numbers.contains(&name.as_str())) {
        Some(text) => (name.clone(), text.parse::<i64>().unwrap().into()),
        None => (name.clone(), value.clone()),
    });
    let context = serde_json::Value::Object(fields.collect());
    let context = cedar_policy::Context::from_json_value(context, Some((schema, &action))).unwrap();
    let who = &request.principal;
    let above = |kind: Kind, id: &str| serde_json::json!({"type": kind.name(), "id": id});
    let mut entities = vec![serde_json::json!({
        "uid": above(who.kind, &who.id), "attrs": {},
        "parents": who.parents.iter().map(|parent| above(parent.kind, &parent.id)).collect::<Vec<_>>(),
    })];
    if (who.kind, &who.id) != (request.resource.kind, &request.resource.id) {
        let within: &[&str] = match request.resource.id.as_str() {
            "example.com" => &["com"],
            "a.example.com" => &["example.com", "com"],
            "mail.list" => &["mail"],
            _ => &[],
        };
        let parents: Vec<_> = within.iter().map(|id| above(request.resource.kind, id)).collect();
        let uid = above(request.resource.kind, &request.resource.id);
        entities.push(serde_json::json!({"uid": uid, "attrs": {}, "parents": parents}));
    }
    let entities = Entities::from_json_value(entities.into(), Some(schema)).unwrap();
    let (principal, resource) =
        (uid(who.kind.name(), &who.id), uid(request.resource.kind.name(), &request.resource.id));
    let asked = cedar_policy::Request::new(principal, action, resource, context, Some(schema)).unwrap();
    let answer = Authorizer::new().is_authorized(&asked, &policies.whole(), &entities);
    let allowed = answer.decision() == cedar_policy::Decision::Allow;
    let matched: BTreeSet<String> = answer.diagnostics().reason().map(ToString::to_string).collect();
    let failed = answer.diagnostics().errors().map(|AuthorizationError::PolicyEvaluationError(error)| {
        (error.policy_id().to_string(), format!("rule `{}`: {}", error.policy_id(), error.inner()))
    });
    let failed: BTreeMap<String, String> = failed.collect();
    if !allowed || !failed.is_empty() {
        let forbids = matched.into_iter().filter(|_| !allowed);
        let rules: BTreeSet<String> = forbids.chain(failed.keys().cloned()).collect();
        let errors = failed.into_values().collect();
        return Decision { verdict: Verdict::Deny, rules: rules.into_iter().collect(), errors, max_response: None };
    }
    let limit = |id: &String| {
        let (_, after) = policies.source(id).unwrap().0.split_once("@maxResponse(\"")?;
        Some((after.split('"').next().unwrap().parse::<u64>().unwrap(), id.clone()))
    };
    let max_response = matched.iter().filter_map(limit).min().map(|(bytes, rule)| MaxResponse { bytes, rule });
    let asks = |id: &String| policies.source(id).unwrap().0.contains("@requireApproval");
    let asking: Vec<String> = matched.iter().filter(|id| asks(id)).cloned().collect();
    let (verdict, rules) = match asking.is_empty() {
        true => (Verdict::Allow, matched.into_iter().collect()),
        false => (Verdict::Ask { reason: "why".into() }, asking),
    };
    Decision { verdict, rules, errors: Vec::new(), max_response }
}

#[test]
fn cached_uncached_and_bare_answers_are_the_same() {
    let (schema, _) = Schema::from_cedarschema_str(SCHEMA).unwrap();
    let cases = if cfg!(debug_assertions) { 96 } else { 1_000 };
    let mut runner = TestRunner::new(Config { cases, ..Config::default() });
    let cached = Cached::new(64);
    let (loaded, hits, failures) = (Cell::new(0_u32), Cell::new(0_u32), Cell::new(0_u32));
    let given = (prop::collection::vec(rule(), 1..6), prop::collection::vec(request(), 24));
    let outcome = runner.run(&given, |(rules, requests)| {
        let named = rules.iter().enumerate().map(|(n, rule)| format!("@id(\"r{n}\") {rule}\n"));
        // A rule that can never apply is refused when it is loaded: leave such out.
        let fit = named.filter(|rule| Policies::load(&[("a", rule)]).is_ok()).collect::<String>();
        let policies = Policies::load(&[("a", &fit)]).unwrap();
        loaded.set(loaded.get() + u32::from(!policies.is_empty()));
        // Another set with some of the same rules, which shares their answers.
        let rest = fit.lines().skip(1).collect::<String>();
        let other = Policies::load_after(&[("b", &rest)], Some(&policies)).unwrap();
        prop_assert_eq!(other.digest(), Policies::load(&[("b", &rest)]).unwrap().digest());
        for request in requests.iter().chain(requests.iter().take(6)) {
            let before = cached.len();
            let plain = policies.decide(request);
            prop_assert_eq!(&cached.decide(&policies, request), &plain, "{:?}", request);
            hits.set(hits.get() + u32::from(cached.len() == before));
            prop_assert!(cached.len() <= 64);
            prop_assert_eq!(&bare(&schema, &policies, request), &plain, "{:?}", request);
            failures.set(failures.get() + u32::from(!plain.errors.is_empty()));
            prop_assert_eq!(&cached.decide(&other, request), &bare(&schema, &other, request), "{:?}", request);
            // An explanation never contradicts.
            prop_assert_eq!(policies.why(request).decision, plain);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|why| panic!("{why}"));
    assert!(loaded.get() > cases / 2, "only {} of {cases} sets had a rule", loaded.get());
    assert!(hits.get() > cases, "only {} answers came from memory", hits.get());
    assert!(failures.get() > 0, "no answer had errors");
}

/// Every condition behind every head, as permits, so that an answer names each rule that matches: all of them at once, and
/// those apart that can overflow, because one that fails hides the others.
#[test]
fn every_condition_behind_every_head() {
    let (schema, _) = Schema::from_cedarschema_str(SCHEMA).unwrap();
    let mut runner = TestRunner::deterministic();
    let sums = |text: &&str| ["+", " - ", " * "].iter().any(|sign| text.contains(sign));
    for sum in [false, true] {
        let mut text = String::new();
        for (head, (scope, own)) in SCOPES.iter().enumerate() {
            let bodies = ANYWHERE.iter().chain(*own).filter(|text| sums(text) == sum);
            for (body, condition) in bodies.enumerate() {
                let rule = |not: &str| {
                    format!("@id(\"r{head}.{body}{not}\") permit ({scope}) when {{ {not}({condition}) }};\n")
                };
                let rules = [rule(""), rule("!").replace("!\")", "n\")")];
                rules.iter().filter(|rule| Policies::load(&[("a", rule)]).is_ok()).for_each(|rule| text += rule);
            }
        }
        let policies = Policies::load(&[("a", &text)]).unwrap();
        assert!(policies.len() > if sum { 50 } else { 500 }, "{}", policies.len());
        let cached = Cached::new(1_000);
        for _ in 0..if cfg!(debug_assertions) { 60 } else { 1_000 } {
            let request = request().new_tree(&mut runner).unwrap().current();
            let expected = bare(&schema, &policies, &request);
            assert_eq!(policies.decide(&request), expected, "{request:?}");
            assert_eq!(cached.decide(&policies, &request), expected, "{request:?}");
        }
    }
}

fn log(run: &str, time: i64) -> Request {
    Request {
        principal: Who::new(Kind::Agent, "clerk"),
        action: "log.write".into(),
        resource: Uid::new(Kind::Namespace, "clerk"),
        context: Context { run: run.into(), time, ..Context::default() },
    }
}

#[test]
fn only_what_the_rules_read_makes_a_difference() {
    let text = "@id(\"a\") permit (principal, action, resource) when { context.run == \"r\" };";
    let policies = Policies::load(&[("a", text)]).unwrap();
    let cached = Cached::new(100);
    for time in 0..50 {
        assert_eq!(cached.decide(&policies, &log("r", time)).verdict, Verdict::Allow);
        assert_eq!(cached.decide(&policies, &log("s", time)).verdict, Verdict::Deny);
    }
    assert_eq!(cached.len(), 2);
    // Other rules, other answers, same memory.
    let other = Policies::load(&[("a", text.replace("\"r\"", "\"s\""))]).unwrap();
    assert_eq!(cached.decide(&other, &log("s", 0)).verdict, Verdict::Allow);
    assert_eq!(cached.decide(&policies, &log("s", 0)).verdict, Verdict::Deny);
    assert_eq!(cached.len(), 3);
    // What is wrong with a request is seen every time.
    assert_eq!(cached.decide(&policies, &log("r", -1)).verdict, Verdict::Deny);
    assert_eq!(Cached::new(0).decide(&policies, &log("r", 1)).verdict, Verdict::Allow);
}

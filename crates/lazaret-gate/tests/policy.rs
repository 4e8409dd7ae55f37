//! Rules: what loads and what doesn't, what is decided, and what is said about it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use std::collections::BTreeSet;

use lazaret_gate::canonical::{decode, encode};
use lazaret_gate::effect::{Header, Level, Prompt, Request as Fetch};
use lazaret_gate::policy::{
    ACTIONS, BadRequest, Context, Facts, Kind, MAX_NESTING, MAX_OPERATORS, MAX_RULES, Policies, Problem, Recorded,
    Request, RiskFacts, SCHEMA, Shape, Uid, Verdict, Who, compare, preset,
};
use lazaret_gate::risk::{Risk, RiskTier};
use lazaret_gate::{Bytes, Effect, Exact};

fn load(text: &str) -> Policies {
    Policies::load(&[("test.cedar", text)]).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn problems(text: &str) -> Vec<Problem> {
    Policies::load(&[("test.cedar", text)]).err().unwrap_or_default()
}

fn clerk() -> Who {
    Who { kind: Kind::Agent, id: "clerk".into(), parents: vec![Uid::new(Kind::App, "mail")] }
}

fn fetch(method: &str, host: &str) -> Request {
    Request {
        principal: clerk(),
        action: "http.fetch".into(),
        resource: Uid::new(Kind::Host, host),
        context: Context {
            method: Some(method.into()),
            scheme: Some("https".into()),
            port: Some(443),
            path: Some("/v1/list".into()),
            run: "run-1".into(),
            tier: "A".into(),
            risk: RiskFacts { tier: RiskTier::Medium, score: 400 },
            ..Context::default()
        },
    }
}

fn log() -> Request {
    let resource = Uid::new(Kind::Namespace, "clerk");
    Request { principal: clerk(), action: "log.write".into(), resource, context: Context::default() }
}

fn verdict(text: &str, request: &Request) -> String {
    load(text).decide(request).verdict.name().to_owned()
}

#[test]
fn nothing_is_permitted_by_nothing() {
    let empty = Policies::load::<&str, &str>(&[]).unwrap();
    assert!(empty.is_empty());
    let decision = empty.decide(&log());
    assert_eq!((decision.verdict, decision.rules.len(), decision.errors.len()), (Verdict::Deny, 0, 0));
    assert_eq!(verdict("// only a remark", &log()), "deny");
}

#[test]
fn forbid_wins_and_one_question_is_enough() {
    let all = "@id(\"all\") permit (principal, action, resource);";
    let ask = "@id(\"ask\") @requireApproval(\"look\") permit (principal, action in Action::\"http.*\", resource);";
    let no = "@id(\"no\") forbid (principal, action, resource in Host::\"example.com\");";
    let get = fetch("GET", "www.example.com");
    assert_eq!(load(all).decide(&get).rules, ["all"]);
    let asked = load(&format!("{all}{ask}")).decide(&get);
    assert_eq!((asked.verdict, asked.rules), (Verdict::Ask { reason: "look".into() }, vec!["ask".to_owned()]));
    let denied = load(&format!("{all}{ask}{no}")).decide(&get);
    assert_eq!((denied.verdict, denied.rules), (Verdict::Deny, vec!["no".to_owned()]));
    assert_eq!(verdict(&format!("{all}{no}"), &fetch("GET", "example.com")), "deny");
    assert_eq!(verdict(&format!("{all}{no}"), &fetch("GET", "badexample.com")), "allow");
    assert_eq!(verdict(&format!("{all}{no}"), &log()), "allow");
}

#[test]
fn what_lies_in_what() {
    let within = |scope: &str, request: &Request| {
        verdict(&format!("@id(\"a\") permit (principal, action, resource) when {{ {scope} }};"), request)
    };
    let get = fetch("GET", "a.b.example.com");
    for (scope, expected) in [
        (r#"resource is Host && resource in Host::"example.com""#, "allow"),
        (r#"resource is Host && resource in Host::"com""#, "allow"),
        (r#"resource is Host && resource in Host::"b.example""#, "deny"),
        (r#"principal in App::"mail""#, "allow"),
        (r#"principal in App::"web""#, "deny"),
        (r#"principal is Agent && principal == Agent::"clerk""#, "allow"),
    ] {
        assert_eq!(within(scope, &get), expected, "{scope}");
    }
    let address = fetch("GET", "10.0.0.1");
    assert_eq!(within(r#"resource is Host && resource in Host::"0.0.1""#, &address), "deny");
    let ask = |action: &str, kind: Kind, id: &str| Request {
        principal: clerk(),
        action: action.into(),
        resource: Uid::new(kind, id),
        context: Context::default(),
    };
    let model = ask("model.generate", Kind::Model, "rehearsal/small");
    assert_eq!(within(r#"resource is Model && resource in Model::"rehearsal""#, &model), "allow");
    let tool = ask("tool.call", Kind::Tool, "mail.send.now");
    assert_eq!(within(r#"resource is Tool && resource in Tool::"mail""#, &tool), "allow");
    assert_eq!(within(r#"resource is Tool && resource in Tool::"mai""#, &tool), "deny");
    let program = ask("process.run", Kind::Path, "/usr/bin/env");
    assert_eq!(within(r#"resource is Path && resource in Path::"/usr/bin""#, &program), "allow");
    assert_eq!(within(r#"resource is Path && resource in Path::"/""#, &program), "allow");
    assert_eq!(within(r#"resource is Path && resource in Path::"/usr/b""#, &program), "deny");
    let dots = load("@id(\"a\") permit (principal, action, resource);");
    let found = dots.decide(&ask("process.run", Kind::Path, "/usr/../bin/env"));
    assert_eq!(found.verdict, Verdict::Deny);
    assert!(found.errors[0].contains("`..` segment"), "{:?}", found.errors);
}

/// Text, line, column, and part of what is said.
const MALFORMED: &[(&str, usize, usize, &str)] = &[
    ("permit (principal, action, resource)", 1, 1, "does not end"),
    ("\n  permit (principal, action, resource);", 2, 3, "has no name"),
    ("@id(\"a\") permit (principal, action, resource) when { \"", 1, 54, "does not end"),
    ("@id(\"a\") permit (principal, action, resource) when { context. };", 1, 63, "unexpected token `}`"),
    ("@id(\"a\") allow (principal, action, resource);", 1, 10, "allow"),
    ("@id(\"a b\") permit (principal, action, resource);", 1, 1, "can't name a rule"),
    ("@id permit (principal, action, resource);", 1, 1, "can't name a rule"),
    ("@id(\"a\") @note(\"x\") permit (principal, action, resource);", 1, 1, "`@note` is not an annotation"),
    ("@id(\"a\") @requireApproval permit (principal, action, resource);", 1, 1, "without a reason"),
    ("@id(\"a\") @requireApproval(\"x\") forbid (principal, action, resource);", 1, 1, "on a forbid"),
    ("@id(\"a\") permit (principal == ?principal, action, resource);", 1, 31, "template"),
    ("@id(\"a\") permit (principal, action == Action::\"http.get\", resource);", 1, 39, "http.get"),
    ("@id(\"a\") permit (principal is User, action, resource);", 1, 31, "User"),
    ("@id(\"a\") permit (principal, action, resource) when { context.colour == 1 };", 1, 54, "colour"),
    (
        "@id(\"a\") permit (principal, action == Action::\"http.fetch\", resource)\nwhen { context.method == 1 };",
        2,
        8,
        "Long",
    ),
    ("@id(\"a\") permit (principal, action, resource) when { context.device == \"x\" };", 1, 54, "device"),
    ("@id(\"a\") permit (principal, action, resource) when { 9223372036854775808 > 1 };", 1, 54, "9223372036854775808"),
    ("@id(\"a\") permit (principal, action, resource) when { 99999999999999999999 > 1 };", 1, 54, "integer"),
    ("@id(\"a\") permit (principal, action, resource) when { false };", 1, 1, "impossible"),
    (
        "@id(\"a\") permit (principal, action, resource) when { context.run == \"s\u{0441}ope\" };",
        1,
        69,
        "mixed script",
    ),
    ("@id(\"a\") permit (principal, action, resource) when { context.run == \"\u{202e}\" };", 1, 69, "BIDI"),
    (
        "@id(\"a\") permit (principal, action, resource);\n@id(\"a\") permit (principal, action, resource);",
        2,
        1,
        "second",
    ),
    ("\u{0}", 1, 1, ""),
    ("\u{1F600};", 1, 1, ""),
];

#[test]
fn malformed_rules_are_refused_with_their_place() {
    for (text, line, column, says) in MALFORMED {
        let found = problems(text);
        let Some(first) = found.first() else { panic!("loaded: {text}") };
        assert_eq!((first.at.line, first.at.column), (*line, *column), "{text}: {first}");
        assert!(first.to_string().contains(says), "{text}: {first}");
        assert_eq!(first.at.file, "test.cedar");
    }
}

#[test]
fn two_files_of_one_name_and_two_rules_in_two_files() {
    let rule = "@id(\"a\") permit (principal, action, resource);";
    let same = Policies::load(&[("a", rule), ("a", "")]).unwrap_err();
    assert!(same[0].what.contains("two files"), "{same:?}");
    let twice = Policies::load(&[("a.cedar", rule), ("b.cedar", rule)]).unwrap_err();
    assert_eq!(
        twice[0].to_string(),
        "b.cedar:1:1: a second rule named `a` (rename one; the other stands in a.cedar on line 1)"
    );
}

#[test]
fn a_set_has_one_digest_and_can_be_stored() {
    let one = ("a.cedar", "@id(\"a\") permit (principal, action, resource);");
    let two = ("b.cedar", "@id(\"b\") forbid (principal, action in Action::\"http.*\", resource);");
    let here = Policies::load(&[one, two]).unwrap();
    let there = Policies::load(&[two, one]).unwrap();
    assert_eq!(here.digest(), there.digest());
    assert_ne!(here.digest(), Policies::load(&[one]).unwrap().digest());
    let again = Policies::from_blob(&here.blob().unwrap()).unwrap();
    assert_eq!((again.digest(), again.texts()), (here.digest(), here.texts()));
    assert!(Policies::from_blob(b"[]x").is_err());
    let (text, at) = here.source("b").unwrap();
    assert_eq!((text, at.to_string().as_str()), (two.1, "b.cedar:1:1"));
}

#[test]
fn large_texts_load_or_are_refused() {
    let host = |n: usize| format!("Host::\"host-{n}.example\"");
    // One rule of nearly a megabyte: a list.
    let list: Vec<String> = (0..34_000).map(host).collect();
    let text = format!(
        "@id(\"list\") permit (principal, action == Action::\"http.fetch\", resource) when {{ resource in [{}] }};",
        list.join(",\n")
    );
    assert!(text.len() > 900_000 && text.len() < 1 << 20, "{}", text.len());
    let policies = load(&text);
    assert_eq!(policies.decide(&fetch("GET", "host-33999.example")).verdict, Verdict::Allow);
    assert_eq!(policies.decide(&fetch("GET", "host-34000.example")).verdict, Verdict::Deny);
    let more = format!("{text}// {}", "x".repeat(1 << 20));
    assert!(problems(&more)[0].what.contains("the most is 1048576"));
}

#[test]
fn many_rules_load_or_are_refused() {
    let rule = |n: usize| {
        format!("@id(\"r{n}\") permit (principal, action == Action::\"tool.call\", resource == Tool::\"t{n}\");\n")
    };
    // Cedar's parser, not optimised, takes milliseconds for each; the benchmark loads as many as there may be.
    let count = if cfg!(debug_assertions) { 1_000 } else { MAX_RULES };
    let policies = load(&(0..count).map(rule).collect::<String>());
    assert_eq!(policies.len(), count);
    let call = |name: &str| Request {
        principal: clerk(),
        action: "tool.call".into(),
        resource: Uid::new(Kind::Tool, name),
        context: Context::default(),
    };
    assert_eq!(policies.decide(&call("t999")).rules, ["r999"]);
    let why = policies.why(&call("t10000"));
    assert_eq!(why.decision.verdict, Verdict::Deny);
    assert_eq!(why.nearest.unwrap().1, "resource == Tool::\"t0\"");
    let found = problems(&(0..=MAX_RULES).map(rule).collect::<String>());
    assert_eq!(found[0].what, "more than 10000 rules");
}

#[test]
fn deep_rules_are_refused_before_they_are_parsed() {
    let rule = |body: &str| format!("@id(\"a\") permit (principal, action, resource) when {{ {body} }};");
    let deep = |levels: usize| rule(&format!("{}true{}", "(".repeat(levels), ")".repeat(levels)));
    for levels in [MAX_NESTING, 1_000, 300_000] {
        assert!(problems(&deep(levels))[0].what.contains("inside one another"), "{levels}");
    }
    assert!(problems(&rule(&"if true then ".repeat(50_000)))[0].what.contains("inside one another"));
    assert!(problems(&rule(&vec!["true"; 100_000].join(" && ")))[0].what.contains("operators in one rule"));
    assert!(problems(&rule(&"!".repeat(100_000)))[0].what.contains("operators in one rule"));
    assert!(problems(&rule(&format!("context{}", ".a".repeat(100_000))))[0].what.contains("operators in one rule"));
    // What is just allowed also works, on a stack of the size that threads have.
    let deepest = deep(MAX_NESTING - 1);
    let longest = rule(&vec!["true"; MAX_OPERATORS + 1].join(" && "));
    let ifs = format!("{}true", "if context.bytes > 5 then false else ".repeat(MAX_NESTING - 2));
    for text in [deepest, longest, rule(&ifs)] {
        let policies = load(&text);
        assert_eq!(policies.decide(&log()).verdict, Verdict::Allow, "{text}");
        assert_eq!(policies.why(&log()).decision.verdict, Verdict::Allow);
    }
}

#[test]
fn what_can_not_be_evaluated_is_denied() {
    let text = "@id(\"all\") permit (principal, action, resource);
        @id(\"sum\") forbid (principal, action, resource) when { context.spent + 1 > 100 };";
    let policies = load(text);
    let mut request = log();
    assert_eq!(policies.decide(&request).verdict, Verdict::Allow);
    request.context.spent = i64::MAX;
    let decision = policies.decide(&request);
    assert_eq!((&decision.verdict, decision.rules.as_slice()), (&Verdict::Deny, &["sum".to_owned()][..]));
    assert!(decision.errors[0].contains("overflow"), "{:?}", decision.errors);
    let why = policies.why(&request);
    assert!(why.reason().contains("can't be decided: rule `sum`"), "{}", why.reason());
    assert_eq!(why.remedy(), "an operator can change rule `sum` in test.cedar");
    request.context.spent = -1;
    assert!(policies.decide(&request).errors[0].contains("less than nothing"));
}

fn wrong(change: impl FnOnce(&mut Request)) -> String {
    let mut request = fetch("GET", "example.com");
    change(&mut request);
    let policies = load("@id(\"all\") permit (principal, action, resource);");
    let decision = policies.decide(&request);
    assert_eq!((&decision.verdict, decision.rules.len()), (&Verdict::Deny, 0));
    assert_eq!(policies.why(&request).remedy(), "the ask itself has to change; no rule allows this");
    decision.errors[0].clone()
}

#[test]
fn requests_that_are_none_are_denied_with_the_reason() {
    let app = |id: &str| Uid::new(Kind::App, id);
    let found = [
        wrong(|r| r.action = "http.get".into()),
        wrong(|r| r.action = "http.*".into()),
        wrong(|r| r.principal.kind = Kind::Host),
        wrong(|r| r.resource.kind = Kind::Agent),
        wrong(|r| r.context.method = None),
        wrong(|r| r.context.bytes = -1),
        wrong(|r| r.context.amount = Some(-5)),
        wrong(|r| r.principal.parents = vec![Uid::new(Kind::Agent, "clerk")]),
        wrong(|r| r.principal = Who { kind: Kind::App, id: "mail".into(), parents: vec![app("mail")] }),
        wrong(|r| r.resource.id = "a".repeat(1 << 20)),
        wrong(|r| r.context.labels = (0..1000).map(|n| n.to_string()).collect()),
        wrong(|r| *r = Request { context: Context { path: Some("x".into()), ..Context::default() }, ..log() }),
    ];
    let expected = [
        "`http.get` is not an action of the schema",
        "`http.*` is not an action of the schema",
        "`http.fetch` is not asked by Host",
        "`http.fetch` is not asked for Agent",
        "`http.fetch` needs `method`, which is not given",
        "`bytes` is -1, which is less than nothing",
        "`amount` is -5, which is less than nothing",
        "Agent::\"clerk\" can't belong to Agent::\"clerk\"",
        "App::\"mail\" can't belong to App::\"mail\"",
        "a name or list in the request is longer than anything lawful",
        "a name or list in the request is longer than anything lawful",
        "`log.write` has no `path`",
    ];
    assert_eq!(found, expected);
}

fn low() -> Risk {
    Risk { tier: RiskTier::Low, score: 10, terms: Vec::new() }
}

fn facts() -> Facts {
    let labels = BTreeSet::from(["private".to_owned()]);
    Facts { labels, run: "r".into(), device: None, tier: "A".into(), spent: 7, time: 1_700_000_000_000, trust: None }
}

fn of(effect: &Effect) -> Result<Request, BadRequest> {
    Request::of(effect, &clerk(), &facts(), &low())
}

fn get(url: &str) -> Effect {
    let header = Header { name: "content-type".into(), value: "Text/Plain; charset=utf-8".into() };
    Effect::HttpFetch(Fetch { method: "PUT".into(), url: url.into(), headers: vec![header], body: Bytes::default() })
}

fn call(arguments: &str) -> Effect {
    Effect::ToolsCall { name: "bank.pay".into(), arguments: arguments.into() }
}

#[test]
fn every_effect_is_a_request_of_the_schema() {
    let prompt = Prompt { model: "rehearsal/small".into(), utterances: vec![], max_tokens: 1 };
    let slot = || "token".to_owned();
    let using = |method: &str, url: &str| Effect::SecretUse { slot: slot(), method: method.into(), url: url.into() };
    let effects = [
        Effect::StorageGet { key: "k".into() },
        Effect::StorageSet { key: "k".into(), value: Bytes::default() },
        Effect::StorageDelete { key: "k".into() },
        Effect::StorageList { prefix: "k".into(), after: None, limit: 1 },
        Effect::LogWrite { level: Level::Info, text: "x".into() },
        Effect::ClockNow {},
        Effect::ClockMonotonic {},
        Effect::ClockSleep { nanos: Exact(1) },
        Effect::RandomBytes { len: 1 },
        Effect::EnvironmentRead {},
        Effect::ModelGenerate(prompt),
        Effect::ToolsList {},
        call("{}"),
        get("https://example.com"),
        Effect::AgentsSend { to: "other".into(), content_type: "text/plain".into(), body: Bytes::default() },
        using("", ""),
        using("POST", "https://api.example.com/v1"),
    ];
    let names: Vec<String> = effects.iter().map(|effect| of(effect).unwrap().action).collect();
    assert_eq!(
        names.join(" "),
        "storage.get storage.set storage.delete storage.list log.write clock.now clock.monotonic \
        clock.sleep random.bytes environment.read model.generate tool.list tool.call http.fetch message.send secret.use secret.use"
    );
    for name in ["locked-down", "balanced", "open"] {
        let policies = Policies::load(&[preset(name).unwrap()]).unwrap();
        for effect in &effects {
            let request = of(effect).unwrap();
            let decision = policies.decide(&request);
            assert!(decision.errors.is_empty(), "{decision:?}");
            // What stays on the host is never asked; everything else is a PUT here, or a secret on its way.
            let away = request.action == "http.fetch" || request.context.host.is_some();
            let quiet = !away || name != "locked-down";
            assert_eq!(decision.verdict == Verdict::Allow, quiet, "{name} {}", request.summary());
            // One spelling, and it comes back.
            let spelled = encode(&request).unwrap();
            assert_eq!(decode::<Request>(&spelled).unwrap(), request);
        }
    }
}

#[test]
fn an_effect_brings_its_facts() {
    let request = of(&get("http://api.example.com:8080/v1/%61?q=1")).unwrap();
    let context = &request.context;
    assert_eq!(request.resource, Uid::new(Kind::Host, "api.example.com"));
    assert_eq!(context.method.as_deref(), Some("PUT"));
    assert_eq!((context.scheme.as_deref(), context.port), (Some("http"), Some(8080)));
    assert_eq!((context.path.as_deref(), context.content_type.as_deref()), (Some("/v1/a"), Some("text/plain")));
    assert_eq!((context.spent, context.time, context.arguments.len()), (7, 1_700_000_000_000, 64));
    assert!(matches!(of(&get("https://example.com/a/../b")), Err(BadRequest::Url(_))));
    assert!(matches!(of(&get("https://Example.com/")), Err(BadRequest::Url(_))));
    let paid = |amount: &str| format!(r#"{{"amount_micros":{amount},"currency":"EUR","rail":"card","to":"shop"}}"#);
    for (arguments, amount) in [
        ("{}", Ok(None)),
        (&paid("12500000"), Ok(Some(12_500_000))),
        (&paid("1.5"), Err("must be a whole number")),
        (&paid("-1"), Err("must be a whole number")),
        (&paid("1e300"), Err("must be a whole number")),
        (&paid("9223372036854775808"), Err("must be a whole number")),
        (&paid("1,\"amount_micros\":2"), Err("stands twice")),
        ("no json", Err("not JSON")),
    ] {
        match (of(&call(arguments)).map(|request| request.context.amount), amount) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{arguments}"),
            (Err(found), Err(says)) => assert!(found.to_string().contains(says), "{arguments}: {found}"),
            (found, expected) => panic!("{arguments}: {found:?}, {expected:?}"),
        }
    }
    let late = Facts { time: u64::MAX, ..facts() };
    let found = Request::of(&Effect::ClockNow {}, &clerk(), &late, &low()).unwrap_err();
    assert_eq!(found.to_string(), "`time` is 18446744073709551615, more than a rule can count (2^63-1)");
}

#[test]
fn a_request_keeps_numbers_that_json_would_round() {
    let mut request = log();
    request.context.spent = i64::MAX;
    let spelled = encode(&request).unwrap();
    assert!(String::from_utf8_lossy(&spelled).contains(r#""spent":"9223372036854775807""#));
    assert_eq!(decode::<Request>(&spelled).unwrap(), request);
    let text = String::from_utf8(encode(&log()).unwrap()).unwrap();
    for (from, to, says) in [
        (r#""spent":0"#, r#""spent":"9223372036854775808""#, "not a whole number"),
        (r#""spent":0"#, r#""spent":18446744073709551615"#, "larger than 2^63-1"),
        (r#""spent":0"#, r#""spent":1.5"#, "whole number"),
        (r#""spent":0"#, r#""cost":0"#, "unknown field `cost`"),
        (r#""kind":"Agent""#, r#""kind":"User""#, "unknown variant"),
    ] {
        let found = decode::<Request>(text.replace(from, to).as_bytes()).unwrap_err().to_string();
        assert!(found.contains(says), "{found}");
    }
}

/// The table in Rust and the schema say the same.
#[test]
fn the_table_of_actions_is_the_schema() {
    let (schema, _) = cedar_policy::Schema::from_cedarschema_str(SCHEMA).unwrap();
    let groups: BTreeSet<String> = schema.action_groups().map(|uid| uid.id().unescaped().to_owned()).collect();
    let all: BTreeSet<String> = schema.actions().map(|uid| uid.id().unescaped().to_owned()).collect();
    let names: BTreeSet<String> = ACTIONS.iter().map(|action| action.name.to_owned()).collect();
    let entities = schema.action_entities().unwrap();
    assert_eq!(all.difference(&groups).cloned().collect::<BTreeSet<_>>(), names);
    assert_eq!(ACTIONS.iter().map(|action| action.family.to_owned()).collect::<BTreeSet<_>>(), groups);
    for action in ACTIONS {
        let uid = schema.actions().find(|uid| uid.id().unescaped() == action.name).unwrap();
        let kinds = |kinds: &[Kind]| kinds.iter().map(|kind| kind.name().to_owned()).collect::<BTreeSet<_>>();
        let principals = schema.principals_for_action(uid).unwrap().map(ToString::to_string).collect();
        let resources = schema.resources_for_action(uid).unwrap().map(ToString::to_string).collect();
        assert_eq!((kinds(action.principals), kinds(action.resources)), (principals, resources), "{}", action.name);
        let families: Vec<_> = entities.ancestors(uid).unwrap().map(|uid| uid.id().unescaped().to_owned()).collect();
        assert_eq!(families, [action.family]);
        // A context of that shape is one that the schema takes, and one with less is not.
        let http = action.shape == Shape::Http;
        let mut context = serde_json::json!({
            "risk": {"tier": "low", "score": 1}, "labels": ["x"], "run": "", "tier": "", "spent": 0, "time": 0,
            "bytes": 0, "arguments": "", "device": "d", "amount": 1
        });
        let mut put = |name: &str, there: bool, value: serde_json::Value| {
            if there {
                context[name] = value;
            }
        };
        put("method", http, "GET".into());
        put("scheme", http, "https".into());
        put("port", http, 443.into());
        put("path", http || action.shape == Shape::Storage, "/".into());
        put("content_type", http || action.shape == Shape::Message, "text/plain".into());
        let takes =
            |json: serde_json::Value| cedar_policy::Context::from_json_value(json, Some((&schema, uid))).is_ok();
        assert!(takes(context.clone()), "{}", action.name);
        for name in context.as_object().unwrap().keys() {
            let mut less = context.clone();
            less.as_object_mut().unwrap().remove(name);
            let optional = matches!(name.as_str(), "device" | "amount") || (http && name == "content_type");
            assert_eq!(takes(less), optional, "{} without {name}", action.name);
        }
    }
}

#[test]
fn why_names_the_nearest_permit_and_the_part_that_failed() {
    let text = r#"
@id("storage") permit (principal, action in Action::"storage.*", resource);

// Only these.
@id("reads")
permit (principal in App::"mail", action == Action::"http.fetch", resource in Host::"example.com")
when {
    ["GET", "HEAD"].contains(context.method) && // no writes
    context.path like "/v1/*"
}
unless { context.risk.tier == "high" || context.spent > 100 };

@id("elsewhere")
permit (principal == Agent::"other", action == Action::"http.fetch", resource) when { context.port == 443 };
"#;
    let policies = load(text);
    let failed = |request: &Request| {
        let why = policies.why(request);
        assert!(why.to_string().lines().all(|line| line.chars().count() <= 100), "{why}");
        assert_eq!(why.reason().lines().count(), 1);
        why.nearest.map(|(rule, failed)| format!("{} {failed}", rule.id))
    };
    let get = fetch("GET", "example.com");
    assert_eq!(policies.decide(&get).verdict, Verdict::Allow);
    let post = fetch("POST", "example.com");
    assert_eq!(failed(&post).unwrap(), r#"reads when { ["GET", "HEAD"].contains(context.method) }"#);
    let mut path = get.clone();
    path.context.path = Some("/v2".into());
    assert_eq!(failed(&path).unwrap(), r#"reads when { context.path like "/v1/*" }"#);
    let mut spent = get.clone();
    spent.context.spent = 101;
    assert_eq!(failed(&spent).unwrap(), "reads unless { context.spent > 100 }");
    assert_eq!(failed(&fetch("GET", "example.org")).unwrap(), r#"reads resource in Host::"example.com""#);
    let mut stranger = get.clone();
    stranger.principal = Who::new(Kind::Operator, "ada");
    assert_eq!(failed(&stranger).unwrap(), r#"reads principal in App::"mail""#);
    assert_eq!(failed(&log()), None);
    let why = policies.why(&post);
    assert_eq!(
        why.to_string(),
        r#"deny: `http.fetch` on Host::"example.com" by Agent::"clerk"
  no rule permits it
  nearest: reads (test.cedar:5:1)
    @id("reads") permit (principal in App::"mail", action ==
    Action::"http.fetch", resource in Host::"example.com") when { ["GET",
    "HEAD"].contains(context.method) && context.path like "/v1/*" } unless
    { context.risk.tier == "high" || context.spent > 100 };
  failed:  when { ["GET", "HEAD"].contains(context.method) }
  remedy:  an operator can widen rule `reads` in test.cedar, or add a
           permit for `http.fetch` on Host::"example.com""#
    );
    assert_eq!(
        why.reason(),
        r#"`http.fetch` on Host::"example.com" by Agent::"clerk": no rule permits it; the nearest is rule `reads` (test.cedar:5), of which failed `when { ["GET", "HEAD"].contains(context.method) }`"#
    );
    let why = policies.why(&log());
    assert_eq!(
        why.reason(),
        r#"`log.write` on Namespace::"clerk" by Agent::"clerk": no rule permits it, and none comes near"#
    );
    assert_eq!(why.remedy(), r#"an operator can add a permit for `log.write` on Namespace::"clerk""#);
    let clock = load(r#"@id("now") permit (principal, action == Action::"clock.now", resource);"#);
    assert_eq!(clock.why(&log()).nearest.unwrap().1, r#"action == Action::"log.write""#);
}

#[test]
fn why_of_a_forbid_and_of_a_question() {
    let policies = Policies::load(&[preset("locked-down").unwrap()]).unwrap();
    let mut request = fetch("POST", "example.com");
    let asked = policies.why(&request);
    assert_eq!(asked.remedy(), "an approver can allow it");
    assert!(asked.reason().contains("rule `web-writes` (default.cedar:"), "{}", asked.reason());
    assert!(asked.reason().contains("asks first: a request that can change something on another host"));
    request.context.labels = ["private", "untrusted"].map(str::to_owned).into();
    let denied = policies.why(&request);
    assert_eq!(denied.decision.rules, ["private-and-untrusted"]);
    assert!(denied.reason().contains("forbids it"), "{}", denied.reason());
    assert_eq!(denied.remedy(), "an operator can change rule `private-and-untrusted` in default.cedar");
    assert!(denied.to_string().lines().count() < 12);
    // What a guest chose can't draw on the terminal.
    request.resource.id = "a\u{1b}[31m\u{202e}b\nc".into();
    assert!(!policies.why(&request).to_string().contains(['\u{1b}', '\u{202e}']));
    assert_eq!(policies.why(&request).reason().lines().count(), 1);
}

#[test]
fn two_sets_over_the_past() {
    let strict = Policies::load(&[preset("locked-down").unwrap()]).unwrap();
    let open = Policies::load(&[preset("open").unwrap()]).unwrap();
    let none = Policies::load::<&str, &str>(&[]).unwrap();
    let past = || {
        let one = |n: usize| Recorded {
            id: n.to_string(),
            request: (!n.is_multiple_of(10))
                .then(|| Box::new(fetch(if n.is_multiple_of(2) { "GET" } else { "POST" }, "example.com"))),
        };
        (0..100).map(one)
    };
    let found = compare(&strict, &open, past());
    assert_eq!((found.same, found.newly_allowed, found.unknown, found.changed(), found.total()), (40, 50, 10, 50, 100));
    assert_eq!(found.examples.len(), 5);
    assert_eq!((found.examples[0].id.as_str(), &found.examples[0].now), ("1", &Verdict::Allow));
    let found = compare(&open, &strict, past());
    assert_eq!((found.same, found.newly_asked), (40, 50));
    let found = compare(&open, &none, past());
    assert_eq!((found.same, found.newly_denied), (0, 90));
}

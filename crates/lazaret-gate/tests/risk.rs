//! The risk table: what it says about known effects, and what holds of every effect.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use lazaret_gate::effect::{Level, Prompt, Request, Role, Utterance};
use lazaret_gate::risk::{Around, Known, Problem, RiskTier, Table, outward};
use lazaret_gate::{Bytes, Effect, Exact, Grants};
use proptest::prelude::*;

const CASES: &str = include_str!("risk/effects.txt");
const SCRATCH: &str = "/scratch/a";

/// `~N` becomes N bytes, `\u{…}` its character.
fn expand(text: &str) -> String {
    let mut out = text.to_owned();
    while let Some(at) = out.find("\\u{") {
        let end = out[at..].find('}').unwrap() + at;
        let c = char::from_u32(u32::from_str_radix(&out[at + 3..end], 16).unwrap()).unwrap();
        out.replace_range(at..=end, &c.to_string());
    }
    if let Some((at, digits)) = out.find('~').map(|at| (at, out[at + 1..].trim_end_matches(['"', '}']).to_owned()))
        && let Ok(count) = digits.parse()
    {
        out.replace_range(at..=at + digits.len(), &"x".repeat(count));
    }
    out
}

fn request(method: &str, url: &str, body: &str) -> Effect {
    let (method, url, body) = (method.into(), url.into(), body.into());
    Effect::HttpFetch(Request { method, url, headers: Vec::new(), body })
}

fn tool(name: &str, arguments: &str) -> Effect {
    Effect::ToolsCall { name: name.into(), arguments: arguments.into() }
}

fn effect(text: &str) -> Effect {
    let text = expand(text);
    let (kind, rest) = text.split_once(' ').unwrap_or((&text, ""));
    let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
    match kind {
        "storage.get" => Effect::StorageGet { key: rest.into() },
        "storage.set" => Effect::StorageSet { key: first.into(), value: second.into() },
        "storage.delete" => Effect::StorageDelete { key: rest.into() },
        "storage.list" => Effect::StorageList { prefix: rest.into(), after: None, limit: 10 },
        "log.write" => Effect::LogWrite { level: Level::Info, text: rest.into() },
        "clock.now" => Effect::ClockNow {},
        "clock.monotonic" => Effect::ClockMonotonic {},
        "clock.sleep" => Effect::ClockSleep { nanos: Exact(rest.parse().unwrap()) },
        "random.bytes" => Effect::RandomBytes { len: rest.parse().unwrap() },
        "environment.read" => Effect::EnvironmentRead {},
        "tools.list" => Effect::ToolsList {},
        "tools.call" => tool(first, second),
        "agents.send" => {
            Effect::AgentsSend { to: first.into(), content_type: "text/plain".into(), body: second.into() }
        }
        "model.generate" => {
            let utterances = vec![Utterance { role: Role::User, text: second.into() }];
            Effect::ModelGenerate(Prompt { model: first.into(), utterances, max_tokens: 100 })
        }
        "http.fetch" => {
            let (url, body) = second.split_once(' ').unwrap_or((second, ""));
            request(first, url, body)
        }
        "secret.use" => {
            let (method, url) = second.split_once(' ').unwrap_or((second, ""));
            Effect::SecretUse { slot: first.into(), method: method.into(), url: url.into() }
        }
        other => panic!("{other}"),
    }
}

fn around(host: Known) -> Around {
    Around { host, scratch: Some(SCRATCH.to_owned()) }
}

/// Every line of the file, all failures at once.
#[test]
fn known_effects() {
    let table = Table::shipped();
    let (mut count, mut wrong) = (0, String::new());
    for line in CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (line_head, host) = match line.rsplit_once(" | host=") {
            Some((head, "wildcard")) => (head, Known::Wildcard),
            Some((head, "unknown")) => (head, Known::Unknown),
            Some((_, other)) => panic!("{other}"),
            None => (line, Known::Exact),
        };
        let mut parts = line_head.splitn(3, " | ");
        let mut part = || parts.next().expect("three parts");
        let (tier, terms, asked) = (part(), part(), part());
        let risk = table.weigh(&effect(asked), &around(host));
        let found: Vec<_> = risk.terms.iter().map(|term| term.name.as_str()).collect();
        let sum: u32 = risk.terms.iter().map(|term| term.adds).sum();
        assert_eq!(risk.score, sum.min(1000), "{line}");
        if risk.tier.name() != tier || found.join(" ") != terms {
            wrong += &format!("{line}\n  is {} | {} | {}\n", risk.tier.name(), found.join(" "), risk.score);
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 80, "{count} cases");
}

/// A row that no case shows is a row that nobody has seen work.
#[test]
fn every_row_is_shown_and_explained() {
    let table = Table::shipped();
    for name in table.names() {
        assert!(CASES.lines().any(|line| line.split(['|', ' ']).any(|word| word == name)), "no case shows `{name}`");
        assert!(table.reason(name).is_some_and(|reason| reason.ends_with('.')), "{name}");
    }
    assert_ne!(table.names().next(), Some("no-table"));
}

#[test]
fn what_leaves_the_host() {
    let leaves = |text: &str| outward(&effect(text));
    assert!(leaves("http.fetch GET https://a.example/") && leaves("tools.call x {}") && leaves("model.generate a/b x"));
    assert!(!leaves("model.generate rehearsal/echo x") && !leaves("agents.send bob x") && !leaves("storage.delete x"));
    let once_only =
        |text: &str| Table::shipped().weigh(&effect(text), &around(Known::Exact)).is_once_only(&effect(text));
    assert!(once_only("tools.call mail.send {}") && !once_only("tools.call mail.list {}"));
    assert!(!once_only("storage.delete x"), "high, but it stays here");
}

#[test]
fn grants_know_hosts() {
    let grants = Grants::new(vec!["http:api.example.com".parse().unwrap()]);
    let host = |text: &str| Around::of(&effect(text), &grants, None).host;
    assert_eq!(host("http.fetch GET https://api.example.com/v1"), Known::Exact);
    assert_eq!(host("http.fetch GET https://other.example.com/"), Known::Unknown);
    assert_eq!(host("http.fetch GET http://api.example.com/"), Known::Unknown);
}

#[test]
fn tables_are_read_strictly() {
    let row = |line: &str| format!("medium = 250\nhigh = 700\n[[row]]\n{line}");
    let good = "name = \"a\"\nkinds = [\"*\"]\nadds = 5\nreason = \"So.\"\n";
    assert!(Table::parse(&row(good)).is_ok());
    let says = |text: &str| Table::parse(text).unwrap_err().to_string();
    assert!(says(&row(&format!("{good}extra = 1\n"))).contains("unknown field `extra`"));
    assert!(says(&row(&format!("{good}when = {{ colour = \"red\" }}\n"))).contains("unknown field `colour`"));
    assert!(says(&row(&good.replace('*', "http.*"))).contains("`http.*` is no kind of effect"));
    assert!(says(&row(&good.replace("So.", " "))).contains("no reason"));
    assert!(says(&row(&good.replace("= 5", "= 1001"))).contains("at most 1000"));
    assert!(says(&row(&good.replace("= 5", "= -1"))).contains("can't be read"));
    assert!(says(&row(&good.replace("\"a\"", "\"A b\""))).contains("lower-case"));
    assert!(says(&row(&format!("{good}[[row]]\n{good}"))).contains("another of this name"));
    assert!(says(&row(&format!("{good}when = {{ words = [\"Send\"] }}\n"))).contains("`Send` can't match"));
    assert!(says(&row(&format!("{good}when = {{ above = 3 }}\n"))).contains("needs `fields`"));
    assert_eq!(
        Table::parse("medium = 700\nhigh = 250\nrow = []").unwrap_err(),
        Problem::Thresholds { medium: 700, high: 250 }
    );
    assert!(matches!(Table::parse(&" ".repeat(1 << 20)), Err(Problem::Size { .. })));
}

/// Nobody has thought of it, so it is no small matter.
#[test]
fn what_no_row_speaks_of_is_high() {
    let table = Table::parse("medium = 250\nhigh = 700\nrow = []").unwrap();
    let risk = table.weigh(&Effect::ClockNow {}, &Around::default());
    assert_eq!((risk.tier, risk.score), (RiskTier::High, 0));
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let name = prop_oneof![Just("amount".to_owned()), Just("path".into()), Just("to".into()), ".{0,8}"];
    let text = prop_oneof![".{0,20}", Just("a@b.c; rm *".to_owned()), Just("1,000,000.00".into()), "[/~.*]{0,9}"];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        text.prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_arguments_are_weighed(name in ".{0,20}", value in json(), noise in ".{0,60}", cut in any::<prop::sample::Index>()) {
        let table = Table::shipped();
        let whole = value.to_string();
        let broken: String = whole.chars().take(cut.index(whole.chars().count() + 1)).collect();
        for arguments in [whole, broken, noise.clone()] {
            for asked in [tool(&name, &arguments), request(&name, &noise, &arguments)] {
                let first = table.weigh(&asked, &Around::default());
                prop_assert!(first.score <= 1000 && !first.terms.is_empty());
                prop_assert_eq!(first, table.weigh(&asked, &Around::default()));
            }
        }
    }

    /// Whatever an agent adds to its arguments, it can't talk the score down.
    #[test]
    fn more_arguments_never_lower_it(name in "[a-z.]{0,12}", mut fields in prop::collection::btree_map(".{0,6}", json(), 0..4),
                                     key in ".{7,9}", more in json()) {
        let weigh = |fields: &std::collections::BTreeMap<String, serde_json::Value>| {
            let arguments = serde_json::to_string(fields).unwrap();
            Table::shipped().weigh(&tool(&name, &arguments), &around(Known::Exact))
        };
        let before = weigh(&fields);
        fields.insert(key, more);
        let after = weigh(&fields);
        prop_assert!(after.score >= before.score && after.tier >= before.tier);
        prop_assert!(before.terms.iter().all(|term| after.terms.contains(term)));
    }

    /// A row more never lowers a score, whatever it says.
    #[test]
    fn more_rows_never_lower_it(adds in 0_u32..=1000, name in "[a-z.]{1,12}", value in json()) {
        let table = include_str!("../../../policy/risk.toml");
        let row = format!("[[row]]\nname = \"extra\"\nkinds = [\"*\"]\nadds = {adds}\nreason = \"So.\"\n");
        let longer = Table::parse(&format!("{table}\n{row}")).unwrap();
        let asked = tool(&name, &value.to_string());
        let (before, after) = (Table::shipped().weigh(&asked, &around(Known::Exact)), longer.weigh(&asked, &around(Known::Exact)));
        prop_assert!(after.score >= before.score && after.tier >= before.tier);
        prop_assert_eq!(after.score, (before.score + adds).min(1000));
    }

    #[test]
    fn any_table_text_is_read_or_refused(text in ".{0,200}") {
        let _ = Table::parse(&text);
    }
}

/// Names that stand twice, depth, size and numbers beyond any: read or called unreadable, never a panic.
#[test]
fn hostile_json() {
    let weigh = |arguments: &str| Table::shipped().weigh(&tool("x", arguments), &Around::default());
    for arguments in ["[".repeat(100_000), "{\"a\":".repeat(100_000), "1e999".into(), "{\"a\":1e999}".into()] {
        assert_eq!(weigh(&arguments).tier, RiskTier::High);
    }
    let wide = format!("[{}]", "{\"amount\":1},".repeat(60_000).trim_end_matches(','));
    assert!(weigh(&wide).terms.iter().any(|term| term.name == "amount"));
    let bytes = Effect::HttpFetch(Request {
        method: "POST".into(),
        url: "https://[".into(),
        headers: Vec::new(),
        body: Bytes(vec![0xff; 100]),
    });
    assert!(Table::shipped().weigh(&bytes, &Around::default()).score > 0);
}

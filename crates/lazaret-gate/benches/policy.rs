//! How fast rules answer: beside bare Cedar on the same request and the same rules, in one run. `cargo bench --bench
//! policy` prints the ratios.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and has nobody to report errors to"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use cedar_policy::{Authorizer, Entities, EntityUid, PolicySet, Schema};
use lazaret_gate::policy::{
    Cached, Context, Kind, MAX_RULES, Policies, Recorded, Request, RiskFacts, SCHEMA, Uid, Verdict, Who, compare,
};
use lazaret_gate::risk::RiskTier;

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Fifty rules of the sorts that people write: ten families, five rules each, with clauses.
fn fifty() -> String {
    let mut text = String::new();
    for n in 0..10 {
        text += &format!(
            r#"
@id("reads-{n}")
permit (principal in App::"app-{n}", action == Action::"http.fetch", resource in Host::"host-{n}.example.com")
when {{ ["GET", "HEAD"].contains(context.method) && context.path like "/v{n}/*" && context.port == 443 }};

@id("writes-{n}")
@requireApproval("a write")
permit (principal in App::"app-{n}", action == Action::"http.fetch", resource in Host::"host-{n}.example.com")
when {{ context.method == "POST" && context.bytes < 100000 }}
unless {{ context.risk.tier == "high" || context.spent > 5000000 }};

@id("tools-{n}")
permit (principal in App::"app-{n}", action == Action::"tool.call", resource in Tool::"tool-{n}")
when {{ context.risk.score < 700 && !context.labels.contains("secret-{n}") }};

@id("storage-{n}")
permit (principal in App::"app-{n}", action in Action::"storage.*", resource)
when {{ context.path like "app-{n}/*" && context.bytes < 1000000 }};

@id("labels-{n}")
forbid (principal, action in [Action::"http.*", Action::"tool.*"], resource)
when {{ context.labels.containsAll(["private", "from-{n}"]) && context.tier == "A" }};
"#
        );
    }
    text
}

fn request(n: usize) -> Request {
    Request {
        principal: Who { kind: Kind::Agent, id: "clerk".into(), parents: vec![Uid::new(Kind::App, "app-7")] },
        action: "http.fetch".into(),
        resource: Uid::new(Kind::Host, "api.host-7.example.com"),
        context: Context {
            risk: RiskFacts { tier: RiskTier::Medium, score: 450 },
            labels: ["private", "from-mail"].map(str::to_owned).into(),
            run: format!("run-{n}"),
            device: Some("phone".into()),
            tier: "A".into(),
            spent: 1_250_000,
            time: 1_700_000_000_000,
            bytes: 812,
            arguments: "5".repeat(64),
            amount: Some(12_500_000),
            method: Some("GET".into()),
            scheme: Some("https".into()),
            port: Some(443),
            path: Some(format!("/v7/items/{n}")),
            content_type: Some("application/json".into()),
            trust: lazaret_gate::trust::Score::try_from(50).ok(),
            host: None,
        },
    }
}

/// The same question, built for Cedar beforehand.
fn bare(request: &Request) -> (cedar_policy::Request, Entities) {
    let (schema, _) = Schema::from_cedarschema_str(SCHEMA).unwrap();
    let uid = |kind: &str, id: &str| format!("{kind}::{id:?}").parse::<EntityUid>().unwrap();
    let action = uid("Action", &request.action);
    let context = serde_json::to_value(&request.context).unwrap();
    let context = cedar_policy::Context::from_json_value(context, Some((&schema, &action))).unwrap();
    let of = |kind: &str, id: &str| serde_json::json!({"type": kind, "id": id});
    let entities = serde_json::json!([
        {"uid": of("Agent", "clerk"), "attrs": {}, "parents": [of("App", "app-7")]},
        {"uid": of("Host", "api.host-7.example.com"), "attrs": {},
         "parents": [of("Host", "host-7.example.com"), of("Host", "example.com"), of("Host", "com")]},
    ]);
    let entities = Entities::from_json_value(entities, Some(&schema)).unwrap();
    let resource = uid("Host", &request.resource.id);
    (cedar_policy::Request::new(uid("Agent", "clerk"), action, resource, context, Some(&schema)).unwrap(), entities)
}

fn micros(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}

fn decisions(policies: &Policies, whole: &PolicySet) {
    const ROUNDS: usize = 5_000;
    let asked = request(1);
    let (cedar, entities) = bare(&asked);
    let authorizer = Authorizer::new();
    assert_eq!(authorizer.is_authorized(&cedar, whole, &entities).decision(), cedar_policy::Decision::Allow);
    assert_eq!(policies.decide(&asked).verdict, Verdict::Allow);
    let cached = Cached::new(1_000);
    let (mut ours, mut theirs, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that a noisy neighbour hits all three.
    for round in 0..ROUNDS + ROUNDS / 10 {
        let one = time(|| policies.decide(black_box(&asked)));
        let other = time(|| authorizer.is_authorized(black_box(&cedar), whole, &entities));
        let third = time(|| cached.decide(policies, black_box(&asked)));
        if round >= ROUNDS / 10 {
            ours.push(one);
            theirs.push(other);
            memory.push(third);
        }
    }
    let (ours, theirs, memory) = (median(ours), median(theirs), median(memory));
    println!(
        "decide, {} rules, full context      lazaret {:>9}   bare cedar {:>9}   ratio {:.2} (at most 1.20)",
        policies.len(),
        micros(ours),
        micros(theirs),
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
    println!("decide, cached                       lazaret {:>9}   (at most 5 µs)", micros(memory));
    let denied = Request { context: Context { method: Some("PUT".into()), ..asked.context.clone() }, ..asked };
    assert!(policies.why(&denied).nearest.is_some());
    let why = median((0..1_000).map(|_| time(|| policies.why(black_box(&denied)))).collect());
    println!("why, a denial by default             lazaret {:>9}", micros(why));
}

/// Nothing that any rule reads is as it was before.
fn different(n: usize) -> Request {
    let mut asked = request(n);
    asked.context.labels.insert(format!("label-{n}"));
    asked.context.spent = n as i64;
    asked.context.bytes = n as i64;
    asked.context.risk.score = n as u32 % 1_000;
    asked.resource.id = format!("h{n}.api.host-7.example.com");
    asked
}

/// The part of a backtest that decides; `cargo bench -p lazaret-host -- backtest` measures all of it, on every processor.
fn backtest(old: &Policies, new: &Policies, what: &str, request: fn(usize) -> Request) {
    const PAST: usize = 100_000;
    let past = (0..PAST).map(|n| Recorded { id: n.to_string(), request: Some(Box::new(request(n))) });
    let past: Vec<Recorded> = past.collect();
    let took = time(|| {
        let found = compare(old, new, past.into_iter());
        assert_eq!(found.total(), PAST as u64);
        found
    });
    println!("compare, {what:<27} lazaret {:>9.0} per second on one processor", PAST as f64 / took.as_secs_f64());
}

fn loads() {
    let fifty = fifty();
    let took = median((0..9).map(|_| time(|| Policies::load(&[("a", &fifty)]).unwrap())).collect());
    println!("load, 50 rules                       lazaret {:>9}", micros(took));
    let before = Policies::load(&[("a", &fifty)]).unwrap();
    let edit = |n: usize| fifty.replace("context.bytes < 100000", &format!("context.bytes < {n}"));
    let one = |n: usize| fifty.replacen("context.bytes < 100000", &format!("context.bytes < {n}"), 1);
    let again = |text: String| time(|| Policies::load_after(&[("a", text)], Some(&before)).unwrap());
    println!(
        "  after an edit of one of them       lazaret {:>9}",
        micros(median((0..99).map(one).map(again).collect()))
    );
    println!(
        "  after an edit of ten of them       lazaret {:>9}",
        micros(median((0..99).map(edit).map(again).collect()))
    );
    let rule = |n: usize| {
        format!(
            "@id(\"r{n}\") permit (principal, action == Action::\"tool.call\", resource == Tool::\"t{n}\") when {{ context.bytes < {n} }};\n"
        )
    };
    let half = |from: usize| (from..from + MAX_RULES / 2).map(rule).collect::<String>();
    let many = [("a", half(0)), ("b", half(MAX_RULES / 2))];
    let mut loaded = None;
    let took = time(|| loaded = Policies::load(&many).ok());
    println!("load, {MAX_RULES} rules                    lazaret {:>9.2} s", took.as_secs_f64());
    let policies = loaded.unwrap();
    let mut call = request(0);
    (call.action, call.resource) = ("tool.call".into(), Uid::new(Kind::Tool, "t9"));
    call.context = Context { run: "r".into(), ..Context::default() };
    let first = time(|| policies.decide(&call));
    let next = median((0..20).map(|_| time(|| policies.decide(&call))).collect());
    println!("decide, {MAX_RULES} rules               lazaret {:>9}   (the first {})", micros(next), micros(first));
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    let policies = Policies::load(&[("fifty.cedar", fifty())]).unwrap();
    let draft =
        Policies::load(&[("fifty.cedar", fifty().replace("context.port == 443", "context.port == 8443"))]).unwrap();
    if wants("decide") {
        decisions(&policies, &policies.whole());
    }
    if wants("compare") {
        backtest(&policies, &draft, "a past that repeats itself", |n| request(n % 1_000));
        backtest(&policies, &draft, "a past all different", request);
        backtest(&policies, &draft, "different to every rule", different);
    }
    if wants("load") {
        loads();
    }
}

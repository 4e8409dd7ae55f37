//! The life of an effect, watched: what is called in which order, what is counted, and what is said.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_gate::approval::{Draft, Moment, Now, Question, Requester};
use lazaret_gate::effect::{Header, Level, Prompt, Request, Role, Utterance};
use lazaret_gate::ledger::{Account, Caps, Holder, Killed, Point, Switch, Switches, Thrown};
use lazaret_gate::policy::{Facts, Who};
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::ruling::Asked;
use lazaret_gate::stages::{Matter, Purse};
use lazaret_gate::{
    AgentId, Answer, Budget, Bytes, Caller, Circumstance, Circumstances, Digest, Effect, Exact, Executor, Grants, Halt,
    Journal, Meter, Outcome, Permit, Refusal, Rulebook, Ruling, Undone, mediate,
};

/// Everything that happened, in order.
#[derive(Default)]
struct Seen(RefCell<Vec<String>>);

impl Seen {
    fn note(&self, what: String) {
        self.0.borrow_mut().push(what);
    }

    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// A journal that can be told to fail.
struct Notes<'a> {
    seen: &'a Seen,
    fails: &'static str,
}

impl Notes<'_> {
    fn step(&self, step: &str, number: u32) -> Result<(), Halt> {
        self.seen.note(format!("{step} {number}"));
        if self.fails == step { Err(Halt::Unwritten("disk full".into())) } else { Ok(()) }
    }
}

impl Journal for Notes<'_> {
    fn open(&mut self, number: u32, _effect: &Effect) -> Result<(), Halt> {
        self.step("open", number)
    }

    fn flush(&mut self, number: u32, _: &Ruling) -> Result<(), Halt> {
        self.step("flush", number)
    }

    fn close(&mut self, number: u32, _: Effect, _: Option<Ruling>, outcome: &Outcome) -> Result<(), Halt> {
        self.seen.note(outcome.verdict().to_owned());
        self.step("close", number)
    }
}

/// An executor that answers as it was told.
struct Answers<'a> {
    seen: &'a Seen,
    with: Result<Answer, Undone>,
}

impl Executor for Answers<'_> {
    fn run(&mut self, permit: Permit) -> Result<Answer, Undone> {
        self.seen.note(format!("run {}", permit.number()));
        assert!(!permit.into_effect().kind().is_empty());
        self.with.clone()
    }
}

/// Circumstances in which the rules are the loosest that are shipped, and nobody can be asked.
struct Calm(Arc<Rulebook>);

impl Default for Calm {
    fn default() -> Self {
        let (name, text) = lazaret_gate::policy::preset("open").unwrap();
        Self(Arc::new(Rulebook::load(BTreeMap::from([(name.to_owned(), text.to_owned())])).unwrap()))
    }
}

impl Circumstances for Calm {
    fn now(&mut self, _: u32) -> Result<Circumstance, Halt> {
        let facts = Facts { run: "r".into(), tier: "A".into(), ..Facts::default() };
        Ok(Circumstance { rulebook: self.0.digest(), facts, switches: Switches::default(), revoked: None })
    }

    fn rulebook(&mut self, _: &Digest) -> Result<Arc<Rulebook>, Halt> {
        Ok(self.0.clone())
    }

    fn ask(&mut self, _: u32, matter: Matter<'_>, _: &Circumstance) -> Result<Asked, Halt> {
        Err(Halt::Stopped(format!("nobody can be asked: {}", matter.reason)))
    }
}

/// A turn in which asks are made.
struct Turn {
    agent: AgentId,
    account: Account,
    calm: Calm,
    grants: Grants,
    budget: Budget,
    meter: Meter,
    seen: Seen,
    fails: &'static str,
}

impl Turn {
    fn new(grants: &[&str]) -> Self {
        let grants = Grants::new(grants.iter().map(|grant| grant.parse().unwrap()).collect());
        let agent: AgentId = "stranger".parse().unwrap();
        let account = Account::new(Holder::Agent(agent.clone()));
        let (budget, meter, calm) = (Budget::default(), Meter::default(), Calm::default());
        Self { agent, account, calm, grants, budget, meter, seen: Seen::default(), fails: "" }
    }

    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        self.ask_with(effect, Ok(Answer::Nothing))
    }

    fn ask_with(&mut self, effect: Effect, with: Result<Answer, Undone>) -> Result<Outcome, Halt> {
        let at = Point { day: 1, run: "r".into(), turn: "t".into() };
        let mut caller = Caller {
            agent: &self.agent,
            who: &Who::agent(&self.agent, None),
            grants: &self.grants,
            budget: &self.budget,
            meter: &mut self.meter,
            purse: Purse { caps: &Caps::default(), account: &mut self.account, at: &at },
            labels: None,
        };
        let mut journal = Notes { seen: &self.seen, fails: self.fails };
        mediate(&mut caller, effect, &mut self.calm, &mut journal, &mut Answers { seen: &self.seen, with })
    }

    /// The refusal's text.
    fn refused(&mut self, effect: Effect) -> String {
        match self.ask(effect) {
            Ok(Outcome::Refused(refusal)) => refusal.to_string(),
            other => panic!("not refused: {other:?}"),
        }
    }
}

fn get(key: &str) -> Effect {
    Effect::StorageGet { key: key.into() }
}

fn tool(name: &str, arguments: String) -> Effect {
    Effect::ToolsCall { name: name.into(), arguments }
}

fn request() -> Request {
    Request { method: "GET".into(), url: "https://a/".into(), headers: Vec::new(), body: Bytes::default() }
}

fn prompt() -> Prompt {
    Prompt { model: "rehearsal/m".into(), utterances: Vec::new(), max_tokens: 1 }
}

fn send(content_type: String, body: Vec<u8>) -> Effect {
    Effect::AgentsSend { to: "clerk".into(), content_type, body: Bytes(body) }
}

const ALL: &[&str] =
    &["storage", "log", "clock", "random", "environment", "model:rehearsal/m", "tool:t", "http:a", "agent:clerk"];

fn every_kind() -> Vec<Effect> {
    vec![
        get("k"),
        Effect::StorageSet { key: "k".into(), value: Bytes::default() },
        Effect::StorageDelete { key: "k".into() },
        Effect::StorageList { prefix: String::new(), after: None, limit: 1 },
        Effect::LogWrite { level: Level::Info, text: String::new() },
        Effect::ClockNow {},
        Effect::ClockMonotonic {},
        Effect::ClockSleep { nanos: Exact(1) },
        Effect::RandomBytes { len: 1 },
        Effect::EnvironmentRead {},
        Effect::ModelGenerate(prompt()),
        Effect::ToolsList {},
        tool("t", "{}".into()),
        Effect::HttpFetch(request()),
        send(String::new(), Vec::new()),
    ]
}

#[test]
fn outward_effects_are_flushed_before_they_run_and_inward_ones_never() {
    let outward = ["model.generate", "tools.call", "http.fetch"];
    for effect in every_kind() {
        let (kind, leaves) = (effect.kind(), effect.leaves_host());
        assert_eq!(leaves, outward.contains(&kind), "{kind}");
        let mut turn = Turn::new(ALL);
        assert_eq!(turn.ask(effect).unwrap(), Outcome::Done(Answer::Nothing));
        let expected: &[&str] = match leaves {
            true => &["open 0", "flush 0", "run 0", "permit", "close 0"],
            false => &["open 0", "run 0", "permit", "close 0"],
        };
        assert_eq!(turn.seen.take(), expected, "{kind}");
    }
}

#[test]
fn a_refusal_is_recorded_and_nothing_runs() {
    for effect in every_kind() {
        if effect.kind() == "tools.list" {
            continue;
        }
        let mut turn = Turn::new(&[]);
        let refusal = turn.refused(effect.clone());
        let code = if matches!(effect, Effect::HttpFetch(_)) { "egress-denied" } else { "not-granted" };
        assert!(refusal.starts_with(&format!("refused ({code}, declared): ")), "{refusal}");
        assert_eq!(turn.seen.take(), ["open 0", "refusal", "close 0"], "{}", effect.kind());
    }
}

#[test]
fn no_journal_no_effect() {
    for (fails, expected) in [
        ("open", &["open 0"][..]),
        ("flush", &["open 0", "flush 0"]),
        ("close", &["open 0", "flush 0", "run 0", "permit", "close 0"]),
    ] {
        let mut turn = Turn::new(ALL);
        turn.fails = fails;
        let halt = turn.ask(tool("t", "{}".into())).unwrap_err();
        assert_eq!(halt.to_string(), "the journal can't be written: disk full");
        assert_eq!(turn.seen.take(), expected, "{fails}");
    }
}

#[test]
fn a_failure_is_told_to_the_agent() {
    let mut turn = Turn::new(ALL);
    let outcome = turn.ask_with(get("k"), Err("the disk is on fire".into())).unwrap();
    assert_eq!(outcome, Outcome::Failed("the disk is on fire".into()));
    assert_eq!(outcome.verdict(), "permit");
}

#[test]
fn asks_are_counted_refused_or_not() {
    let mut turn = Turn::new(&["storage"]);
    turn.budget.effects = 3;
    turn.ask(get("a")).unwrap();
    turn.refused(Effect::ClockNow {});
    turn.ask(get("b")).unwrap();
    assert_eq!(turn.meter.effects, 3);
    let expected = [
        "open 0", "run 0", "permit", "close 0", "open 1", "refusal", "close 1", "open 2", "run 2", "permit", "close 2",
    ];
    assert_eq!(turn.seen.take(), expected);
    let text = turn.refused(get("c"));
    assert_eq!(
        text,
        "refused (effects-spent, budget): `storage.get` is one ask more than the turn's 3; an operator can raise it with \
         `--effects`"
    );
    // Spent is spent, even for what was never granted.
    assert!(turn.refused(Effect::ClockNow {}).starts_with("refused (effects-spent"));
    turn.meter.effects = u32::MAX;
    assert!(turn.refused(get("c")).starts_with("refused (effects-spent"));
    assert_eq!(turn.meter.effects, u32::MAX);
}

#[test]
fn a_spent_budget_ends_the_turn_and_nothing_else_does() {
    let mut turn = Turn::new(&["storage"]);
    turn.budget = Budget { effects: 3, bytes: 10, ..Budget::default() };
    let mut ends = |effect| match turn.ask(effect) {
        Ok(Outcome::Refused(refusal)) => refusal.ends_turn(),
        other => panic!("not refused: {other:?}"),
    };
    assert!(!ends(Effect::ClockNow {}), "not granted");
    assert!(!ends(get(&"k".repeat(1025))), "badly formed");
    assert!(ends(get("more than ten bytes")), "too many bytes");
    assert!(ends(get("k")), "too many asks");
}

#[test]
fn bytes_are_reserved_before_and_charged_after() {
    let mut turn = Turn::new(&["storage", "random"]);
    turn.budget.bytes = 100;
    turn.ask_with(get("0123456789"), Ok(Answer::Random(Bytes(vec![0; 30])))).unwrap();
    assert_eq!(turn.meter.bytes, 40);
    turn.ask_with(get(&"k".repeat(30)), Ok(Answer::Random(Bytes(vec![0; 30])))).unwrap();
    assert_eq!(turn.meter.bytes, 100, "the last byte can be spent");
    assert_eq!(
        turn.refused(get("key")),
        "refused (bytes-spent, budget): `storage.get` would move more than the turn's 100 bytes; an operator can raise it \
         with `--bytes`"
    );
    assert_eq!(turn.meter.bytes, 103, "a refused ask is on the tape too");
    turn.budget.bytes = u64::MAX;
    turn.meter.bytes = u64::MAX;
    turn.ask(get("k")).unwrap();
    assert_eq!(turn.meter.bytes, u64::MAX);
}

#[test]
fn an_answer_over_the_budget_is_withheld_and_replays_the_same() {
    let withheld = "done, but the answer is withheld: `random.bytes` would move more than the turn's 20 bytes";
    let mut turn = Turn::new(&["random"]);
    turn.budget.bytes = 20;
    let effect = || Effect::RandomBytes { len: 21 };
    let live = turn.ask_with(effect(), Ok(Answer::Random(Bytes(vec![7; 21])))).unwrap();
    assert_eq!(live, Outcome::Failed(withheld.into()));
    assert_eq!(turn.seen.take(), ["open 0", "run 0", "permit", "close 0"], "it happened, and the record says so");
    let charged = turn.meter.clone();
    assert_eq!(charged.bytes, withheld.len() as u64);
    // A replay knows only what the agent got.
    turn.meter = Meter::default();
    let again = turn.ask_with(effect(), Err(withheld.into())).unwrap();
    assert_eq!((again, turn.meter), (live, charged));
}

#[test]
fn an_answer_that_just_fits_is_given() {
    let mut turn = Turn::new(&["random"]);
    turn.budget.bytes = 20;
    let answer = Answer::Random(Bytes(vec![7; 20]));
    assert_eq!(turn.ask_with(Effect::RandomBytes { len: 20 }, Ok(answer.clone())).unwrap(), Outcome::Done(answer));
}

#[test]
fn badly_formed_asks_are_refused_whatever_was_granted() {
    let (key, text, value) = ("k".repeat(1025), "t".repeat(65537), vec![0; (1 << 20) + 1]);
    let big = || String::from_utf8(vec![b'v'; (1 << 20) + 1]).unwrap();
    let list = |prefix: &str, after: Option<&str>, limit| Effect::StorageList {
        prefix: prefix.into(),
        after: after.map(Into::into),
        limit,
    };
    let http = |change: &dyn Fn(&mut Request)| {
        let mut request = request();
        change(&mut request);
        Effect::HttpFetch(request)
    };
    let header = |name: &str, value: &str| {
        http(&|request| request.headers = vec![Header { name: name.into(), value: value.into() }])
    };
    let said = |text: String| vec![Utterance { role: Role::User, text }];
    let model =
        |model: &str, utterances| Effect::ModelGenerate(Prompt { model: model.into(), utterances, max_tokens: 1 });
    let cases = [
        (get(&key), "`storage.get`: the key is 1025, the most is 1024"),
        (Effect::StorageDelete { key: key.clone() }, "`storage.delete`: the key is 1025, the most is 1024"),
        (
            Effect::StorageSet { key: key.clone(), value: Bytes::default() },
            "`storage.set`: the key is 1025, the most is 1024",
        ),
        (
            Effect::StorageSet { key: "k".into(), value: Bytes(value.clone()) },
            "`storage.set`: the value is 1048577, the most is 1048576",
        ),
        (list(&key, None, 1), "`storage.list`: the prefix is 1025, the most is 1024"),
        (list("", Some(&key), 1), "`storage.list`: `after` is 1025, the most is 1024"),
        (list("", None, 1025), "`storage.list`: the limit is 1025, the most is 1024"),
        (
            Effect::LogWrite { level: Level::Info, text: text.clone() },
            "`log.write`: the text is 65537, the most is 65536",
        ),
        (Effect::RandomBytes { len: 4097 }, "`random.bytes`: the length is 4097, the most is 4096"),
        (model(&key, Vec::new()), "`model.generate`: the model's name is 1025, the most is 1024"),
        (
            model("m", vec![Utterance { role: Role::User, text: String::new() }; 1025]),
            "`model.generate`: the number of utterances is 1025, the most is 1024",
        ),
        (model("m", said(big())), "`model.generate`: the prompt is 1048577, the most is 1048576"),
        (tool(&key, "{}".into()), "`tools.call`: the name is 1025, the most is 1024"),
        (tool("t", big()), "`tools.call`: the arguments' length is 1048577, the most is 1048576"),
        (http(&|request| request.url = text.clone()), "`http.fetch`: the URL is 65537, the most is 65536"),
        (http(&|request| request.method = "A".repeat(17)), "`http.fetch`: the method is 17, the most is 16"),
        (http(&|request| request.method = "get".into()), "`http.fetch`: the method `get` is not upper-case letters"),
        (http(&|request| request.method = String::new()), "`http.fetch`: the method `` is not upper-case letters"),
        (
            http(&|request| request.body = Bytes(value.clone())),
            "`http.fetch`: the body is 1048577, the most is 1048576",
        ),
        (header("Accept", "a"), "`http.fetch`: `Accept` is not a lower-case header name"),
        (header("", "a"), "`http.fetch`: `` is not a lower-case header name"),
        (header("a", "b\r\nc: d"), "`http.fetch`: the value of `a` has control characters"),
        (header(&key, "a"), "`http.fetch`: a header's name is 1025, the most is 1024"),
        (header("a", &text), "`http.fetch`: a header's value is 65537, the most is 65536"),
        (send(key.clone(), Vec::new()), "`agents.send`: the content type is 1025, the most is 1024"),
        (send(String::new(), value.clone()), "`agents.send`: the body is 1048577, the most is 1048576"),
    ];
    for (effect, reason) in cases {
        let (mut turn, weight) = (Turn::new(ALL), effect.weight());
        let remedy = "the agent has to ask differently; no grant changes this";
        assert_eq!(turn.refused(effect), format!("refused (bad-ask, form): {reason}; {remedy}"));
        assert_eq!(turn.seen.take(), ["open 0", "refusal", "close 0"]);
        assert_eq!((turn.meter.effects, turn.meter.bytes), (1, weight));
    }
}

#[test]
fn only_what_can_be_done_twice_is_retried() {
    let fetch = |method: &str| Effect::HttpFetch(Request { method: method.into(), ..request() });
    for (effect, twice) in [
        (fetch("GET"), true),
        (fetch("HEAD"), true),
        (fetch("OPTIONS"), true),
        (fetch("POST"), false),
        (fetch("PUT"), false),
        (fetch("DELETE"), false),
        (tool("t", "{}".into()), false),
        (Effect::ModelGenerate(prompt()), true),
    ] {
        assert_eq!(effect.is_idempotent(), twice, "{effect:?}");
    }
}

#[test]
fn what_is_cut_off_ends_the_turn_and_counts_as_done() {
    let mut turn = Turn::new(&["storage"]);
    let thrown = Thrown { by: "ana".into(), at: 0, reason: String::new() };
    let killed = Killed { switch: Switch::All, kind: "storage.get", thrown };
    let cut =
        Refusal { code: Code::Killed, layer: Layer::Executor, reason: killed.in_flight(), remedy: killed.remedy() };
    let outcome = turn.ask_with(get("k"), Err(Undone::Cut(Box::new(cut.clone())))).unwrap();
    assert_eq!(outcome, Outcome::Refused(cut.clone()));
    assert!(cut.ends_turn());
    assert_eq!(
        cut.to_string(),
        "refused (killed, executor): `storage.get` was under way and is cut off: ana has stopped everything at \
         1970-01-01T00:00:00Z, and what was sent may have arrived; `lazaret kill --lift all` lets effects pass again"
    );
    assert!(turn.account.open().is_empty(), "what was reserved is settled");
    assert_eq!(turn.account.today(lazaret_gate::ledger::Unit::Effects, 1), 1, "it may have happened");
}

/// Circumstances in which a switch is thrown while a person is asked.
struct Alarm(Calm, Switches);

impl Circumstances for Alarm {
    fn now(&mut self, number: u32) -> Result<Circumstance, Halt> {
        self.0.now(number)
    }

    fn rulebook(&mut self, digest: &Digest) -> Result<Arc<Rulebook>, Halt> {
        self.0.rulebook(digest)
    }

    fn ask(&mut self, _: u32, matter: Matter<'_>, under: &Circumstance) -> Result<Asked, Halt> {
        let at = Now { moment: Moment { wall_ms: 5, monotonic_ms: 5 }, boot: "b".into() };
        let draft = Draft {
            id: "q".into(),
            agent: "stranger".parse().unwrap(),
            run: "r".into(),
            effect: matter.effect.clone(),
            policy: under.rulebook,
            rule: matter.rule.into(),
            reason: matter.reason.into(),
            risk: matter.risk.clone(),
            labels: Vec::new(),
            nonce: Bytes(vec![0; 16]),
            requester: Requester::Agent("stranger".parse().unwrap()),
        };
        let question = Question::ask(draft, &at, 1000).unwrap();
        let then = Circumstance { switches: self.1.clone(), ..under.clone() };
        Ok(Asked { question, answer: None, at, then, ignored: Vec::new() })
    }
}

#[test]
fn a_switch_thrown_during_the_wait_stops_what_it_is_about() {
    let rule = "@id(\"ask\") @requireApproval(\"look\") permit(principal, action, resource);";
    let book = Rulebook::load(BTreeMap::from([("ask.cedar".to_owned(), rule.to_owned())])).unwrap();
    let book = Arc::new(book);
    for (switch, code) in [(Switch::All, Code::Killed), (Switch::Spend, Code::ApprovalExpired)] {
        let mut turn = Turn::new(&["storage"]);
        let mut switches = Switches::default();
        switches.throw(switch, Thrown { by: "ana".into(), at: 0, reason: String::new() });
        let mut alarm = Alarm(Calm(book.clone()), switches);
        let at = Point { day: 1, run: "r".into(), turn: "t".into() };
        let mut caller = Caller {
            agent: &turn.agent,
            who: &Who::agent(&turn.agent, None),
            grants: &turn.grants,
            budget: &turn.budget,
            meter: &mut turn.meter,
            purse: Purse { caps: &Caps::default(), account: &mut turn.account, at: &at },
            labels: None,
        };
        let mut notes = Notes { seen: &turn.seen, fails: "" };
        let mut answers = Answers { seen: &turn.seen, with: Ok(Answer::Nothing) };
        let outcome = mediate(&mut caller, get("k"), &mut alarm, &mut notes, &mut answers).unwrap();
        let Outcome::Refused(refusal) = outcome else { panic!("not refused: {outcome:?}") };
        assert_eq!(refusal.code, code, "{refusal}");
    }
}

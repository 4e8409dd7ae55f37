//! What agents have seen: a real server on the loopback under several names, rules that speak of labels, and what becomes of
//! them by messages, forks, rollbacks and crashes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test touches the disk and the loopback, and one that can't go on has failed"
)]

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lazaret_exec::egress::{self, Resolver};
use lazaret_gate::effect::Request as HttpRequest;
use lazaret_gate::ledger::Caps;
use lazaret_gate::outcome::Response;
use lazaret_gate::policy::{Facts, Request, Who};
use lazaret_gate::record::{AgentRolledBack, Body, EffectClosed, EffectOpened, Ending, Judged, Message};
use lazaret_gate::refusal::Code;
use lazaret_gate::risk::Around;
use lazaret_gate::{
    AgentId, Answer, Blob, Budget, Bytes, Circumstance, Digest, Effect, Grants, Labels, Outcome, Refusal, Ruling,
    Rulings, canonical,
};
use lazaret_host::{Host, HostError, NewAgent, Replayer, Selection, Settings, Source, Turn, Verdict, verify_bundle};
use lazaret_store::{Batch, Change};
use tempfile::TempDir;

/// Everything goes, but an agent that has seen something untrusted writes no logs.
const RULES: &str = r#"
@id("all") permit (principal, action, resource);
@id("quiet") forbid (principal, action == Action::"log.write", resource) when { context.labels.contains("untrusted") };
"#;

/// Every agent's: four hosts, of which one is ours, one has what is ours, and one both.
const GRANTS: &str = "storage log agent:clerk agent:other net:127.0.0.1 http:http://web.example:PORT \
    http:http://ours.example:PORT trusted:http://ours.example:PORT http:http://mail.example:PORT \
    private:http://mail.example:PORT http:http://desk.example:PORT trusted:http://desk.example:PORT \
    private:http://desk.example:PORT";

/// Answers every request with the same few bytes.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi");
        }
    });
    port
}

type Names = Arc<Mutex<HashMap<String, IpAddr>>>;

struct Scene {
    dir: TempDir,
    port: u16,
    names: Names,
}

impl Scene {
    /// A data root whose rules are these, or the shipped ones.
    fn new(rules: Option<&str>) -> Self {
        let (dir, port) = (tempfile::tempdir().unwrap(), serve());
        let hosts = ["web", "ours", "mail", "desk"].map(|host| (format!("{host}.example"), Ipv4Addr::LOCALHOST.into()));
        let scene = Self { dir, port, names: Arc::new(Mutex::new(hosts.into())) };
        drop(scene.host());
        if let Some(rules) = rules {
            let folder = scene.root().join("policy");
            std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).for_each(|path| {
                if path.extension().is_some_and(|extension| extension == "cedar") {
                    std::fs::remove_file(path).unwrap();
                }
            });
            std::fs::write(folder.join("mine.cedar"), rules).unwrap();
        }
        scene
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn host(&self) -> Host {
        let names = self.names.clone();
        let resolver = Resolver::Given(Arc::new(move |name| {
            let found = names.lock().unwrap().get(name).copied();
            found.map(|address| vec![address]).ok_or_else(|| "no such name".to_owned())
        }));
        let egress = egress::Settings { resolver, ..egress::Settings::default() };
        let settings = Settings { preset: "open".into(), egress, ..Settings::default() };
        Host::open_with(&self.root(), settings).unwrap()
    }

    fn create(&self, host: &Host, name: &str, grants: &str) -> Result<(), HostError> {
        let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/build/rust-counter.wasm");
        let component = std::fs::read(component).expect("guests/build.sh makes the guests");
        let grants = grants.replace("PORT", &self.port.to_string());
        let grants = Grants::new(grants.split_whitespace().map(|grant| grant.parse().unwrap()).collect());
        let new = NewAgent {
            agent: id(name),
            grants,
            budget: Budget::default(),
            caps: Caps::default(),
            slots: Default::default(),
        };
        host.create(new, &component).map(drop)
    }

    fn fetch(&self, host: &str) -> String {
        format!("fetch {}", self.url(host))
    }

    fn url(&self, host: &str) -> String {
        format!("http://{host}.example:{}/", self.port)
    }
}

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn send(host: &Host, name: &str, text: &str) -> Turn {
    host.send(&id(name), Message::outside("text/plain", text)).unwrap()
}

fn labels(host: &Host, name: &str) -> Vec<String> {
    host.known(&id(name)).unwrap().labels.iter().cloned().collect()
}

fn refusal(turn: &Turn) -> Refusal {
    match &turn.record.tape.last().unwrap().outcome {
        Outcome::Refused(refusal) => refusal.clone(),
        other => panic!("{other:?}"),
    }
}

fn done(turn: &Turn) -> bool {
    matches!(turn.record.tape.last().unwrap().outcome, Outcome::Done(_))
        && matches!(turn.record.ending, Ending::Replied(_))
}

/// Everything that anybody can check about these agents.
fn check_all(host: &Host, agents: &[&str]) {
    host.store().verify_journal(|_| ()).unwrap();
    host.store().verify_state().unwrap();
    let selections: Vec<Selection> = agents.iter().map(|agent| agent.parse().unwrap()).collect();
    for selection in &selections {
        let verdicts = host.replay(selection, |_, _, _| ()).unwrap();
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Match), "{}: {verdicts:?}", selection.agent);
    }
    let report = verify_bundle(host.engine(), &host.export(&selections).unwrap(), |_, _, _| ()).unwrap();
    assert!(report.verdicts.iter().all(|(.., verdict)| *verdict == Verdict::Match), "{:?}", report.verdicts);
}

#[test]
fn what_was_fetched_marks_the_agent_until_it_is_rolled_back() {
    let scene = Scene::new(Some(RULES));
    let host = scene.host();
    scene.create(&host, "clerk", GRANTS).unwrap();
    assert!(done(&send(&host, "clerk", "say before")));
    assert!(done(&send(&host, "clerk", &scene.fetch("ours"))));
    assert!(labels(&host, "clerk").is_empty(), "the host is ours");
    assert!(done(&send(&host, "clerk", &scene.fetch("web"))));
    assert_eq!(labels(&host, "clerk"), ["untrusted"]);
    let no = refusal(&send(&host, "clerk", "say after"));
    assert_eq!(no.code, Code::Forbidden);
    assert!(no.reason.contains("rule `quiet`"), "{no}");
    // It outlives the process, and turns in which nothing is seen.
    drop(host);
    let host = scene.host();
    assert_eq!(refusal(&send(&host, "clerk", "say after")).code, Code::Forbidden);
    assert_eq!(labels(&host, "clerk"), ["untrusted"]);
    // What was refused, or failed, has brought nothing.
    host.fork(&id("clerk"), Some(1), &id("other")).unwrap();
    assert!(matches!(refusal(&send(&host, "other", "fetch https://web.example/")).code, Code::EgressDenied));
    scene.names.lock().unwrap().remove("web.example");
    assert!(matches!(send(&host, "other", &scene.fetch("web")).record.tape[0].outcome, Outcome::Failed(_)));
    assert!(labels(&host, "other").is_empty());
    // The cure.
    host.rollback(&id("clerk"), 2, "me").unwrap();
    assert!(labels(&host, "clerk").is_empty());
    assert!(done(&send(&host, "clerk", "say again")));
    check_all(&host, &["clerk", "other"]);
}

/// An answer that is larger than the rules let come back is withheld, so nobody has seen it; and a replay, which has no such
/// answer on its tape, says the same.
#[test]
fn what_is_withheld_marks_nobody() {
    let rules = "@id(\"short\") @maxResponse(\"1\") permit (principal, action == Action::\"http.fetch\", resource);";
    let scene = Scene::new(Some(rules));
    let host = scene.host();
    scene.create(&host, "clerk", GRANTS).unwrap();
    let no = refusal(&send(&host, "clerk", &scene.fetch("web")));
    assert_eq!(no.code, Code::ResponseTooLarge);
    assert!(no.reason.contains("the 1 bytes that rule `short` (mine.cedar:1) lets come back"), "{no}");
    assert!(labels(&host, "clerk").is_empty());
    // From the next effect on.
    std::fs::write(scene.root().join("policy/mine.cedar"), rules.replace("\"1\"", "\"2\"")).unwrap();
    assert!(done(&send(&host, "clerk", &scene.fetch("web"))));
    assert_eq!(labels(&host, "clerk"), ["untrusted"]);
    check_all(&host, &["clerk"]);
}

#[test]
fn marks_of_hosts_and_the_shipped_rule() {
    let scene = Scene::new(None);
    let host = scene.host();
    for (name, host_of, labelled) in [
        ("a", "web", vec!["untrusted"]),
        ("b", "ours", vec![]),
        ("c", "desk", vec!["private"]),
        ("d", "mail", vec!["private", "untrusted"]),
    ] {
        scene.create(&host, name, GRANTS).unwrap();
        assert!(done(&send(&host, name, &scene.fetch(host_of))), "{host_of}");
        assert_eq!(labels(&host, name), labelled, "{host_of}");
    }
    // One of them alone is no harm; both, and there is no way out.
    assert!(done(&send(&host, "c", &scene.fetch("web"))));
    for name in ["c", "d"] {
        for ask in [scene.fetch("ours"), "tool mail.list {}".to_owned()] {
            let turn = send(&host, name, &ask);
            let no = refusal(&turn);
            assert!(no.reason.contains("private-and-untrusted") || no.code == Code::NotGranted, "{ask}: {no}");
        }
    }
    assert!(done(&send(&host, "d", "say what stays here goes on")));
    check_all(&host, &["a", "b", "c", "d"]);
}

#[test]
fn messages_and_forks_carry_what_was_seen() {
    let scene = Scene::new(Some(RULES));
    let host = scene.host();
    for name in ["clerk", "other"] {
        scene.create(&host, name, GRANTS).unwrap();
    }
    // A clean sender's message brings nothing.
    assert!(done(&send(&host, "clerk", "tell other say one")));
    assert!(done(&host.deliver().unwrap()[0]));
    assert!(done(&send(&host, "clerk", &scene.fetch("mail"))));
    assert!(done(&send(&host, "clerk", "tell other say two")));
    let [heard] = &host.deliver().unwrap()[..] else { panic!("one message") };
    assert_eq!(heard.record.input.labels.iter().collect::<Vec<_>>(), ["private", "untrusted"]);
    assert_eq!(refusal(heard).code, Code::Forbidden, "from the first ask on");
    assert_eq!(labels(&host, "other"), ["private", "untrusted"]);
    // A turn that isn't kept leaves no labels: neither what it fetched nor what it was sent.
    host.rollback(&id("other"), 1, "me").unwrap();
    assert!(done(&send(&host, "clerk", "tell other fail")));
    host.deliver().unwrap();
    assert!(labels(&host, "other").is_empty());
    // A fork has seen what its source had then, and a fork of that what it had.
    host.fork(&id("clerk"), Some(1), &id("before")).unwrap();
    host.fork(&id("clerk"), None, &id("after")).unwrap();
    host.fork(&id("after"), None, &id("later")).unwrap();
    assert!(labels(&host, "before").is_empty());
    for name in ["after", "later"] {
        assert_eq!(labels(&host, name), ["private", "untrusted"]);
        assert_eq!(refusal(&send(&host, name, "say three")).code, Code::Forbidden);
    }
    host.rollback(&id("later"), 0, "me").unwrap();
    assert_eq!(labels(&host, "later"), ["private", "untrusted"], "it began with them");
    check_all(&host, &["clerk", "other", "before", "after", "later"]);
    // A row that says otherwise than the journal is not believed.
    let both = labels(&host, "after");
    drop(host);
    for (labels, believed) in [(both, true), (Vec::new(), false)] {
        put_back(&scene.host(), "after", labels.into_iter().collect());
        let sent = scene.host().send(&id("after"), Message::outside("text/plain", "recall"));
        assert_eq!(matches!(sent, Err(HostError::Unvouched(_))), !believed, "{sent:?}");
    }
}

/// Puts an agent back to where it is, which is lawful, with these labels, which may not be.
fn put_back(host: &Host, name: &str, labels: Labels) {
    let row = host.known(&id(name)).unwrap();
    let (image, to, taken) = (row.image.unwrap(), row.turn, row.turn);
    let (agent, by, entry, previous) = (row.agent.clone(), "me".to_owned(), row.last_entry, row.last_entry);
    let changes = vec![Change::RolledBack { agent: agent.clone(), image, labels, entry: 0 }];
    let back = AgentRolledBack { agent, by, to, entry, image, taken, previous };
    host.store().commit(Batch { entries: vec![Body::AgentRolledBack(back)], changes }).unwrap();
}

/// Has what a host has, and one judgement more.
struct Altered<'a> {
    host: &'a Host,
    judged: (Digest, Vec<u8>),
}

impl Source for Altered<'_> {
    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, String> {
        if self.judged.0 == *digest { Ok(self.judged.1.clone()) } else { Source::blob(self.host, digest) }
    }
}

#[test]
fn a_record_that_lies_about_labels_is_found_out() {
    let scene = Scene::new(Some(RULES));
    let host = scene.host();
    scene.create(&host, "clerk", GRANTS).unwrap();
    send(&host, "clerk", &scene.fetch("web"));
    let turn = send(&host, "clerk", "say after");
    assert_eq!(refusal(&turn).code, Code::Forbidden);
    let judged: Judged = canonical::decode(&host.store().blob(&turn.record.judged).unwrap()).unwrap();
    assert_eq!(judged.labels, Some(Labels::from(["untrusted".to_owned()])));
    for labels in [Some(Labels::new()), Some(Labels::from(["private".to_owned()])), None] {
        let bytes = canonical::encode(&Judged { labels, ..judged.clone() }).unwrap();
        let mut record = turn.record.clone();
        record.judged = Digest::of(&bytes);
        let source = Altered { host: &host, judged: (record.judged, bytes) };
        let Verdict::Mismatch(found) = Replayer::new(host.engine(), &source).verify(&record) else {
            panic!("the gate let it pass that time")
        };
        assert_eq!(found.place, "effect 0 (verdict)", "{found}");
    }
    // And so is one whose message had labels that nobody speaks of any more.
    let mut record = turn.record.clone();
    record.input.labels = Labels::from(["private".to_owned()]);
    let verdict = Replayer::new(host.engine(), &host).verify(&record);
    assert!(matches!(&verdict, Verdict::Mismatch(found) if found.place == "effect 0 (ruling)"), "{verdict:?}");
}

/// How the gate judges an effect of the first turn now.
fn ruling_of(host: &Host, effect: &Effect, labels: &Labels) -> Ruling {
    let (book, switches, _) = host.rules();
    let facts = Facts { run: "clerk-1".into(), tier: "A".into(), labels: labels.clone(), ..Facts::default() };
    let risk = book.risks().weigh(effect, &Around::of(effect, &host.known(&id("clerk")).unwrap().grants, None));
    let request = Request::of(effect, &Who::agent(&id("clerk"), None), &facts, &risk).unwrap();
    let under = Circumstance { rulebook: book.digest(), facts, switches, revoked: None };
    Ruling { under, risk, rules: book.decide(&request).rules, warnings: Vec::new(), asked: Vec::new() }
}

/// A crash right after a request came back: the turn is taken up, and leaves the labels that it would have left.
#[test]
fn a_turn_that_was_cut_off_leaves_the_same_labels() {
    let scene = Scene::new(Some(RULES));
    let host = scene.host();
    scene.create(&host, "clerk", GRANTS).unwrap();
    let url = scene.url("web");
    let request = HttpRequest { method: "GET".into(), url, headers: Vec::new(), body: Bytes::default() };
    let sent = Labels::from(["private".to_owned()]);
    let input = Message { labels: sent.clone(), ..Message::outside("text/plain", scene.fetch("web").as_str()) };
    let effect = Effect::HttpFetch(request);
    let mut rulings = Rulings::default();
    let ruling = Some(rulings.place(ruling_of(&host, &effect, &sent)));
    let rulings = Blob::of_value(&rulings).unwrap();
    let judged = rulings.digest();
    let agent = id("clerk");
    let opened = EffectOpened {
        agent: agent.clone(),
        turn: 1,
        message: 0,
        input: Some(input),
        number: 0,
        tape: Vec::new(),
        judged,
        effect,
        ruling,
    };
    let changes = vec![Change::Blob(rulings), Change::Unfinished { agent: agent.clone(), turn: Some(1) }];
    host.store().commit(Batch { entries: vec![Body::EffectOpened(Box::new(opened))], changes }).unwrap();
    let response = Response { status: 200, headers: Vec::new(), body: "hi".into() };
    let closed = EffectClosed { agent, turn: 1, number: 0, outcome: Outcome::Done(Answer::Response(response)) };
    host.store().commit(Batch { entries: vec![Body::EffectClosed(Box::new(closed))], changes: Vec::new() }).unwrap();
    drop(host);
    let host = scene.host();
    let recovered = host.recover().unwrap();
    assert_eq!(recovered.finished.len(), 1, "{recovered:?}");
    assert_eq!(labels(&host, "clerk"), ["private", "untrusted"]);
    check_all(&host, &["clerk"]);
}

#[test]
fn a_fork_of_an_agent_whose_hosts_are_checked_once_is_checked_too() {
    let scene = Scene::new(Some(RULES));
    let host = scene.host();
    let preflight = format!("{GRANTS} egress:preflight");
    scene.create(&host, "clerk", &preflight).unwrap();
    host.fork(&id("clerk"), None, &id("one")).unwrap();
    // One of its hosts leads elsewhere since.
    scene.names.lock().unwrap().insert("desk.example".into(), Ipv4Addr::new(10, 0, 0, 7).into());
    let made = scene.create(&host, "two", &preflight).unwrap_err();
    let forked = host.fork(&id("clerk"), None, &id("three")).unwrap_err();
    for why in [made, forked] {
        assert!(matches!(&why, HostError::Preflight { origin, .. } if origin.contains("desk.example")), "{why}");
    }
    assert!(host.known(&id("three")).is_err());
    // Nobody looks anything up for an agent whose every request is checked.
    scene.create(&host, "strict", GRANTS).unwrap();
    host.fork(&id("strict"), None, &id("four")).unwrap();
}

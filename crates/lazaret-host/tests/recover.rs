//! Turns that were cut off. A crash is made by writing down what it would have left: no fault has to be waited for.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test touches the disk and the loopback, and one that can't go on has failed"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use lazaret_gate::effect::Request as HttpRequest;
use lazaret_gate::ledger::Caps;
use lazaret_gate::policy::{Facts, Request, Who};
use lazaret_gate::record::{Body, EffectClosed, EffectOpened, Ending, Message, TapeEntry};
use lazaret_gate::risk::Around;
use lazaret_gate::{AgentId, Answer, Blob, Budget, Bytes, Circumstance, Effect, Grants, Outcome, Ruling, Rulings};
use lazaret_host::{Host, HostError, NewAgent, Settings, Turn};
use lazaret_store::{Batch, Change};
use tempfile::TempDir;

const DRAFT: &str = r#"{"to":"x@example.org","subject":"s","body":"b"}"#;

fn draft() -> (String, Effect) {
    let effect = Effect::ToolsCall { name: "mail.draft".into(), arguments: DRAFT.into() };
    (format!("tool mail.draft {DRAFT}"), effect)
}

fn message(text: &str) -> Message {
    Message::outside("text/plain", text.as_bytes().to_vec())
}

fn name() -> AgentId {
    "a".parse().unwrap()
}

/// A data root with one agent.
fn root(grant: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/build/rust-counter.wasm");
    let component =
        std::fs::read(component).expect("guests/build/rust-counter.wasm isn't built yet: run guests/build.sh");
    let grants = Grants::basic().iter().cloned().chain([grant.parse().unwrap()]).collect();
    let new = NewAgent {
        agent: name(),
        grants: Grants::new(grants),
        budget: Budget::default(),
        caps: Caps::default(),
        slots: Default::default(),
    };
    open(&dir).create(new, &component).unwrap();
    dir
}

fn open(dir: &TempDir) -> Host {
    let settings = Settings { preset: "open".into(), ..Settings::default() };
    Host::open_with(&dir.path().join("root"), settings).unwrap()
}

fn drafts(dir: &TempDir) -> usize {
    std::fs::read_to_string(dir.path().join("root/tools/drafts.jsonl")).map_or(0, |text| text.lines().count())
}

/// How the gate judges an effect now.
fn ruling_of(host: &Host, turn: u64, effect: &Effect) -> Ruling {
    let (book, switches, _) = host.rules();
    let facts = Facts { run: format!("{}-{turn}", name()), tier: "A".into(), ..Facts::default() };
    let risk = book.risks().weigh(effect, &Around::of(effect, &host.known(&name()).unwrap().grants, None));
    let request = Request::of(effect, &Who::agent(&name(), None), &facts, &risk).unwrap();
    let under = Circumstance { rulebook: book.digest(), facts, switches, revoked: None };
    Ruling { under, risk, rules: book.decide(&request).rules, warnings: Vec::new(), asked: Vec::new() }
}

/// What a crash leaves that comes while the first effect of the next turn is out.
fn cut_off(host: &Host, mailbox: u64, text: &str, effect: Effect, tape: Vec<TapeEntry>) {
    let turn = host.known(&name()).unwrap().turn + 1;
    let number = u32::try_from(tape.len()).unwrap();
    let mut rulings = Rulings::default();
    let ruling = Some(rulings.place(ruling_of(host, turn, &effect)));
    let rulings = Blob::of_value(&rulings).unwrap();
    let judged = rulings.digest();
    let opened = EffectOpened {
        agent: name(),
        turn,
        message: mailbox,
        input: Some(message(text)),
        number,
        tape,
        judged,
        effect,
        ruling,
    };
    let changes = vec![Change::Blob(rulings), Change::Unfinished { agent: name(), turn: Some(turn) }];
    host.store().commit(Batch { entries: vec![Body::EffectOpened(Box::new(opened))], changes }).unwrap();
}

/// What a crash leaves that comes right after that effect.
fn close(host: &Host, answer: &str) {
    let turn = host.known(&name()).unwrap().turn + 1;
    let outcome = Outcome::Done(Answer::Result(answer.into()));
    let closed = EffectClosed { agent: name(), turn, number: 0, outcome };
    host.store().commit(Batch { entries: vec![Body::EffectClosed(Box::new(closed))], changes: Vec::new() }).unwrap();
}

fn reply(turn: &Turn) -> String {
    match &turn.record.ending {
        Ending::Replied(reply) => String::from_utf8(reply.body.0.clone()).unwrap(),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_may_have_happened_waits_for_a_person_however_often_one_asks() {
    let dir = root("tool:mail.draft");
    let (text, effect) = draft();
    cut_off(&open(&dir), 0, &text, effect, Vec::new());
    for _ in 0..2 {
        let host = open(&dir);
        assert_eq!(host.recover().unwrap().in_doubt, [name()]);
        let why = host.send(&name(), message("add 1")).unwrap_err();
        assert!(matches!(&why, HostError::InDoubt { turn: 1, number: 0, .. }), "{why}");
        assert!(why.to_string().contains("mail.draft") && why.to_string().contains("agent settle a"), "{why}");
    }
    let host = open(&dir);
    host.settle(&name(), "nobody saw it").unwrap();
    let recovered = host.recover().unwrap();
    let [turn] = recovered.finished.as_slice() else { panic!("{recovered:?}") };
    assert_eq!(turn.record.tape[0].outcome, Outcome::Failed("settled by a person: nobody saw it".into()));
    assert_eq!(drafts(&dir), 0, "it was not done again");
    assert_eq!(reply(&host.send(&name(), message("add 1")).unwrap()), "total=1 count=1");
    assert!(matches!(host.settle(&name(), "again"), Err(HostError::NotInDoubt(_))));
}

#[test]
fn what_came_back_is_not_done_again() {
    let dir = root("tool:mail.draft");
    let (text, effect) = draft();
    let host = open(&dir);
    cut_off(&host, 0, &text, effect, Vec::new());
    close(&host, "as recorded");
    // Without a recovery in between: the next message takes up what is unfinished first.
    assert_eq!(reply(&host.send(&name(), message("add 1")).unwrap()), "total=1 count=1");
    let (seq, record) = host.turns(&"a:1".parse().unwrap()).unwrap().pop().unwrap();
    let turn = Turn {
        seq,
        hash: lazaret_gate::Digest([0; 32]),
        record,
        pages: 0,
        rulings: Rulings::default(),
        warnings: Vec::new(),
    };
    assert_eq!(reply(&turn), "as recorded");
    assert_eq!(drafts(&dir), 0, "the tool was not called");
}

#[test]
fn a_message_whose_turn_was_cut_off_is_answered_once() {
    let dir = root("tool:mail.draft");
    let (text, effect) = draft();
    let host = open(&dir);
    host.post(&name(), message(&text)).unwrap();
    let (id, _) = host.store().mailbox_next(&name()).unwrap().unwrap();
    cut_off(&host, id, &text, effect, Vec::new());
    close(&host, "as recorded");
    assert!(host.deliver().unwrap().is_empty(), "the turn that was cut off was the answer");
    assert_eq!(host.known(&name()).unwrap().turn, 1);
    assert_eq!(host.store().mailbox_len(&name()).unwrap(), 0);
    assert_eq!(drafts(&dir), 0, "the tool was not called");
}

#[test]
fn a_supervisor_takes_up_what_was_cut_off_before_anything_else() {
    let dir = root("tool:mail.draft");
    let (text, effect) = draft();
    let host = open(&dir);
    host.post(&name(), message(&text)).unwrap();
    host.post(&name(), message("add 1")).unwrap();
    let (id, _) = host.store().mailbox_next(&name()).unwrap().unwrap();
    cut_off(&host, id, &text, effect, Vec::new());
    close(&host, "as recorded");
    let host = std::sync::Arc::new(host);
    let supervisor = lazaret_host::Supervisor::start(host.clone(), lazaret_host::Pace::default()).unwrap();
    assert_eq!(reply(&supervisor.send(&name(), message("add 2")).unwrap()), "total=3 count=2");
    assert_eq!(host.known(&name()).unwrap().turn, 3);
    assert_eq!(host.store().mailbox_len(&name()).unwrap(), 0);
    assert_eq!(drafts(&dir), 0, "the tool was not called");
}

#[test]
fn under_a_supervisor_who_is_in_doubt_waits_for_a_person() {
    let dir = root("tool:mail.draft");
    let (text, effect) = draft();
    let host = std::sync::Arc::new(open(&dir));
    cut_off(&host, 0, &text, effect, Vec::new());
    host.post(&name(), message("add 1")).unwrap();
    let supervisor = lazaret_host::Supervisor::start(host.clone(), lazaret_host::Pace::default()).unwrap();
    let life = || supervisor.lives()[&name()];
    for _ in 0..1000 {
        if life() == lazaret_host::Life::InDoubt {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(life(), lazaret_host::Life::InDoubt);
    let why = supervisor.send(&name(), message("add 2")).unwrap_err();
    assert!(matches!(&why, HostError::InDoubt { turn: 1, number: 0, .. }), "{why}");
    host.settle(&name(), "nobody saw it").unwrap();
    supervisor.nudge(&name());
    assert_eq!(reply(&supervisor.send(&name(), message("add 2")).unwrap()), "total=3 count=2");
    assert_eq!((host.known(&name()).unwrap().turn, drafts(&dir)), (3, 0));
}

#[test]
fn what_may_be_done_again_is() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let read = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello").unwrap();
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let dir = root(&format!("http:{origin}"));
    let url = format!("{origin}/x");
    let host = open(&dir);
    let request = HttpRequest { method: "GET".into(), url: url.clone(), headers: Vec::new(), body: Bytes(Vec::new()) };
    cut_off(&host, 0, &format!("fetch {url}"), Effect::HttpFetch(request), Vec::new());
    let recovered = host.recover().unwrap();
    let [turn] = recovered.finished.as_slice() else { panic!("{recovered:?}") };
    assert_eq!(reply(turn), "status=200 bytes=5");
    assert!(served.join().unwrap().starts_with("GET /x HTTP/1.1\r\n"));
}

#[test]
fn a_turn_that_goes_another_way_than_before_says_so_and_does_nothing() {
    let dir = root("tool:mail.draft");
    let (text, effect) = draft();
    let host = open(&dir);
    // The agent never asked this; a record that says so can't be this agent's.
    let other = TapeEntry { effect: Effect::ClockNow {}, outcome: Outcome::Failed("no clock".into()), ruling: None };
    cut_off(&host, 0, &text, effect.clone(), vec![other]);
    let closed = EffectClosed { agent: name(), turn: 1, number: 1, outcome: Outcome::Done(Answer::Result("x".into())) };
    host.store().commit(Batch { entries: vec![Body::EffectClosed(Box::new(closed))], changes: Vec::new() }).unwrap();
    let recovered = host.recover().unwrap();
    let [(_, why)] = recovered.failed.as_slice() else { panic!("{recovered:?}") };
    assert!(why.to_string().contains("effect 0 is not the one that was recorded"), "{why}");
    assert!(host.send(&name(), message("add 1")).is_err(), "no turn can overtake it");
    assert_eq!((drafts(&dir), host.known(&name()).unwrap().turn), (0, 0));
    host.remove(&name()).unwrap();
    assert!(host.recover().unwrap().failed.is_empty(), "a removed agent has nothing to take up");
}

#[test]
fn what_is_in_doubt_is_not_gone_back_from_and_stays_so_in_quarantine() {
    let dir = root("tool:mail.draft");
    let host = open(&dir);
    host.send(&name(), message("add 1")).unwrap();
    let (text, effect) = draft();
    cut_off(&host, 0, &text, effect, Vec::new());
    assert_eq!(host.recover().unwrap().in_doubt, [name()]);
    assert!(matches!(host.rollback(&name(), 1, "me"), Err(HostError::InDoubt { turn: 2, .. })));
    assert!(matches!(host.fork(&name(), Some(1), &"b".parse().unwrap()), Err(HostError::InDoubt { turn: 2, .. })));
    // Set apart, it is still in doubt when it is woken.
    host.quarantine(&name(), "me", "it is too much").unwrap();
    drop(host);
    let host = open(&dir);
    let recovered = host.recover().unwrap();
    assert!(recovered.in_doubt.is_empty() && recovered.finished.is_empty() && recovered.failed.is_empty());
    host.wake(&name(), "me").unwrap();
    assert!(matches!(host.send(&name(), message("add 1")), Err(HostError::InDoubt { .. })));
    // A person may settle it while it is set apart; its turn goes on only when it is woken.
    host.quarantine(&name(), "me", "").unwrap();
    host.settle(&name(), "nobody saw it").unwrap();
    assert!(host.recover().unwrap().finished.is_empty());
    assert!(matches!(host.send(&name(), message("add 1")), Err(HostError::Quarantined { .. })));
    host.wake(&name(), "me").unwrap();
    let recovered = host.recover().unwrap();
    let [turn] = recovered.finished.as_slice() else { panic!("{recovered:?}") };
    assert_eq!(turn.record.tape[0].outcome, Outcome::Failed("settled by a person: nobody saw it".into()));
    assert_eq!(drafts(&dir), 0, "it was not done");
    host.rollback(&name(), 1, "me").unwrap();
    assert_eq!(reply(&host.send(&name(), message("add 1")).unwrap()), "total=2 count=2");
}

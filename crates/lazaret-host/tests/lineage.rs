//! Forks, rollbacks and quarantine: what an agent remembers afterwards, what is refused, and that it all replays.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test reads guests from the disk, prints what it counted, and one that can't go on has failed"
)]

use std::collections::BTreeMap;
use std::path::Path;

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{Ending, Message};
use lazaret_gate::{AgentId, Budget, Grants};
use lazaret_host::{Host, HostError, NewAgent, Selection, Verdict, verify_bundle};
use lazaret_store::{AgentState, Batch, Change};
use tempfile::TempDir;

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn message(text: &str) -> Message {
    Message::outside("text/plain", text.as_bytes().to_vec())
}

fn guest(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/build/{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}; `sh guests/build.sh` makes it", path.display()))
}

fn open(dir: &TempDir) -> Host {
    Host::open(&dir.path().join("root")).unwrap()
}

fn create(host: &Host, name: &str, component: &str) {
    let (grants, budget) = (Grants::basic(), Budget { fuel: 5_000_000, ..Budget::default() });
    let new = NewAgent { agent: id(name), grants, budget, caps: Caps::default(), slots: Default::default() };
    host.create(new, &guest(component)).unwrap();
}

fn ask(host: &Host, name: &str, text: &str) -> String {
    match host.send(&id(name), message(text)).unwrap().record.ending {
        Ending::Replied(reply) => String::from_utf8(reply.body.0).unwrap(),
        Ending::Failed(_) => "failed".into(),
        Ending::Stopped(stop) => stop.cause.name().into(),
    }
}

/// A data root with a counter that has taken a few turns, one of which failed and one was stopped.
fn counted() -> (TempDir, Host) {
    let dir = tempfile::tempdir().unwrap();
    let host = open(&dir);
    create(&host, "a", "rust-counter");
    let answers = ["add 40", "add 2", "fail", "crash", "add 1"].map(|text| ask(&host, "a", text));
    assert_eq!(answers, ["total=40 count=1", "total=42 count=2", "failed", "trap", "total=43 count=3"]);
    (dir, host)
}

/// Everything that anybody can check about these agents.
fn check_all(host: &Host, agents: &[&str]) -> (usize, usize) {
    host.store().verify_journal(|_| ()).unwrap();
    host.store().verify_state().unwrap();
    let selections: Vec<Selection> = agents.iter().map(|agent| agent.parse().unwrap()).collect();
    for selection in &selections {
        let verdicts = host.replay(selection, |_, _, _| ()).unwrap();
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Match), "{}: {verdicts:?}", selection.agent);
    }
    let report = verify_bundle(host.engine(), &host.export(&selections).unwrap(), |_, _, _| ()).unwrap();
    assert!(report.verdicts.iter().all(|(.., verdict)| *verdict == Verdict::Match), "{:?}", report.verdicts);
    assert!(report.checked.descents.iter().all(|descent| descent.shown), "{:?}", report.checked.descents);
    (report.verdicts.len(), report.checked.descents.len())
}

#[test]
fn a_fork_goes_on_from_any_turn_and_its_source_does_not_notice() {
    let (dir, host) = counted();
    for (turn, recall, stored) in [(0, "", "stored=none"), (1, "40", "stored=40@1"), (4, "40,2", "stored=42@2")] {
        let name = format!("fork-{turn}");
        let (row, forked) = host.fork(&id("a"), Some(turn), &id(&name)).unwrap();
        assert_eq!((row.turn, row.state, forked.turn), (0, AgentState::Asleep, turn));
        assert_eq!((ask(&host, &name, "recall"), ask(&host, &name, "stored")), (recall.into(), stored.into()));
    }
    // After a restart, from the fork's own image on disk; and a fork of a fork.
    drop(host);
    let host = open(&dir);
    assert_eq!(ask(&host, "fork-1", "add 5"), "total=45 count=2");
    host.fork(&id("fork-1"), None, &id("grandchild")).unwrap();
    assert_eq!(ask(&host, "grandchild", "stored"), "stored=45@2");
    assert_eq!(ask(&host, "a", "recall"), "40,2,1");
    let (source, fork) = (host.known(&id("a")).unwrap(), host.known(&id("grandchild")).unwrap());
    assert_eq!((source.component, &source.grants, &source.budget), (fork.component, &fork.grants, &fork.budget));
    assert_eq!(check_all(&host, &["a", "fork-0", "fork-1", "fork-4", "grandchild"]).1, 4);
}

#[test]
fn a_rollback_puts_memory_and_storage_back_and_numbers_go_on() {
    let (dir, host) = counted();
    host.post(&id("a"), message("add 7")).unwrap();
    let row = host.rollback(&id("a"), 1, "me").unwrap();
    assert_eq!((row.turn, row.streak, row.queued.len()), (5, 0, 1), "its mail stays, its turns go on counting");
    drop(host);
    let host = open(&dir);
    let [turn] = host.deliver().unwrap().try_into().expect("one turn");
    assert_eq!(turn.record.turn, 6);
    assert_eq!((ask(&host, "a", "recall"), ask(&host, "a", "stored")), ("40,7".into(), "stored=47@2".into()));
    // Forward again to what was given up, and to the very beginning.
    host.rollback(&id("a"), 5, "me").unwrap();
    assert_eq!((ask(&host, "a", "recall"), ask(&host, "a", "stored")), ("40,2,1".into(), "stored=43@3".into()));
    host.rollback(&id("a"), 0, "me").unwrap();
    host.rollback(&id("a"), 0, "me").unwrap();
    assert_eq!((ask(&host, "a", "recall"), ask(&host, "a", "stored")), (String::new(), "stored=none".into()));
    // As it is now, right after a rollback.
    host.rollback(&id("a"), 6, "me").unwrap();
    assert_eq!(host.fork(&id("a"), None, &id("b")).unwrap().1.turn, 6);
    assert_eq!(ask(&host, "b", "recall"), "40,7");
    assert_eq!(check_all(&host, &["a", "b"]).1, 6);
}

#[test]
fn what_cannot_be_gone_back_to_is_refused() {
    let (_dir, host) = counted();
    let (a, b) = (id("a"), id("b"));
    for turn in [6, u64::MAX] {
        let why = host.fork(&a, Some(turn), &b).unwrap_err().to_string();
        assert_eq!(why, host.rollback(&a, turn, "me").unwrap_err().to_string());
        assert!(why.contains("no turn") && why.contains("it has taken 5"), "{why}");
    }
    assert!(matches!(host.fork(&id("nobody"), None, &b), Err(HostError::NoAgent(_))));
    assert!(host.fork(&a, None, &a).unwrap_err().to_string().contains("never used twice"));
    assert!(matches!(host.rollback(&a, 1, &"x".repeat(5000)), Err(HostError::Wordy { len: 5000, .. })));
    host.store()
        .commit(Batch { entries: Vec::new(), changes: vec![Change::Unfinished { agent: a.clone(), turn: Some(6) }] })
        .unwrap();
    assert!(matches!(host.fork(&a, Some(1), &b), Err(HostError::Unfinished { turn: 6, .. })));
    assert!(matches!(host.rollback(&a, 1, "me"), Err(HostError::Unfinished { turn: 6, .. })));
    host.store()
        .commit(Batch { entries: Vec::new(), changes: vec![Change::Unfinished { agent: a.clone(), turn: None }] })
        .unwrap();
    host.remove(&a).unwrap();
    assert!(matches!(host.fork(&a, Some(1), &b), Err(HostError::Removed(_))));
    assert!(matches!(host.rollback(&a, 1, "me"), Err(HostError::Removed(_))));
    assert_eq!(host.store().agent(&b).unwrap(), None, "nothing was made");
}

#[test]
fn a_stateless_agent_is_forked_but_not_rolled_back() {
    let dir = tempfile::tempdir().unwrap();
    let host = open(&dir);
    create(&host, "w", "wasi-tool");
    let said = ask(&host, "w", "{\"numbers\":[1,2,3]}");
    host.fork(&id("w"), Some(1), &id("v")).unwrap();
    host.fork(&id("w"), Some(0), &id("u")).unwrap();
    assert_eq!(ask(&host, "v", "{\"numbers\":[1,2,3]}"), said);
    assert!(matches!(host.rollback(&id("w"), 1, "me"), Err(HostError::Stateless(_))));
    check_all(&host, &["w", "v", "u"]);
}

#[test]
fn a_quarantined_agent_takes_no_turn_until_it_is_woken() {
    let (dir, host) = counted();
    let a = id("a");
    host.quarantine(&a, "mira", "it loops").unwrap();
    host.post(&a, message("add 7")).unwrap();
    let refused = |host: &Host| {
        let why = host.send(&id("a"), message("recall")).unwrap_err().to_string();
        assert!(["mira", "it loops", "lazaret agent wake a"].iter().all(|part| why.contains(part)), "{why}");
        assert!(host.deliver().unwrap().is_empty(), "its mail waits");
    };
    refused(&host);
    assert!(matches!(host.quarantine(&a, "me", ""), Err(HostError::Quarantined { .. })), "once is enough");
    drop(host);
    let host = open(&dir);
    host.recover().unwrap();
    refused(&host);
    // The cure: look at it in a fork, put it back, let it go on.
    host.fork(&a, None, &id("copy")).unwrap();
    assert_eq!(ask(&host, "copy", "recall"), "40,2,1");
    assert_eq!(host.rollback(&a, 2, "me").unwrap().state, AgentState::Quarantined);
    host.wake(&a, "me").unwrap();
    assert!(matches!(host.wake(&a, "me"), Err(HostError::NotQuarantined(_))));
    assert_eq!(host.deliver().unwrap().len(), 1);
    assert_eq!(ask(&host, "a", "recall"), "40,2,7");
    check_all(&host, &["a", "copy"]);
}

#[test]
fn a_row_that_forgets_a_quarantine_is_not_believed() {
    let (dir, host) = counted();
    host.quarantine(&id("a"), "mira", "it loops").unwrap();
    // Somebody who writes to the data root, but can't write the journal.
    let change = Change::SetState { agent: id("a"), state: AgentState::Asleep };
    host.store().commit(Batch { entries: Vec::new(), changes: vec![change] }).unwrap();
    drop(host);
    let host = open(&dir);
    assert!(matches!(host.send(&id("a"), message("recall")), Err(HostError::Unvouched(_))));
    assert!(matches!(host.fork(&id("a"), None, &id("b")), Err(HostError::Unvouched(_))));
    assert!(matches!(host.rollback(&id("a"), 1, "me"), Err(HostError::Unvouched(_))));
}

#[test]
fn stopped_turns_in_a_row_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let host = open(&dir);
    create(&host, "a", "rust-counter");
    let mut streaks = Vec::new();
    for text in ["crash", "spin", "crash", "fail", "crash", "add 1", "spin"] {
        ask(&host, "a", text);
        streaks.push(host.known(&id("a")).unwrap().streak);
    }
    assert_eq!(streaks, [1, 2, 3, 0, 1, 0, 1]);
    host.quarantine(&id("a"), "me", "").unwrap();
    host.wake(&id("a"), "me").unwrap();
    assert_eq!(host.known(&id("a")).unwrap().streak, 0, "what is forgiven is not counted again");
}

#[test]
fn sleep_lets_go_and_nothing_is_lost() {
    let (_dir, host) = counted();
    assert!(host.sleep(&id("a")).unwrap());
    assert!(!host.sleep(&id("a")).unwrap());
    assert_eq!(ask(&host, "a", "recall"), "40,2,1");
    assert!(matches!(host.sleep(&id("b")), Err(HostError::NoAgent(_))));
}

/// What an agent remembers, and how often that was stored.
#[derive(Clone, Default)]
struct Mind {
    numbers: Vec<i64>,
}

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % most as u64) as usize
    }
}

/// Any history of turns, forks and rollbacks leaves what a simple model says, and can be checked by a stranger.
#[test]
fn any_history_is_as_a_model_says() {
    let dir = tempfile::tempdir().unwrap();
    let host = open(&dir);
    create(&host, "a0", "c-counter");
    // Each agent's mind after each of its turns, and now.
    let mut minds: BTreeMap<String, (Vec<Mind>, Mind)> =
        BTreeMap::from([("a0".into(), (vec![Mind::default()], Mind::default()))]);
    let mut dice = Dice(20_261_116);
    let (mut turns, mut descents) = (0, 0);
    for step in 0..120 {
        let names: Vec<String> = minds.keys().cloned().collect();
        let name = names[dice.below(names.len())].clone();
        let (past, mut now) = minds[&name].clone();
        let back = dice.below(past.len());
        match dice.below(10) {
            0 if names.len() < 8 => {
                let new = format!("a{}", names.len());
                host.fork(&id(&name), Some(back as u64), &id(&new)).unwrap();
                minds.insert(new, (vec![past[back].clone()], past[back].clone()));
                descents += 1;
                continue;
            }
            0 | 1 => {
                host.rollback(&id(&name), back as u64, "dice").unwrap();
                now = past[back].clone();
                descents += 1;
            }
            2 => drop(ask(&host, &name, "crash")),
            _ => {
                now.numbers.push(step);
                let total: i64 = now.numbers.iter().sum();
                let said = ask(&host, &name, &format!("add {step}"));
                assert_eq!(said, format!("total={total} count={}", now.numbers.len()), "step {step}, {name}");
            }
        }
        let taken = host.known(&id(&name)).unwrap().turn as usize;
        let (past, mind) = minds.get_mut(&name).unwrap();
        *mind = now;
        past.resize(taken + 1, mind.clone());
        turns = minds.values().map(|(past, _)| past.len() - 1).sum();
    }
    for (name, (_, mind)) in &minds {
        let numbers: Vec<String> = mind.numbers.iter().map(i64::to_string).collect();
        assert_eq!(ask(&host, name, "recall"), numbers.join(","), "{name}");
        let stored = match mind.numbers.len() {
            0 => "stored=none".to_owned(),
            count => format!("stored={}@{count}", mind.numbers.iter().sum::<i64>()),
        };
        assert_eq!(ask(&host, name, "stored"), stored, "{name}");
        turns += 2;
    }
    let names: Vec<&str> = minds.keys().map(String::as_str).collect();
    assert_eq!(check_all(&host, &names), (turns, descents));
    println!("{} agents, {turns} turns, {descents} forks and rollbacks: all MATCH, all shown", names.len());
}

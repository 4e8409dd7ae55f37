//! The operator's rules: an edit acts at the next effect, and a draft is tried on everything that was recorded.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test edits files, and one that can't go on has failed"
)]

use std::path::Path;

use lazaret_gate::policy::{Policies, compare};
use lazaret_gate::record::Message;
use lazaret_gate::{AgentId, Budget, Grants, Outcome};
use lazaret_host::{Host, NewAgent, backtest, past};

fn open(root: &Path) -> (Host, AgentId) {
    let host = Host::open(root).unwrap();
    let agent: AgentId = "asker".parse().unwrap();
    let component = wat::parse_str(include_str!("../benches/speed/asker.wat")).expect("the guest's text");
    let caps = lazaret_gate::ledger::Caps::default();
    let new = NewAgent {
        agent: agent.clone(),
        grants: Grants::basic(),
        budget: Budget::default(),
        caps,
        slots: Default::default(),
    };
    host.create(new, &component).unwrap();
    (host, agent)
}

/// Asks for so many keys, the first of which has this number; says how many asks were let through.
fn ask(host: &Host, agent: &AgentId, asks: u32, first: u32) -> usize {
    let body = [asks.to_le_bytes(), first.to_le_bytes()].concat();
    let turn = host.send(agent, Message::outside("a/b", body)).unwrap();
    turn.record.tape.iter().filter(|entry| matches!(entry.outcome, Outcome::Done(_))).count()
}

fn put(root: &Path, name: &str, text: &str) {
    let beside = root.join("draft");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, root.join("policy").join(name)).unwrap();
}

#[test]
fn an_edit_acts_at_the_next_effect_and_a_broken_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let (host, agent) = open(&root);
    assert_eq!(ask(&host, &agent, 1, 0), 1);
    for round in 0..3 {
        put(&root, "own.cedar", "@id(\"no\") forbid (principal, action in Action::\"storage.*\", resource);");
        assert_eq!(ask(&host, &agent, 1, 0), 0, "{round}");
        put(&root, "own.cedar", "@id(\"no\") forbid (principal, action in Action::\"storage.*\"");
        assert_eq!(ask(&host, &agent, 1, 0), 0, "what was in force stays");
        assert_eq!(host.rules().2[0].at.file, "own.cedar");
        put(&root, "own.cedar", "@id(\"no\") forbid (principal, action in Action::\"tool.*\", resource);");
        assert_eq!(ask(&host, &agent, 1, 0), 1);
        assert_eq!(host.rules().2, []);
        std::fs::remove_file(root.join("policy/own.cedar")).unwrap();
        assert_eq!(ask(&host, &agent, 1, 0), 1);
    }
}

#[test]
fn a_folder_that_is_put_in_the_place_of_another_is_watched_too() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let (host, agent) = open(&root);
    let no = "@id(\"no\") forbid (principal, action in Action::\"storage.*\", resource);";
    for round in 0..3 {
        // Moved there whole, or made there and filled.
        let [old, new] = ["old", "new"].map(|name| root.join(format!("{name}-{round}")));
        std::fs::create_dir(&new).unwrap();
        for file in std::fs::read_dir(root.join("policy")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), new.join(file.file_name())).unwrap();
        }
        std::fs::rename(root.join("policy"), old).unwrap();
        if round == 1 {
            assert_eq!(ask(&host, &agent, 1, 0), 1, "what was in force stays while there is no folder");
        }
        std::fs::rename(new, root.join("policy")).unwrap();
        assert_eq!(ask(&host, &agent, 1, 0), 1);
        // In place: a file of the data root itself that is moved would be seen either way.
        std::fs::write(root.join("policy/own.cedar"), no).unwrap();
        assert_eq!(ask(&host, &agent, 1, 0), 0, "{round}");
        std::fs::remove_file(root.join("policy/own.cedar")).unwrap();
        assert_eq!(ask(&host, &agent, 1, 0), 1, "{round}");
    }
}

#[test]
fn a_backtest_finds_what_asking_one_by_one_finds() {
    const TURNS: u32 = 300;
    let dir = tempfile::tempdir().unwrap();
    let (host, agent) = open(&dir.path().join("root"));
    for turn in 0..TURNS {
        assert_eq!(ask(&host, &agent, 3, turn * 3), 3);
    }
    let load = |text: &str| Policies::load(&[("a.cedar", text)]).unwrap();
    let all = load("@id(\"all\") permit (principal, action, resource);");
    let storage = |with: &str, rest: &str| {
        load(&format!("@id(\"all\") {with} permit (principal, action in Action::\"storage.*\", resource) {rest};"))
    };
    let drafts = [
        storage("", "unless { context.path like \"keya*\" }"),
        storage("@requireApproval(\"x\")", "when { context.path like \"keyb*\" }"),
        storage("", "when { principal == Agent::\"other\" || context.time < context.bytes }"),
        storage("", "when { context.time * context.time > 0 }"),
    ];
    let mut times = Vec::new();
    for draft in &drafts {
        let mut recorded = Vec::new();
        past(host.store(), 0, |ask| {
            times.push(ask.ruling.as_ref().map_or(0, |ruling| ruling.under.facts.time));
            recorded.push(ask.recorded());
        })
        .unwrap();
        let one_by_one = compare(&all, draft, recorded.into_iter());
        let found = backtest(host.store(), 0, &all, draft).unwrap();
        assert_eq!(found, one_by_one);
        assert_eq!((found.total(), found.unknown), (u64::from(TURNS) * 3, 0));
        assert!(found.changed() > 0 && !found.examples.is_empty());
    }
    // Of a time that has not come yet there is nothing.
    assert_eq!(backtest(host.store(), u64::MAX, &all, &drafts[0]).unwrap().total(), 0);
    let since = times.iter().max().copied().unwrap();
    let mut count = 0;
    past(host.store(), since, |_| count += 1).unwrap();
    assert_eq!(backtest(host.store(), since, &all, &drafts[0]).unwrap().total(), count);
}

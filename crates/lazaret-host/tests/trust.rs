//! Trust: what the journal tells is what rows say, and a revocation is obeyed wherever it comes from.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test edits files, and one that can't go on has failed"
)]

use std::path::Path;

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{Body, Cause, Divergence, Ending, Message, Stop};
use lazaret_gate::refusal::Code;
use lazaret_gate::trust::{Conduct, Revoked, Score, TrustChange, TrustEvent};
use lazaret_gate::{AgentId, Budget, Grants, Outcome};
use lazaret_host::{Host, HostError, InForce, NewAgent, Settings, change_trust, conduct_of, events_of, is_told};
use lazaret_store::AgentRow;

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn message(body: &str) -> Message {
    Message::outside("text/plain", body)
}

fn create(host: &Host, name: &str, budget: Budget) -> AgentRow {
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/build/rust-counter.wasm");
    let component = std::fs::read(component).expect("guests/build.sh makes the guests");
    let grants = ["agent:b", "storage", "log"].map(|grant| grant.parse().unwrap());
    let grants = Grants::new(grants.into());
    host.create(
        NewAgent { agent: id(name), grants, budget, caps: Caps::default(), slots: Default::default() },
        &component,
    )
    .unwrap()
}

fn open(root: &Path) -> Host {
    Host::open_with(root, Settings { preset: "open".into(), ..Settings::default() }).unwrap()
}

fn event(agent: &str, change: TrustChange, hundredths: u8) -> TrustEvent {
    let (by, at) = ("ana".to_owned(), lazaret_host::now().moment.wall_ms);
    let score = Score::try_from(hundredths).unwrap();
    TrustEvent { agent: id(agent), change, score, by, at, reason: "enough".into(), turn: None }
}

fn change(root: &Path, host: &Host, event: TrustEvent) {
    change_trust(root, host.store(), &[event]).unwrap();
}

fn refused(host: &Host, agent: &str) -> String {
    match host.send(&id(agent), message("add 1")) {
        Err(HostError::Revoked { why, .. }) => why,
        other => panic!("not refused: {other:?}"),
    }
}

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[test]
fn the_journal_tells_what_rows_say_after_any_history() {
    for seed in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let mut host = open(&root);
        let budget = Budget { effects: 3, fuel: 3_000_000, ..Budget::default() };
        create(&host, "a", budget.clone());
        create(&host, "b", budget);
        let mut dice = Dice(seed);
        let mut counted = Conduct::default();
        for _ in 0..30 {
            let word =
                ["add 1", "roll", "fail now", "crash", "spin", "fetch http://x.example", "tell b add 1", "say hi"];
            match dice.below(12) {
                0 => change(&root, &host, event("a", TrustChange::Revoked, 0)),
                1 => change(&root, &host, event("a", TrustChange::Restored, 50)),
                2 => change(&root, &host, event("a", TrustChange::Set, u8::try_from(dice.below(101)).unwrap())),
                3 => {
                    drop(host);
                    host = open(&root);
                }
                number => match host.send(&id("a"), message(word[number as usize - 4])) {
                    Ok(turn) => {
                        counted = counted.plus(Conduct::of_turn(&turn.record));
                        host.deliver().unwrap();
                    }
                    Err(HostError::Revoked { .. }) => {}
                    Err(why) => panic!("{why}"),
                },
            }
            host.look().unwrap();
            let row = host.known(&id("a")).unwrap();
            assert_eq!(row.conduct, Some(counted), "seed {seed}");
            assert_eq!(conduct_of(host.store(), &id("a")).unwrap(), counted, "seed {seed}");
            assert!(is_told(host.store(), &row).unwrap(), "seed {seed}: {row:?}");
            assert_eq!(row.revoked.is_some(), host.revoked(&row).is_some(), "seed {seed}");
            assert_eq!(InForce::read(&root).revoked(&row.agent, row.revoked.as_ref()), row.revoked, "seed {seed}");
        }
    }
}

#[test]
fn a_revoked_agent_takes_nothing_and_a_restored_one_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let host = open(&root);
    create(&host, "a", Budget::default());
    create(&host, "b", Budget::default());
    host.send(&id("a"), message("add 1")).unwrap();
    host.post(&id("b"), message("add 5")).unwrap();
    change(&root, &host, event("b", TrustChange::Revoked, 0));
    assert!(refused(&host, "b").contains("ana has revoked `b` at "));
    assert!(matches!(host.post(&id("b"), message("add 1")), Err(HostError::Revoked { .. })));
    assert!(host.deliver().unwrap().is_empty(), "mail waits");
    // Others go on, and are told.
    let told = host.send(&id("a"), message("tell b add 7")).unwrap();
    let Outcome::Refused(refusal) = &told.record.tape[0].outcome else { panic!("{:?}", told.record.tape) };
    assert_eq!(refusal.code, Code::MailboxClosed, "{refusal}");
    assert!(matches!(told.record.ending, Ending::Replied(_)), "{:?}", told.record.ending);
    assert_eq!(host.store().mailbox_len(&id("b")).unwrap(), 1);
    let replay = |host: &Host| host.replay(&"a".parse().unwrap(), |_, _, _| {}).unwrap();
    assert!(replay(&host).iter().all(|verdict| *verdict == lazaret_host::Verdict::Match));
    // It stays so in another process.
    drop(host);
    let host = open(&root);
    refused(&host, "b");
    change(&root, &host, event("b", TrustChange::Restored, 50));
    assert_eq!(host.deliver().unwrap().len(), 1, "what waited is answered");
    host.send(&id("b"), message("add 1")).unwrap();
    let changes: Vec<_> = events_of(host.store(), &id("b")).unwrap().iter().map(|event| event.change).collect();
    assert_eq!(changes, [TrustChange::Revoked, TrustChange::Restored]);
}

#[test]
fn the_file_is_obeyed_however_it_is_changed_and_what_is_broken_revokes_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let file = root.join("revocations.json");
    let host = open(&root);
    create(&host, "a", Budget::default());
    let goes_on = || host.send(&id("a"), message("add 1")).map(drop);
    goes_on().unwrap();
    // In place, by hand, with no more than the name.
    std::fs::write(&file, r#"{"revoked": {"a": {}, "nobody": {"by": "ben"}}}"#).unwrap();
    assert_eq!(refused(&host, "a"), "somebody has revoked `a`");
    std::fs::write(&file, "{}").unwrap();
    goes_on().unwrap();
    let broken = [
        "",
        "{\"revoked\": ",
        "[]",
        "{\"revoked\": [\"a\"]}",
        "{\"revoked\": {\"A\": {}}}",
        "{\"revokd\": {}}",
        "{\"bases\": {\"a\": 101}}",
        "\u{0}",
    ];
    for text in broken {
        std::fs::write(&file, text).unwrap();
        let why = refused(&host, "a");
        assert!(why.contains("`revocations.json` is damaged") && why.contains("mended or removed"), "{text}: {why}");
        assert!(change_trust(&root, host.store(), &[event("a", TrustChange::Restored, 50)]).is_err(), "{text}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "it is not written over");
        std::fs::remove_file(&file).unwrap();
        goes_on().unwrap();
    }
    std::fs::File::create(&file).unwrap().set_len((32 << 20) + 1).unwrap();
    assert!(refused(&host, "a").contains("larger than"));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(root.join("aside")).unwrap();
    std::fs::rename(root.join("aside"), &file).unwrap();
    assert!(refused(&host, "a").contains("not a file"));
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, "{}").unwrap();
    goes_on().unwrap();
    let by: Vec<_> =
        events_of(host.store(), &id("a")).unwrap().into_iter().map(|event| (event.change, event.by)).collect();
    let hand = "somebody who changed `revocations.json`".to_owned();
    assert_eq!(by, [(TrustChange::Revoked, "somebody".into()), (TrustChange::Restored, hand)]);
    assert!(is_told(host.store(), &host.known(&id("a")).unwrap()).unwrap());
}

#[test]
fn losing_the_file_lets_nothing_pass() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let host = open(&root);
    create(&host, "a", Budget::default());
    create(&host, "b", Budget::default());
    change(&root, &host, event("a", TrustChange::Revoked, 0));
    refused(&host, "a");
    std::fs::remove_file(root.join("revocations.json")).unwrap();
    refused(&host, "a");
    host.look().unwrap();
    drop(host);
    let host = open(&root);
    refused(&host, "a");
    // Another revocation makes the file anew, with whom the journal knows.
    change(&root, &host, event("b", TrustChange::Revoked, 0));
    refused(&host, "a");
    refused(&host, "b");
    drop(host);
    // Nobody looks while somebody takes a name out.
    std::fs::write(root.join("revocations.json"), r#"{"revoked": {"b": {"by": "ana"}}}"#).unwrap();
    let host = open(&root);
    host.send(&id("a"), message("add 1")).unwrap();
    refused(&host, "b");
    assert!(is_told(host.store(), &host.known(&id("a")).unwrap()).unwrap());
}

#[test]
fn rules_read_the_score_and_a_new_base_acts_at_the_next_effect() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let host = open(&root);
    std::fs::write(root.join("policy/trust.toml"), "start = 0.70\n").unwrap();
    let row = create(&host, "a", Budget::default());
    assert_eq!((row.score().hundredths(), row.base), (70, Score::try_from(70).ok()));
    assert!(is_told(host.store(), &row).unwrap(), "the journal alone tells the score");
    // What is no score is not in force, and said.
    std::fs::write(root.join("policy/trust.toml"), "start = 7.0\n").unwrap();
    assert_eq!(create(&host, "b", Budget::default()).score().hundredths(), 70);
    let problems = host.problems();
    assert!(problems.iter().any(|it| it.to_string().contains("`7` is no trust score")), "{problems:?}");
    std::fs::remove_file(root.join("policy/trust.toml")).unwrap();
    assert_eq!(create(&host, "c", Budget::default()).score(), Score::START);
    let rule = "@id(\"low\") forbid (principal, action == Action::\"storage.set\", resource)
        when { context has trust && context.trust < 60 };";
    std::fs::write(root.join("policy/low.cedar"), rule).unwrap();
    let verdict = |host: &Host| host.send(&id("a"), message("add 1")).unwrap().record.tape[0].outcome.verdict();
    assert_eq!(verdict(&host), "permit");
    change(&root, &host, event("a", TrustChange::Set, 40));
    assert_eq!(verdict(&host), "refusal");
    change(&root, &host, event("a", TrustChange::Set, 90));
    let turn = host.send(&id("a"), message("add 1")).unwrap();
    assert_eq!(turn.record.tape[0].outcome.verdict(), "permit");
    let seen: Vec<_> = turn.rulings.iter().map(|ruling| ruling.under.facts.trust).collect();
    assert_eq!(seen, [Score::try_from(89).ok()], "one refusal is held against it");
    let all = host.replay(&"a".parse().unwrap(), |_, _, _| {}).unwrap();
    assert!(all.iter().all(|verdict| *verdict == lazaret_host::Verdict::Match), "{all:?}");
}

#[test]
fn of_many_at_once_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let host = open(&root);
    let names: Vec<String> = (0..80).map(|number| format!("a{number}")).collect();
    for name in &names {
        create(&host, name, Budget::default());
    }
    std::thread::scope(|scope| {
        for part in names.chunks(10) {
            let (root, host) = (&root, &host);
            scope.spawn(move || part.iter().for_each(|name| change(root, host, event(name, TrustChange::Revoked, 0))));
        }
    });
    // More than the file keeps events of: the others are told by their effect.
    host.look().unwrap();
    for name in &names {
        refused(&host, name);
        let row = host.known(&id(name)).unwrap();
        assert_eq!(row.revoked.as_ref().unwrap().by, "ana");
        assert!(is_told(host.store(), &row).unwrap(), "{name}");
        assert_eq!(events_of(host.store(), &id(name)).unwrap().len(), 1, "{name}");
    }
}

#[test]
fn who_did_it_and_why_is_told_of_each_however_many_are_changed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let host = open(&root);
    let names: Vec<String> = (0..200).map(|number| format!("a{number}")).collect();
    for name in &names {
        create(&host, name, Budget::default());
    }
    let all = |what, score| {
        let events: Vec<_> = names.iter().map(|name| event(name, what, score)).collect();
        change_trust(&root, host.store(), &events).unwrap();
    };
    all(TrustChange::Revoked, 0);
    host.look().unwrap();
    all(TrustChange::Restored, 50);
    host.look().unwrap();
    // And if nobody looks in between.
    all(TrustChange::Revoked, 0);
    all(TrustChange::Restored, 50);
    host.look().unwrap();
    for name in &names {
        let told = events_of(host.store(), &id(name)).unwrap();
        assert!(told.iter().all(|event| event.by == "ana" && event.reason == "enough"), "{name}: {told:?}");
        let restored = |event: &&TrustEvent| event.change == TrustChange::Restored;
        assert_eq!(told.iter().filter(restored).count(), 2, "{name}");
        assert!(is_told(host.store(), &host.known(&id(name)).unwrap()).unwrap(), "{name}");
    }
}

#[test]
fn a_mismatch_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let host = open(&root);
    create(&host, "a", Budget::default());
    let turn = host.send(&id("a"), message("add 1")).unwrap();
    let differs = Divergence { place: "fuel".into(), expected: "1".into(), actual: "2".into() };
    for _ in 0..3 {
        host.note_mismatch(&turn.record, &differs, "ana").unwrap();
    }
    let row = host.known(&id("a")).unwrap();
    assert_eq!(row.conduct.unwrap().mismatches, 1);
    assert_eq!(row.score(), Score::NONE);
    assert!(is_told(host.store(), &row).unwrap());
    let events = events_of(host.store(), &id("a")).unwrap();
    assert_eq!(events.iter().map(|event| event.turn).collect::<Vec<_>>(), [Some(1)]);
}

#[test]
fn a_turn_cut_by_a_revocation_is_on_record_and_nothing_of_it_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let host = open(&root);
    let budget = Budget { fuel: u64::MAX >> 12, wall_ms: 600_000, ..Budget::default() };
    create(&host, "a", budget);
    std::thread::scope(|scope| {
        let turn = scope.spawn(|| host.send(&id("a"), message("spin")).unwrap());
        // It need not have begun: then it is refused at its first look.
        std::thread::sleep(std::time::Duration::from_millis(200));
        change(&root, &host, event("a", TrustChange::Revoked, 0));
        let turn = turn.join().unwrap();
        let Ending::Stopped(Stop { cause, detail }) = &turn.record.ending else { panic!("{:?}", turn.record.ending) };
        assert_eq!(*cause, Cause::Revoked, "{detail}");
        assert!(detail.contains("ana has revoked `a`") && detail.contains("trust restore a"), "{detail}");
        assert_eq!(turn.record.image_after, turn.record.image_before);
    });
    let row = host.known(&id("a")).unwrap();
    assert_eq!(row.conduct, Some(Conduct::default()), "that is not the agent's doing");
    assert!(matches!(row.revoked, Some(Revoked { ref by, .. }) if by == "ana"));
    // Who did it stands before it in the journal.
    let turn = host.store().turn_entry(&id("a"), 1).unwrap().unwrap();
    assert!(matches!(host.store().entry(turn - 1).unwrap().body, Body::TrustChanged(_)));
    let verdicts = host.replay(&"a".parse().unwrap(), |_, _, _| {}).unwrap();
    assert!(matches!(verdicts[..], [lazaret_host::Verdict::Unverifiable { .. }]), "{verdicts:?}");
}

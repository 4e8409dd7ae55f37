//! The supervisor on a real host: real turns, real threads, a real data root.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test touches the disk and the clock, says what it saw, and one that can't go on has failed"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{Body, Cause, Ending, Message};
use lazaret_gate::schedule::{Missed, ScheduleAdded, When};
use lazaret_gate::{AgentId, Budget, Grants};
use lazaret_host::{Host, HostError, Life, NewAgent, Pace, Settings, Supervisor, Turn, now};
use tempfile::TempDir;

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn message(text: &str) -> Message {
    Message::outside("text/plain", text.as_bytes().to_vec())
}

fn open(dir: &TempDir) -> Arc<Host> {
    let settings = Settings { preset: "open".into(), ..Settings::default() };
    Arc::new(Host::open_with(&dir.path().join("root"), settings).unwrap())
}

fn create(host: &Host, name: &str, budget: Budget) {
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/build/rust-counter.wasm");
    let component =
        std::fs::read(component).expect("guests/build/rust-counter.wasm isn't built yet: run guests/build.sh");
    let grants = Grants::basic().iter().cloned().chain(["agent:b".parse().unwrap()]).collect();
    let new = NewAgent {
        agent: id(name),
        grants: Grants::new(grants),
        budget,
        caps: Caps::default(),
        slots: Default::default(),
    };
    host.create(new, &component).unwrap();
}

/// A data root with these agents.
fn root(names: &[&str]) -> (TempDir, Arc<Host>) {
    let dir = tempfile::tempdir().unwrap();
    let host = open(&dir);
    names.iter().for_each(|name| create(&host, name, Budget::default()));
    (dir, host)
}

/// Quick pauses, so that a test needn't wait for them.
fn brisk() -> Pace {
    Pace { pause_ms: 20, pause_most_ms: 200, breaker: 3, ..Pace::default() }
}

fn reply(turn: &Turn) -> String {
    match &turn.record.ending {
        Ending::Replied(reply) => String::from_utf8(reply.body.0.clone()).unwrap(),
        other => format!("{other:?}"),
    }
}

/// Waits for something to become true.
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn settled(host: &Host, names: &[&str]) -> bool {
    names.iter().all(|name| host.store().mailbox_len(&id(name)).unwrap() == 0)
}

#[test]
fn what_is_sent_is_answered_and_what_is_posted_comes_in_order() {
    let (_dir, host) = root(&["a", "b"]);
    let supervisor = Supervisor::start(host.clone(), Pace::default()).unwrap();
    assert_eq!(supervisor.lives()[&id("a")], Life::New);
    let before = host.store().journal_len().unwrap();
    assert_eq!(reply(&supervisor.send(&id("a"), message("add 1")).unwrap()), "total=1 count=1");
    assert_eq!(host.store().journal_len().unwrap(), before + 1, "an idle agent answers without going by its mailbox");
    assert_eq!(supervisor.lives()[&id("a")], Life::Asleep);
    let mut last = 0;
    for n in 2..=40 {
        let number = supervisor.post(&id("a"), message(&format!("add {n}"))).unwrap();
        assert!(number > last);
        last = number;
    }
    // One who comes later is answered later.
    let sum: u32 = (1..=40).sum();
    assert_eq!(reply(&supervisor.send(&id("a"), message("add 0")).unwrap()), format!("total={sum} count=41"));
    let heard = reply(&supervisor.send(&id("a"), message("recall")).unwrap());
    let order: Vec<String> = (1..=40).chain([0]).map(|n: u32| n.to_string()).collect();
    assert_eq!(heard, order.join(","));
    // Agents write to each other, also to one that nobody has written to before.
    supervisor.send(&id("a"), message("tell b add 7")).unwrap();
    eventually("b's turn", || host.known(&id("b")).unwrap().turn == 1);
    assert_eq!(reply(&supervisor.send(&id("b"), message("recall")).unwrap()), "7");
    assert!(matches!(supervisor.send(&id("nobody"), message("x")), Err(HostError::NoAgent(_))));
}

#[test]
fn a_looping_agent_burns_only_its_own_turn() {
    let (_dir, host) = root(&["b", "c", "d"]);
    let budget = Budget { wall_ms: 4_000, fuel: u64::MAX >> 12, ..Budget::default() };
    create(&host, "a", budget);
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    let begun = Instant::now();
    supervisor.post(&id("a"), message("spin")).unwrap();
    eventually("the loop", || supervisor.lives()[&id("a")] == Life::Awake);
    for n in 0..10 {
        for name in ["b", "c", "d"] {
            supervisor.post(&id(name), message(&format!("add {n}"))).unwrap();
        }
    }
    for name in ["b", "c", "d"] {
        let turn = supervisor.send(&id(name), message("add 1")).unwrap();
        assert_eq!(reply(&turn), "total=46 count=11");
    }
    assert_eq!(supervisor.lives()[&id("a")], Life::Awake, "33 turns took {:?}, longer than the loop", begun.elapsed());
    let drained = supervisor.drain(Duration::from_secs(30));
    assert_eq!((drained.finished, drained.left), (1, vec![]));
    let row = host.known(&id("a")).unwrap();
    let Body::Turn(record) = host.store().entry(host.store().turn_entry(&id("a"), 1).unwrap().unwrap()).unwrap().body
    else {
        panic!("not a turn")
    };
    assert!(row.turn == 1 && matches!(&record.ending, Ending::Stopped(stop) if stop.cause == Cause::WallClock));
}

#[test]
fn one_at_a_time_take_turns_round_robin() {
    let (dir, host) = root(&["a", "b", "c"]);
    for _ in 0..5 {
        for name in ["a", "a", "b", "c"] {
            host.post(&id(name), message("add 1")).unwrap();
        }
    }
    let from = host.store().journal_len().unwrap();
    let supervisor = Supervisor::start(host.clone(), Pace { awake: 1, ..Pace::default() }).unwrap();
    eventually("silence", || settled(&host, &["a", "b", "c"]) && supervisor.status().awake == 0);
    let mut order = String::new();
    for seq in from..host.store().journal_len().unwrap() {
        order += host.store().entry(seq).unwrap().body.agent().unwrap().as_str();
    }
    assert_eq!(order, "abcabcabcabcabcaaaaa");
    assert!(supervisor.status().threads <= 2);
    drop((supervisor, dir));
}

#[test]
fn who_is_stopped_too_often_is_quarantined_and_its_mail_waits() {
    let (_dir, host) = root(&["a", "b"]);
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    for _ in 0..4 {
        supervisor.post(&id("a"), message("crash")).unwrap();
    }
    eventually("quarantine", || supervisor.lives()[&id("a")] == Life::Quarantined);
    assert_eq!(host.known(&id("a")).unwrap().turn, 3, "the breaker is 3");
    assert_eq!(host.store().mailbox_len(&id("a")).unwrap(), 1);
    supervisor.post(&id("a"), message("add 1")).unwrap();
    let why = supervisor.send(&id("a"), message("add 1")).unwrap_err().to_string();
    let said = "it was quarantined by the keeper (3 turns in a row were stopped by the host, the last for `trap`)";
    assert!(why.contains(said) && why.contains("`lazaret agent wake a`"), "{why}");
    assert_eq!(reply(&supervisor.send(&id("b"), message("add 1")).unwrap()), "total=1 count=1");
    drop(supervisor);
    // So it is after a restart: the records say why.
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    assert_eq!(supervisor.lives()[&id("a")], Life::Quarantined);
    assert_eq!(host.known(&id("a")).unwrap().turn, 3);
    // Somebody forgives it: the crash that waits is taken, and then what waits behind it.
    host.wake(&id("a"), "ana").unwrap();
    supervisor.nudge(&id("a"));
    eventually("its mail", || host.known(&id("a")).unwrap().turn == 5);
    assert_eq!(host.known(&id("a")).unwrap().streak, 0);
}

#[test]
fn a_reply_between_ends_the_row_and_a_failure_of_its_own_does_too() {
    let (_dir, host) = root(&["a"]);
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    for text in ["crash", "crash", "add 1", "crash", "crash", "fail x", "crash", "crash", "add 2"] {
        supervisor.post(&id("a"), message(text)).unwrap();
    }
    eventually("the last", || host.known(&id("a")).unwrap().turn == 9);
    assert_eq!(supervisor.lives()[&id("a")], Life::Asleep);
}

#[test]
fn a_full_mailbox_pushes_back_on_people_and_on_agents() {
    let (_dir, host) = root(&["a", "b"]);
    for _ in 0..1_000 {
        host.post(&id("b"), message("add 1")).unwrap();
    }
    let why = host.post(&id("b"), message("add 1")).unwrap_err().to_string();
    assert_eq!(
        why,
        "the message to `b` was not taken: 1000 messages wait for `b` already; they have to be answered first; send it \
         again when the agent has answered some of what waits"
    );
    let told = reply(&host.send(&id("a"), message("tell b add 1")).unwrap());
    assert!(told.starts_with("failed: the mailbox of `b` is full: 1000 messages wait"), "{told}");
    assert_eq!(host.store().mailbox_len(&id("b")).unwrap(), 1_000);
    // Bytes count too.
    let (_dir, host) = root(&["a", "b"]);
    let heavy = "x".repeat(4 << 20);
    let taken = (0..20).take_while(|_| host.post(&id("b"), message(&heavy)).is_ok()).count();
    assert_eq!(taken, 11, "4 MiB are 5.6 MiB as they are kept");
    let why = host.post(&id("b"), message(&heavy)).unwrap_err();
    assert!(matches!(why, HostError::MailboxFull { .. }), "{why}");
    host.post(&id("b"), message("a small one has room")).unwrap();
}

#[test]
fn draining_leaves_mail_where_it_is_and_the_next_start_answers_it() {
    let (dir, host) = root(&["a", "b"]);
    create(&host, "slow", Budget { wall_ms: 1_500, fuel: u64::MAX >> 12, ..Budget::default() });
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    supervisor.post(&id("slow"), message("spin")).unwrap();
    supervisor.post(&id("slow"), message("add 1")).unwrap();
    eventually("the loop", || supervisor.lives()[&id("slow")] == Life::Awake);
    let waiting = {
        let supervisor = supervisor.clone();
        std::thread::spawn(move || supervisor.send(&id("slow"), message("add 2")))
    };
    eventually("the letter", || host.store().mailbox_len(&id("slow")).unwrap() == 3);
    let drained = supervisor.drain(Duration::from_millis(50));
    assert_eq!(drained.left, [id("slow")]);
    let why = waiting.join().unwrap().unwrap_err().to_string();
    assert!(why.contains("the keeper is being stopped; message"), "{why}");
    assert!(matches!(supervisor.send(&id("a"), message("add 1")), Err(HostError::Draining(_))));
    supervisor.post(&id("a"), message("add 5")).unwrap();
    eventually("the end of the loop", || supervisor.status().awake == 0);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!((host.known(&id("slow")).unwrap().turn, host.known(&id("a")).unwrap().turn), (1, 0));
    drop(supervisor);
    eventually("the threads' end", || Arc::strong_count(&host) == 1);
    drop(host);
    let host = open(&dir);
    let _supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    eventually("what waited", || settled(&host, &["slow", "a"]));
    eventually("its turns", || host.known(&id("slow")).unwrap().turn == 3 && host.known(&id("a")).unwrap().turn == 1);
}

#[test]
fn while_everything_is_stopped_mail_waits_and_then_it_does_not() {
    let (dir, host) = root(&["a"]);
    let root = dir.path().join("root");
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    let mut switches = lazaret_gate::ledger::Switches::default();
    let thrown = lazaret_gate::ledger::Thrown { by: "ana".into(), at: 1, reason: String::new() };
    let stop = switches.throw(lazaret_gate::ledger::Switch::All, thrown);
    lazaret_host::set_switch(&root, &stop).unwrap();
    supervisor.post(&id("a"), message("add 1")).unwrap();
    eventually("the stop", || supervisor.status().held);
    assert!(matches!(supervisor.send(&id("a"), message("add 1")), Err(HostError::Killed(_))));
    assert_eq!(host.known(&id("a")).unwrap().turn, 0);
    let lift = switches.lift(lazaret_gate::ledger::Switch::All, "ana", 2, "").unwrap();
    lazaret_host::set_switch(&root, &lift).unwrap();
    eventually("its turn", || host.known(&id("a")).unwrap().turn == 1);
}

/// An agent that loops until somebody stops it.
fn looping(host: &Host, name: &str) {
    create(host, name, Budget { wall_ms: 600_000, fuel: u64::MAX >> 12, ..Budget::default() });
}

/// Says in the file who is revoked, as somebody does with an editor.
fn write_revocations(dir: &TempDir, text: &str) {
    std::fs::write(dir.path().join("root/revocations.json"), text).unwrap();
}

#[test]
fn a_revocation_by_hand_ends_the_turn_and_no_other_begins_until_it_is_taken_back() {
    let (dir, host) = root(&[]);
    looping(&host, "a");
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    for text in ["spin", "add 1", "add 2"] {
        supervisor.post(&id("a"), message(text)).unwrap();
    }
    let left = |host: &Host| (host.known(&id("a")).unwrap().turn, host.store().mailbox_len(&id("a")).unwrap());
    loop {
        eventually("the loop", || supervisor.status().awake == 1);
        std::thread::sleep(Duration::from_millis(100));
        write_revocations(&dir, r#"{"revoked": {"a": {}}}"#);
        eventually("its end", || supervisor.status().awake == 0);
        // On a busy machine it may not have begun to compute: then it is as if nothing had been.
        if left(&host) != (0, 3) {
            break;
        }
        write_revocations(&dir, "{}");
    }
    assert_eq!((left(&host), supervisor.lives()[&id("a")]), ((1, 2), Life::Revoked));
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(left(&host), (1, 2), "its mail waits");
    write_revocations(&dir, "{}");
    eventually("what waited", || left(&host) == (3, 0));
    assert_eq!(reply(&supervisor.send(&id("a"), message("recall")).unwrap()), "1,2");
}

#[test]
fn who_was_revoked_before_the_start_goes_on_when_the_file_says_so() {
    // By name, and because the file could not be understood.
    for text in [r#"{"revoked": {"a": {}}}"#, "{"] {
        let (dir, host) = root(&["a"]);
        host.post(&id("a"), message("add 1")).unwrap();
        write_revocations(&dir, text);
        let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(host.known(&id("a")).unwrap().turn, 0, "{text}");
        write_revocations(&dir, "{}");
        eventually("what waited", || host.known(&id("a")).unwrap().turn == 1);
        assert_eq!(supervisor.lives()[&id("a")], Life::Asleep, "{text}");
    }
}

#[test]
fn a_revoked_agents_schedule_says_nothing() {
    let (dir, host) = root(&["a"]);
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    let (from, message) = (now().moment.wall_ms, message("add 1"));
    let when = When::Every { from, interval: 1_000 };
    write_revocations(&dir, r#"{"revoked": {"a": {}}}"#);
    let (by, schedule) = ("ana".to_owned(), "tick".to_owned());
    host.add_schedule(ScheduleAdded { agent: id("a"), by, message, missed: Missed::Once, schedule, when }).unwrap();
    // Without a word to the supervisor that it is revoked.
    let plans = host.known(&id("a")).unwrap().schedules.len();
    assert_eq!((plans, supervisor.lives()[&id("a")]), (1, Life::New));
    supervisor.nudge(&id("a"));
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(host.store().mailbox_len(&id("a")).unwrap(), 0);
    write_revocations(&dir, "{}");
    eventually("what was missed", || host.known(&id("a")).unwrap().turn > 0);
}

#[test]
fn a_schedule_that_cant_fire_is_told_of() {
    let (_dir, host) = root(&["a"]);
    host.quarantine(&id("a"), "ana", "").unwrap();
    for _ in 0..1_000 {
        host.post(&id("a"), message("add 1")).unwrap();
    }
    let (from, message) = (now().moment.wall_ms, message("add 1"));
    let (by, schedule) = ("ana".to_owned(), "tick".to_owned());
    let when = When::Every { from, interval: 1_000 };
    host.add_schedule(ScheduleAdded { agent: id("a"), by, message, missed: Missed::Once, schedule, when }).unwrap();
    // Everything is slow to begin: the mailbox stays full while the schedule is due.
    let supervisor = Supervisor::start(host.clone(), Pace { awake: 0, ..brisk() }).unwrap();
    host.wake(&id("a"), "ana").unwrap();
    supervisor.nudge(&id("a"));
    eventually("the trouble", || supervisor.trouble(&id("a")).is_some());
    let (why, _) = supervisor.trouble(&id("a")).unwrap();
    assert!(why.starts_with("its schedule `tick` could not fire: ") && why.contains("1000 messages wait"), "{why}");
    assert_eq!(supervisor.status().troubles[&id("a")].0, why);
}

/// Whoever waits, in a thread of its own.
fn waits(supervisor: &Arc<Supervisor>, agent: &str, text: &str) -> std::thread::JoinHandle<Result<Turn, HostError>> {
    let (supervisor, agent, message) = (supervisor.clone(), id(agent), message(text));
    std::thread::spawn(move || supervisor.send(&agent, message))
}

fn delayed(answer: Result<Turn, HostError>) -> (u64, String) {
    match answer {
        Err(HostError::Delayed { number, why, .. }) => (number, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_waits_while_everything_is_stopped_is_told_and_the_message_is_kept() {
    let (dir, host) = root(&["b"]);
    looping(&host, "a");
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    supervisor.post(&id("a"), message("spin")).unwrap();
    eventually("the loop", || supervisor.status().awake == 1);
    // Until it computes; before that it would be as if nothing had been.
    std::thread::sleep(Duration::from_millis(300));
    let waiting = waits(&supervisor, "a", "add 7");
    eventually("the letter", || host.store().mailbox_len(&id("a")).unwrap() == 2);
    let root = dir.path().join("root");
    let mut switches = lazaret_gate::ledger::Switches::default();
    let thrown = lazaret_gate::ledger::Thrown { by: "ana".into(), at: 1, reason: "enough".into() };
    let stop = switches.throw(lazaret_gate::ledger::Switch::All, thrown);
    lazaret_host::set_switch(&root, &stop).unwrap();
    let (number, why) = delayed(waiting.join().unwrap());
    assert!(number == 2 && why.contains("ana has stopped everything") && why.contains("kill --lift all"), "{why}");
    assert_eq!(host.store().mailbox_len(&id("a")).unwrap(), 1, "the loop's is answered");
    // Whoever asks for one that could take a turn is told at once, and leaves nothing.
    assert!(matches!(supervisor.send(&id("b"), message("add 1")), Err(HostError::Killed(_))));
    assert_eq!(host.store().mailbox_len(&id("b")).unwrap(), 0);
    let lift = switches.lift(lazaret_gate::ledger::Switch::All, "ana", 2, "").unwrap();
    lazaret_host::set_switch(&root, &lift).unwrap();
    supervisor.heed_switches();
    eventually("its turn", || host.known(&id("a")).unwrap().turn == 2);
    assert_eq!(reply(&supervisor.send(&id("a"), message("recall")).unwrap()), "7");
}

#[test]
fn who_waits_for_an_agent_that_pauses_for_long_is_told() {
    let (_dir, host) = root(&["a"]);
    let pace = Pace { pause_ms: 120_000, pause_most_ms: 240_000, ..Pace::default() };
    let supervisor = Supervisor::start(host.clone(), pace).unwrap();
    let turn = supervisor.send(&id("a"), message("crash")).unwrap();
    assert!(matches!(turn.record.ending, Ending::Stopped(_)));
    let (first, why) = delayed(supervisor.send(&id("a"), message("add 1")));
    assert!(why.starts_with("its last turn was stopped by the host, and the next begins in "), "{why}");
    let (second, _) = delayed(supervisor.send(&id("a"), message("add 2")));
    assert_eq!((first, second, host.store().mailbox_len(&id("a")).unwrap()), (1, 2, 2));
}

#[test]
fn whose_turn_is_the_last_before_quarantine_is_told_of_that_turn() {
    let (_dir, host) = root(&["b"]);
    create(&host, "a", Budget { wall_ms: 700, fuel: u64::MAX >> 12, ..Budget::default() });
    let supervisor = Supervisor::start(host.clone(), Pace { awake: 1, breaker: 1, ..brisk() }).unwrap();
    supervisor.post(&id("a"), message("spin")).unwrap();
    eventually("the loop", || supervisor.status().awake == 1);
    // There is no room for another turn, so it goes by way of the mailbox.
    let crash = waits(&supervisor, "b", "crash");
    eventually("the letter", || host.store().mailbox_len(&id("b")).unwrap() == 1);
    let behind = waits(&supervisor, "b", "add 1");
    let turn = crash.join().unwrap().unwrap();
    assert!(matches!(turn.record.ending, Ending::Stopped(_)), "{:?}", turn.record.ending);
    let why = behind.join().unwrap().unwrap_err().to_string();
    assert!(why.contains("quarantined"), "{why}");
    assert_eq!(supervisor.lives()[&id("b")], Life::Quarantined);
}

#[test]
fn who_is_removed_is_forgotten() {
    let (_dir, host) = root(&["a", "b"]);
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    supervisor.send(&id("a"), message("add 1")).unwrap();
    host.remove(&id("a")).unwrap();
    supervisor.nudge(&id("a"));
    assert_eq!(supervisor.lives().keys().collect::<Vec<_>>(), [&id("b")]);
    assert!(matches!(supervisor.send(&id("a"), message("add 1")), Err(HostError::Removed(_))));
    assert!(matches!(supervisor.post(&id("a"), message("add 1")), Err(HostError::Removed(_))));
    assert_eq!(supervisor.lives().len(), 1);
}

#[test]
fn nobody_waits_for_an_agent_that_is_removed_meanwhile() {
    let (_dir, host) = root(&[]);
    // No turn ever begins: whoever sends waits in line.
    let supervisor = Supervisor::start(host.clone(), Pace { awake: 0, ..brisk() }).unwrap();
    for round in 0..600 {
        let name = format!("a{round}");
        create(&host, &name, Budget::default());
        supervisor.nudge(&id(&name));
        let senders: Vec<_> = (0..8).map(|_| waits(&supervisor, &name, "add 1")).collect();
        host.remove(&id(&name)).unwrap();
        supervisor.nudge(&id(&name));
        eventually("all to be told", || senders.iter().all(std::thread::JoinHandle::is_finished));
        for sender in senders {
            let why = sender.join().unwrap().unwrap_err();
            let told = matches!(&why, HostError::Removed(_) | HostError::Store(_) | HostError::NotRunning { .. });
            assert!(told, "{why:?}");
        }
    }
}

#[test]
fn a_schedule_wakes_its_agent_and_outlives_a_restart() {
    let (dir, host) = root(&["a"]);
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    let schedule = |name: &str, from: u64| ScheduleAdded {
        agent: id("a"),
        by: "ana".into(),
        message: message("add 1"),
        missed: Missed::Once,
        schedule: name.into(),
        when: When::Every { from, interval: 1_000 },
    };
    let begun = now().moment.wall_ms;
    let first = host.add_schedule(schedule("tick", begun)).unwrap();
    assert!(first.is_some_and(|first| first > begun));
    supervisor.nudge(&id("a"));
    eventually("two turns", || host.known(&id("a")).unwrap().turn >= 2);
    supervisor.drain(Duration::from_secs(10));
    drop(supervisor);
    eventually("the threads' end", || Arc::strong_count(&host) == 1);
    drop(host);
    std::thread::sleep(Duration::from_millis(3_100));
    let host = open(&dir);
    let before = host.known(&id("a")).unwrap().turn;
    let supervisor = Supervisor::start(host.clone(), brisk()).unwrap();
    eventually("what was missed", || host.known(&id("a")).unwrap().turn > before);
    let fired: Vec<_> = host.store().agent_entries(&id("a"), Some("schedule-fired"), None).unwrap();
    let fired = fired.into_iter().map(|seq| match host.store().entry(seq).unwrap().body {
        Body::ScheduleFired(fired) => (fired.due, fired.missed),
        other => panic!("{other:?}"),
    });
    let fired: Vec<(u64, u64)> = fired.collect();
    assert!(fired.iter().all(|(due, _)| (due - begun).is_multiple_of(1_000)), "{fired:?}");
    assert!(fired.is_sorted_by(|a, b| a.0 < b.0), "{fired:?}");
    assert!(fired.iter().any(|(_, missed)| *missed >= 2), "one makes up for those that were missed: {fired:?}");
    assert!(host.add_schedule(schedule("tick", begun)).unwrap_err().to_string().contains("there is one of that name"));
    host.remove_schedule(&id("a"), "tick", "ana", "").unwrap();
    supervisor.nudge(&id("a"));
    assert!(host.remove_schedule(&id("a"), "tick", "ana", "").is_err());
    eventually("silence", || settled(&host, &["a"]) && supervisor.status().awake == 0);
    let after = host.known(&id("a")).unwrap().turn;
    std::thread::sleep(Duration::from_millis(1_300));
    assert_eq!(host.known(&id("a")).unwrap().turn, after);
    host.store().verify_journal(|_| ()).unwrap();
    host.store().verify_state().unwrap();
}

#[test]
fn eight_clients_and_thirty_agents_lose_nothing() {
    let names: Vec<String> = (0..30).map(|n| format!("a{n}")).collect();
    let (_dir, host) = root(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let supervisor = Supervisor::start(host.clone(), Pace::default()).unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (names, supervisor) = (&names, &supervisor);
            scope.spawn(move || {
                for n in 0..30 {
                    let agent = id(&names[(client * 7 + n) % names.len()]);
                    if n % 3 == 0 {
                        supervisor.post(&agent, message("add 1")).unwrap();
                    } else {
                        assert!(reply(&supervisor.send(&agent, message("add 1")).unwrap()).starts_with("total="));
                    }
                }
            });
        }
    });
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    eventually("silence", || settled(&host, &names) && supervisor.status().awake == 0);
    let took = begun.elapsed();
    let turns: u64 = names.iter().map(|name| host.known(&id(name)).unwrap().turn).sum();
    assert_eq!(turns, 240);
    println!("240 turns of 30 agents by 8 clients in {took:?}, {} threads", supervisor.status().threads);
}

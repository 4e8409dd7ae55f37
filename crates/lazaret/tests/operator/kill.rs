//! The kill switches, thrown by a second process while the first is in the middle of something.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::scene::{ASKS, Running, Said, Scene, Server, until};
use crate::station::say;

/// Long before it would have ended by itself. How long it really took is printed: a busy machine is no reason to fail.
const BLINK: Duration = Duration::from_secs(10);

/// Throws `all` while a turn is under way, and looks at what is left of it.
fn killed_while(what: &str, scene: &Scene, turn: Running) -> Said {
    let begun = Instant::now();
    let kill = scene.run(&["kill", "all", "--reason", "enough"]);
    let said = turn.ends_within(BLINK);
    say(&format!(
        "kill all while {what}: the turn was over {} ms after the command began",
        begun.elapsed().as_millis()
    ));
    assert_eq!(kill.code, 0, "{}", kill.text);
    assert!(kill.text.contains("stopped: everything"), "{}", kill.text);
    assert_eq!(said.code, 6, "{}", said.text);
    assert!(
        said.flat.contains("stopped: (killed)") && said.flat.contains("ana has stopped everything"),
        "{}",
        said.text
    );
    assert!(said.flat.contains("(enough)"), "{}", said.text);
    recorded(scene);
    // It holds for processes that start later, until it is lifted.
    let later = scene.run(&["agent", "send", "a", "recall"]);
    assert_eq!(later.code, 6, "{}", later.text);
    assert!(later.flat.contains("no turn is taken: ana has stopped everything"), "{}", later.text);
    assert!(later.flat.contains("lazaret kill --lift all"), "{}", later.text);
    assert!(scene.done(&["kill", "--lift", "all"]).contains("lifted: everything"));
    let after = scene.run(&["agent", "send", "a", "recall"]);
    assert_eq!(after.code, 0, "{}", after.text);
    scene.done(&["journal", "verify"]);
    said
}

/// The journal says who threw it, when and why, and how the turn ended.
fn recorded(scene: &Scene) {
    let thrown = scene.journal("switch-changed").pop().expect("an entry about the switch");
    assert_eq!((thrown["by"].as_str(), thrown["reason"].as_str()), (Some("ana"), Some("enough")), "{thrown}");
    assert_eq!((thrown["switch"].as_str(), thrown["change"].as_str()), (Some("all"), Some("thrown")), "{thrown}");
    assert!(thrown["at"].as_u64().unwrap() > 1_700_000_000_000, "{thrown}");
    let turn = scene.journal("turn").pop().expect("the turn is on record");
    assert_eq!(cause(&turn), "killed", "{turn}");
}

fn cause(turn: &Value) -> String {
    turn["ending"]["stopped"]["cause"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_guest_that_loops_without_asking_is_interrupted() {
    let scene = Scene::new(&[], &[]);
    let turn = scene.start(&["agent", "send", "a", "spin"]);
    let lock = scene.file("lazaret.lock");
    until("it has the data root", || std::fs::File::open(&lock).ok()?.try_lock_shared().is_err().then_some(()));
    std::thread::sleep(Duration::from_millis(500));
    killed_while("a guest loops", &scene, turn);
    // An interruption can't be replayed, and nothing says that it was.
    let replay = scene.run(&["replay", "verify", "a:1"]);
    assert_eq!(replay.code, 5, "{}", replay.text);
}

#[test]
fn a_request_in_flight_is_cut_off() {
    let server = Server::start(false);
    let scene = Scene::new(&[&server.grant()], &[]);
    let turn = scene.start(&["agent", "send", "a", &format!("fetch {}", server.url())]);
    server.wait_for_request();
    let said = killed_while("a request is in flight", &scene, turn);
    assert!(said.flat.contains("was under way"), "{}", said.text);
    server.wait_for_hang_up();
    let closed = scene.journal("effect-closed").pop().expect("the effect is closed on record");
    assert_eq!(closed["outcome"]["refused"]["code"], "killed", "{closed}");
    assert_eq!(closed["outcome"]["refused"]["layer"], "executor", "{closed}");
    assert_eq!(server.more_requests(), 0, "nobody asked again");
    // What ended it is on the tape, so a stranger can run it again.
    assert!(scene.done(&["replay", "verify", "a:1"]).contains("MATCH"));
}

#[test]
fn a_question_that_waits_ends() {
    let scene = Scene::new(&[], &[]);
    scene.rule(ASKS);
    let turn = scene.start(&["agent", "send", "a", "add 1"]);
    let id = scene.question();
    killed_while("a question waits", &scene, turn);
    assert!(scene.done(&["replay", "verify", "a:1"]).contains("MATCH"));
    let late = scene.run(&["approvals", "approve", &id]);
    assert_eq!(late.code, 9, "{}", late.text);
    assert_eq!(scene.done(&["agent", "send", "a", "recall"]).trim(), "", "nothing of the turn is left");
}

#[test]
fn no_money_is_spent_and_everything_else_goes_on() {
    let server = Server::start(true);
    let caps = ["--cap", "currency=EUR", "--cap", "day.money=9000000", "--cap", "rails=card"];
    let scene = Scene::new(&["tool:pay", "model:rehearsal/*", &server.grant()], &caps);
    let pay = r#"tool pay {"amount_micros":1000000,"currency":"EUR","rail":"card","to":"shop"}"#;
    let before = scene.run(&["agent", "send", "a", pay]);
    assert!(before.text.contains("there is no tool `pay` here"), "the gate lets it pass: {}", before.text);
    assert!(scene.done(&["kill", "spend"]).contains("stopped: spending"));
    let stopped = scene.run(&["agent", "send", "a", pay]);
    assert_eq!(stopped.code, 6, "{}", stopped.text);
    assert!(stopped.flat.contains("ana has stopped all spending"), "{}", stopped.text);
    assert!(stopped.flat.contains("kill --lift spend"), "{}", stopped.text);
    assert!(scene.done(&["replay", "verify", "a:2"]).contains("MATCH"));
    for free in ["add 1", "ask hello", &format!("fetch {}", server.url())] {
        let said = scene.run(&["agent", "send", "a", free]);
        assert_eq!(said.code, 0, "`{free}` costs nothing: {}", said.text);
        assert!(!said.flat.contains("refused"), "`{free}` costs nothing: {}", said.text);
    }
    assert!(scene.done(&["kill", "--lift"]).contains("lifted: spending"));
    assert!(scene.run(&["agent", "send", "a", pay]).text.contains("there is no tool `pay` here"));
}

#[test]
fn mail_waits_while_everything_is_stopped() {
    let scene = Scene::new(&["agent:b"], &[]);
    let component = crate::station::guests().join("rust-counter.wasm");
    crate::station::done(scene.command(&["agent", "create", "b"]).arg(component));
    scene.rule(ASKS.replace("http.fetch", "message.send").as_str());
    let turn = scene.start(&["agent", "send", "a", "tell b add 7"]);
    let id = scene.question();
    scene.done(&["approvals", "approve", &id]);
    // Its answer is asked for too; until then the turn of `b` is not over.
    let id = scene.question_after(&id);
    scene.done(&["kill", "all"]);
    assert_eq!(turn.end().code, 0, "a's own turn was over");
    assert_eq!(scene.run(&["approvals", "deny", &id]).code, 9);
    assert_eq!(scene.json(&["agent", "show", "b"])["turn"], 1, "it was stopped in the middle of it");
    scene.done(&["kill", "--lift"]);
}

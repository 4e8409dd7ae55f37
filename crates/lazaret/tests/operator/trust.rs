//! An agent that is revoked by a second process while the first is in the middle of something.

use std::time::Duration;

use serde_json::Value;

use super::scene::{ASKS, Running, Said, Scene, Server, until};
use crate::station;

/// Revokes `a` while a turn of it is under way, and looks at what is left of it.
fn revoked_while(scene: &Scene, turn: Running) -> Said {
    let revoke = scene.run(&["trust", "revoke", "a", "--reason", "enough"]);
    let said = turn.end();
    assert_eq!(revoke.code, 0, "{}", revoke.text);
    assert!(revoke.text.contains("revoked: a;"), "{}", revoke.text);
    assert_eq!(said.code, 6, "{}", said.text);
    assert!(said.flat.contains("stopped: (revoked)") && said.flat.contains("ana has revoked `a`"), "{}", said.text);
    assert!(said.flat.contains("(enough)"), "{}", said.text);
    recorded(scene);
    // Nothing of it is left, and nothing begins, in processes that start later too.
    let (turns, effects) = (scene.journal("turn").len(), scene.journal("effect-opened").len());
    for _ in 0..2 {
        let later = scene.run(&["agent", "send", "a", "add 9"]);
        assert_eq!(later.code, 10, "{}", later.text);
        assert!(later.flat.contains("agent `a` takes no turn and no message: ana has revoked `a`"), "{}", later.text);
        assert!(later.flat.contains("lazaret trust restore a"), "{}", later.text);
    }
    assert_eq!(scene.journal("turn").len(), turns, "0 turns after");
    assert_eq!(scene.journal("effect-opened").len(), effects, "0 effects after");
    assert_eq!(scene.json(&["trust", "show", "a"])["score"], 0);
    assert!(scene.done(&["trust", "restore", "a"]).contains("restored: a, with a score of 0.50"));
    assert_eq!(scene.run(&["agent", "send", "a", "recall"]).code, 0);
    scene.done(&["journal", "verify"]);
    said
}

/// The journal says who revoked it, when and why, before how the turn ended.
fn recorded(scene: &Scene) {
    let event = scene.journal("trust-changed").pop().expect("an entry about the revocation");
    assert_eq!((event["by"].as_str(), event["reason"].as_str()), (Some("ana"), Some("enough")), "{event}");
    assert_eq!((event["agent"].as_str(), event["change"].as_str()), (Some("a"), Some("revoked")), "{event}");
    assert!(event["at"].as_u64().unwrap() > 1_700_000_000_000, "{event}");
    let turn = scene.journal("turn").pop().expect("the turn is on record");
    assert_eq!(turn["ending"]["stopped"]["cause"], "revoked", "{turn}");
    assert_eq!(turn["image_after"], turn["image_before"], "{turn}");
}

/// Waits until another process has the data root open.
fn held(scene: &Scene) {
    let lock = scene.file("lazaret.lock");
    until("it has the data root", || std::fs::File::open(&lock).ok()?.try_lock_shared().is_err().then_some(()));
}

#[test]
fn a_guest_that_loops_without_asking_is_interrupted() {
    let scene = Scene::new(&[], &[]);
    let turn = scene.start(&["agent", "send", "a", "spin"]);
    held(&scene);
    std::thread::sleep(Duration::from_millis(500));
    revoked_while(&scene, turn);
    let replay = scene.run(&["replay", "verify", "a:1"]);
    assert_eq!(replay.code, 5, "{}", replay.text);
    assert!(replay.flat.contains("its agent was revoked"), "{}", replay.text);
}

#[test]
fn a_request_in_flight_is_cut_off() {
    let server = Server::start(false);
    let scene = Scene::new(&[&server.grant()], &[]);
    let turn = scene.start(&["agent", "send", "a", &format!("fetch {}", server.url())]);
    server.wait_for_request();
    let said = revoked_while(&scene, turn);
    assert!(said.flat.contains("was under way"), "{}", said.text);
    server.wait_for_hang_up();
    let closed = scene.journal("effect-closed").pop().expect("the effect is closed on record");
    assert_eq!(closed["outcome"]["refused"]["code"], "revoked", "{closed}");
    assert_eq!(closed["outcome"]["refused"]["layer"], "executor", "{closed}");
    assert_eq!(server.more_requests(), 0, "nobody asked again");
    assert!(scene.done(&["replay", "verify", "a:1"]).contains("MATCH"));
}

#[test]
fn a_question_that_waits_ends() {
    let scene = Scene::new(&[], &[]);
    scene.rule(ASKS);
    let turn = scene.start(&["agent", "send", "a", "add 1"]);
    let id = scene.question();
    revoked_while(&scene, turn);
    assert!(scene.done(&["replay", "verify", "a:1"]).contains("MATCH"));
    assert_eq!(scene.run(&["approvals", "approve", &id]).code, 9);
    assert_eq!(scene.done(&["agent", "send", "a", "recall"]).trim(), "", "nothing of the turn is left");
}

#[test]
fn an_approval_for_longer_ends_with_the_revocation() {
    let scene = Scene::new(&[], &[]);
    scene.rule(ASKS);
    let turn = scene.start(&["agent", "send", "a", "add 1"]);
    let id = scene.question();
    scene.done(&["approvals", "approve", &id, "--for-minutes", "60", "--yes"]);
    assert_eq!(turn.end().code, 0);
    let standing = || std::fs::read_dir(scene.file("approvals")).unwrap().count();
    assert_eq!(standing(), 1, "it covers more than once");
    scene.done(&["trust", "revoke", "a"]);
    assert_eq!(standing(), 0, "it is gone");
}

#[test]
fn others_go_on_and_a_broken_file_stops_all_of_them() {
    let scene = Scene::new(&["agent:b"], &[]);
    let component = station::guests().join("rust-counter.wasm");
    station::done(scene.command(&["agent", "create", "b"]).arg(component));
    let turn = scene.start(&["agent", "send", "a", "spin"]);
    held(&scene);
    scene.done(&["trust", "revoke", "b"]);
    std::thread::sleep(Duration::from_millis(300));
    let file = scene.file("revocations.json");
    let whole = std::fs::read(&file).unwrap();
    // In place, as an editor might: whoever runs is stopped, because nobody can tell who is meant.
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let said = turn.end();
    assert_eq!(said.code, 6, "{}", said.text);
    assert!(said.flat.contains("stopped: (revoked)"), "b alone was revoked, and a went on: {}", said.text);
    assert!(said.flat.contains("`revocations.json` is damaged"), "{}", said.text);
    let later = scene.run(&["agent", "send", "a", "recall"]);
    assert_eq!(later.code, 10, "{}", later.text);
    assert!(later.flat.contains("every agent counts as revoked"), "{}", later.text);
    let restore = scene.run(&["trust", "restore", "a"]);
    assert_eq!(restore.code, 1, "{}", restore.text);
    assert!(restore.flat.contains("mend the file, or remove it"), "{}", restore.text);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(scene.run(&["agent", "send", "a", "recall"]).code, 0);
    assert_eq!(scene.run(&["agent", "send", "b", "recall"]).code, 10, "the journal knows");
    let told = scene.done(&["agent", "send", "a", "tell b add 1"]);
    assert!(told.contains("mailbox-closed"), "{told}");
    let listed = scene.json(&["trust", "list"]);
    let revoked = |at: usize| listed.get(at).and_then(|row| row.get("revoked")).is_some_and(Value::is_object);
    assert!(!revoked(0) && revoked(1), "{listed}");
    scene.done(&["journal", "verify"]);
}

/// What a revocation does to the disk. Of writes there are many, to the journal too, and all are tried.
const CALLS: [&str; 7] = ["fsync", "fdatasync", "write", "pwrite64", "rename", "renameat", "ftruncate"];

#[test]
fn a_revocation_that_is_cut_off_is_in_force_or_not_begun_and_what_was_said_holds() {
    let (mut runs, mut kept, mut said) = (0, 0, 0);
    for call in CALLS {
        for how in ["signal=KILL", "error=ENOSPC", "error=EIO"] {
            for nth in 1.. {
                let scene = Scene::new(&[], &[]);
                let inject = format!("inject={call}:{how}:when={nth}");
                let log = scene.root().with_extension("strace");
                let revoke = scene.command(&["trust", "revoke", "a"]);
                let mut strace = std::process::Command::new("strace");
                strace.args(["-f", "-qq", "-e", &format!("trace={call}"), "-e", &inject, "-o"]).arg(&log);
                strace.arg(revoke.get_program()).args(revoke.get_args());
                strace.envs(revoke.get_envs().filter_map(|(name, value)| Some((name, value?))));
                let hit = strace.output().expect("strace is there");
                let text = String::from_utf8_lossy(&hit.stdout).into_owned() + &String::from_utf8_lossy(&hit.stderr);
                assert!(!text.contains("panicked"), "{inject}: {text}");
                let calls = std::fs::read_to_string(&log).unwrap();
                let was_hit =
                    if how.starts_with("signal") { !hit.status.success() } else { calls.contains("(INJECTED)") };
                let is_revoked = scene.json(&["trust", "show", "a"])["revoked"].is_object();
                // Who was told that it is in force can rely on it.
                assert!(is_revoked || !text.contains("revoked: a"), "{inject}: {text}");
                let turn = scene.run(&["agent", "send", "a", "add 1"]);
                let refused = turn.code == 10 && turn.flat.contains("ana has revoked `a`");
                assert_eq!(refused, is_revoked, "{inject}: {}", turn.text);
                assert!(refused || turn.code == 0, "{inject}: {}", turn.text);
                assert!(!turn.text.contains("damaged"), "{inject}: {}", turn.text);
                scene.done(&["journal", "verify"]);
                if !was_hit {
                    assert!(is_revoked, "{inject}: nothing was in its way: {text}");
                    break;
                }
                (runs, kept) = (runs + 1, kept + u64::from(is_revoked));
                said += u64::from(text.contains("revoked: a"));
            }
        }
    }
    station::say(&format!(
        "a revocation cut off in {runs} ways: in force after {kept}, told of in {said} of these, never damaged"
    ));
    assert!(runs > 30 && kept > 0 && kept < runs, "{runs} {kept}");
}

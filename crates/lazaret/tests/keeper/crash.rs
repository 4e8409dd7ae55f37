//! Crashes on purpose.

use super::scene::Scene;

#[test]
fn a_simulated_crash_kills_the_keeper_and_loses_nothing() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    scene.done(&["agent", "send", "a", "add 1"]);
    let text = scene.done(&["agent", "simulate-crash", "a", "add 10"]);
    assert!(text.contains("cut off: turn 2 of a: the keeper was killed in it"), "{text}");
    assert_eq!(keeper.end(), None, "a signal ended it");
    let shown = scene.json(&["agent", "show", "a"]);
    assert_eq!(shown["turn"], 1, "{shown}");
    scene.done(&["journal", "verify"]);
    let mut keeper = scene.serve();
    // The message was on disk; its turn is taken anew, once.
    let text = scene.done(&["agent", "send", "a", "add 100"]);
    assert!(text.contains("a turn 3 ") || text.contains("total=111"), "{text}");
    assert!(scene.done(&["agent", "send", "a", "stored"]).contains("stored=111"));
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    assert!(scene.done(&["replay", "verify", "a"]).contains("4 turns: 4 MATCH"));
}

#[test]
fn others_are_not_cut_off_unless_that_is_meant() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    scene.agent("b");
    let mut turn = scene.spin("b");
    let (text, code) = scene.run(&["agent", "simulate-crash", "a", "add 1"]);
    assert_eq!((code, text.contains("add `--with-others` if that is meant")), (1, true), "{text}");
    assert_eq!(scene.say(b"PING\n"), "PONG\n");
    scene.done(&["agent", "simulate-crash", "a", "add 1", "--with-others"]);
    assert_eq!(keeper.end(), None);
    turn.wait().unwrap();
    scene.done(&["journal", "verify"]);
}

#[test]
fn without_a_keeper_another_process_is_killed() {
    let scene = Scene::new();
    scene.agent("a");
    let text = scene.done(&["agent", "simulate-crash", "a", "add 10"]);
    assert!(text.contains("cut off: turn 1 of a: a process made for it was killed in it"), "{text}");
    assert_eq!(scene.json(&["agent", "show", "a"])["turn"], 0);
    let text = scene.done(&["agent", "send", "a", "add 1"]);
    assert!(text.contains("a turn 2 "), "its mail is answered too: {text}");
    assert!(scene.done(&["agent", "send", "a", "stored"]).contains("stored=11"));
    let (text, code) = scene.run(&["agent", "simulate-crash", "nobody"]);
    assert_eq!((code, text.contains("there is no agent `nobody`")), (1, true), "{text}");
    let (text, code) = scene.run(&["agent", "simulate-crash", "a", "fail on purpose"]);
    assert_eq!(code, 0, "a turn that fails is cut off as well: {text}");
}

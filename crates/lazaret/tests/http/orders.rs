//! What operators do with agents that are there.

use serde_json::{Value, json};

use super::scene::{Scene, until};
use crate::station;

/// What `lazaret agent show` says of an agent.
fn shown(scene: &Scene, agent: &str) -> Value {
    serde_json::from_str(&station::done(&mut scene.command(&["agent", "show", agent, "--json"]))).unwrap()
}

/// What an agent replies.
fn reply(scene: &Scene, agent: &str, text: &str) -> String {
    station::done(&mut scene.command(&["agent", "send", agent, text])).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_fork_is_what_the_other_was_and_a_rollback_puts_back() {
    let scene = Scene::new(&[]);
    for add in ["add 1", "add 2", "add 4"] {
        scene.turn(add);
    }
    let made = scene.send("POST", "/v1/agents/a/forks", &json!({ "agent": "b", "turn": 2 }));
    assert_eq!(made.status, 201, "{}", made.body);
    let fork = made.json();
    assert_eq!((fork["from"].as_str(), fork["turn"].as_u64()), (Some("a"), Some(2)), "{fork}");
    let second = scene.get("/v1/agents/a/turns/2").ok();
    assert_eq!(fork["entry"], second["hash"], "{fork}");
    let b = shown(&scene, "b");
    for key in ["agent", "image", "component", "grants", "turn"] {
        assert_eq!(fork["agent"][key], b[key], "{key}: {fork}\n{b}");
    }
    assert_eq!(b["turn"], 0, "{b}");
    assert_eq!(reply(&scene, "b", "add 10"), "total=13 count=3");
    let now = scene.send("POST", "/v1/agents/a/forks", &json!({ "agent": "c" })).ok();
    assert_eq!(now["turn"], 3, "as it is now: {now}");
    scene.send("POST", "/v1/agents/a/forks", &json!({ "agent": "c" })).fault(409, "name-taken");
    scene.send("POST", "/v1/agents/a/forks", &json!({ "agent": "d", "turn": 99 })).fault(404, "no-turn");
    scene.send("POST", "/v1/agents/nobody/forks", &json!({ "agent": "d" })).fault(404, "no-agent");
    scene.send("POST", "/v1/agents/a/forks", &json!({ "agent": "Not A Name" })).fault(422, "bad-input");

    let back = scene.send("POST", "/v1/agents/a/rollback", &json!({ "turn": 1, "by": "ana" })).ok();
    let first = scene.get("/v1/agents/a/turns/1").ok();
    assert_eq!((&back["image"], back["turn"].as_u64()), (&first["record"]["image_after"], Some(3)), "{back}");
    let a = shown(&scene, "a");
    assert_eq!((&a["image"], &a["turn"]), (&back["image"], &back["turn"]), "{a}");
    assert_eq!(scene.turn("add 1"), "total=2 count=2");
    scene.send("POST", "/v1/agents/a/rollback", &json!({ "turn": 99 })).fault(404, "no-turn");
    scene.send("POST", "/v1/agents/a/rollback", &json!({})).fault(422, "bad-input");
    let long = json!({ "turn": 1, "by": "x".repeat(5_000) });
    scene.send("POST", "/v1/agents/a/rollback", &long).fault(413, "input-too-large");
    let tool = json!({ "agent": "tool", "component": super::scene::component("wasi-tool") });
    scene.send("POST", "/v1/agents", &tool).ok();
    scene.send("POST", "/v1/agents/tool/rollback", &json!({ "turn": 0 })).fault(409, "stateless");
    scene.send("POST", "/v1/journal/verify", &json!({})).ok();
}

#[test]
fn an_agent_is_set_apart_until_it_is_woken_and_its_mail_waits() {
    let scene = Scene::new(&[]);
    assert_eq!(scene.turn("add 1"), "total=1 count=1");
    let apart = scene.send("PUT", "/v1/agents/a/quarantine", &json!({ "by": "ana", "reason": "a look" })).ok();
    assert_eq!(apart["state"], "quarantined", "{apart}");
    let hello = json!({ "text": "add 2" });
    let refused = scene.send("POST", "/v1/agents/a/turns", &hello);
    refused.fault(409, "quarantined");
    assert!(refused.body.contains("by ana (a look)"), "{}", refused.body);
    assert_eq!(scene.send("POST", "/v1/agents/a/messages", &hello).status, 202);
    scene.send("PUT", "/v1/agents/a/quarantine", &json!({})).fault(409, "quarantined");
    assert_eq!(scene.get("/v1/agents/a").ok()["mailbox"], 1);
    assert_eq!(shown(&scene, "a")["state"], "quarantined");
    scene.send("DELETE", "/v1/agents/a/quarantine?by=ana", &json!({})).ok();
    until("its mail is answered", || (scene.get("/v1/agents/a").ok()["turn"] == 2).then_some(()));
    scene.send("DELETE", "/v1/agents/a/quarantine", &json!({})).fault(409, "not-quarantined");
    assert_eq!(scene.turn("add 1"), "total=4 count=3");
}

#[test]
fn what_an_agent_has_in_memory_is_let_go_of() {
    let scene = Scene::new(&[]);
    scene.turn("add 1");
    let sleep = || scene.send("POST", "/v1/agents/a/sleep", &json!({})).ok()["let_go"].clone();
    assert_eq!((sleep(), sleep()), (json!(true), json!(false)));
    assert_eq!(scene.turn("add 1"), "total=2 count=2");
    scene.send("POST", "/v1/agents/nobody/sleep", &json!({})).fault(404, "no-agent");
}

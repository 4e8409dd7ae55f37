//! How far agents are trusted, and what is left of one that is not at all.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::scene::{Scene, component, until};
use crate::station;

/// Replaces a file of the data root, as an editor does.
fn put(scene: &Scene, name: &str, text: &str) {
    let part = scene.root().join(format!("{name}.part"));
    std::fs::write(&part, text).unwrap();
    std::fs::rename(part, scene.root().join(name)).unwrap();
}

fn state(scene: &Scene) -> String {
    scene.get("/v1/agents/a").ok()["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_revocation_stops_a_turn_in_flight_and_closes_the_mailbox_until_it_is_lifted() {
    let scene = Scene::new(&[]);
    assert_eq!(scene.turn("add 1"), "total=1 count=1");
    std::thread::scope(|scope| {
        let spin = || scene.send("POST", "/v1/agents/a/turns", &json!({ "text": "spin" })).ok();
        let turn = scope.spawn(spin);
        until("the turn is under way", || (state(&scene) == "awake").then_some(()));
        let begun = Instant::now();
        let why = json!({ "by": "ana", "reason": "enough" });
        let revoked = scene.send("PUT", "/v1/agents/a/revocation", &why).ok();
        assert_eq!((revoked["score"].as_u64(), revoked["revoked"]["by"].as_str()), (Some(0), Some("ana")), "{revoked}");
        let taken = turn.join().unwrap();
        assert_eq!(taken["record"]["ending"]["stopped"]["cause"], "revoked", "{taken}");
        // It would spin for ten minutes.
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    });
    let hello = json!({ "text": "add 1" });
    scene.send("POST", "/v1/agents/a/turns", &hello).fault(409, "revoked");
    scene.send("POST", "/v1/agents/a/messages", &hello).fault(409, "revoked");
    scene.send("POST", "/v1/agents/a/forks", &json!({ "agent": "b" })).fault(409, "revoked");
    assert_eq!(state(&scene), "revoked");
    let again = scene.send("PUT", "/v1/agents/a/revocation", &json!({ "by": "bob" })).ok();
    assert_eq!(again["revoked"]["by"], "ana", "the first stands: {again}");
    let told = scene.get("/v1/agents/a/trust").ok();
    assert_eq!((told["score"].as_u64(), told["by_conduct"].as_u64()), (Some(0), Some(50)), "{told}");
    let restored = scene.send("DELETE", "/v1/agents/a/revocation?by=ana&reason=over", &json!({})).ok();
    assert_eq!((restored["score"].as_u64(), &restored["revoked"]), (Some(50), &Value::Null), "{restored}");
    assert_eq!(scene.turn("add 1"), "total=2 count=2", "nothing of the turn that was stopped is left");
    assert_eq!(scene.send("POST", "/v1/agents/a/messages", &hello).status, 202);
    let told = |told: &Value| told["events"].as_array().unwrap().clone();
    let events = told(&scene.get("/v1/agents/a/trust").ok());
    let last = events.last().unwrap();
    assert_eq!((last["change"].as_str(), last["reason"].as_str()), (Some("restored"), Some("over")), "{last}");
    scene.send("DELETE", "/v1/agents/a/revocation", &json!({})).ok();
    assert_eq!(told(&scene.get("/v1/agents/a/trust").ok()).len(), events.len(), "to lift nothing is no event");
}

#[test]
fn trust_is_listed_shown_as_the_command_shows_it_and_set() {
    let scene = Scene::new(&[]);
    let new = json!({ "agent": "b", "component": component("rust-counter") });
    scene.send("POST", "/v1/agents", &new).ok();
    scene.turn("tool not.granted {}");
    let set = scene.send("PUT", "/v1/agents/a/trust", &json!({ "score": 80, "by": "ana", "reason": "good work" })).ok();
    assert_eq!((set["score"].as_u64(), set["conduct"]["refusals"].as_u64()), (Some(79), Some(1)), "{set}");
    let shown = scene.get("/v1/agents/a/trust").ok();
    assert_eq!((shown["base"].as_u64(), shown["events"][0]["by"].as_str()), (Some(80), Some("ana")), "{shown}");
    let term = |name: &str| shown["terms"].as_array().unwrap().iter().find(|term| term["name"] == name).cloned();
    assert_eq!(term("refusals").unwrap()["points"], -1, "{shown}");
    for (path, command) in
        [("/v1/agents/a/trust", ["trust", "show", "a"].as_slice()), ("/v1/trust", &["trust", "list"])]
    {
        let said = station::done(scene.command(command).arg("--json"));
        assert_eq!(scene.get(path).ok(), serde_json::from_str::<Value>(&said).unwrap(), "{path}");
    }
    assert_eq!(scene.get("/v1/trust").ok().as_array().unwrap().len(), 2);
    for score in [json!(101), json!(-1), json!(0.5), json!("80")] {
        scene.send("PUT", "/v1/agents/a/trust", &json!({ "score": score })).fault(422, "bad-input");
    }
    let long = "x".repeat(5_000);
    scene.send("PUT", "/v1/agents/a/trust", &json!({ "score": 1, "reason": long })).fault(413, "input-too-large");
    scene.send("PUT", "/v1/agents/a/revocation", &json!({ "by": long })).fault(413, "input-too-large");
    scene.send("DELETE", &format!("/v1/agents/a/revocation?by={long}"), &json!({})).fault(413, "input-too-large");
    for (method, path) in [("GET", "trust"), ("PUT", "revocation"), ("DELETE", "revocation")] {
        scene.send(method, &format!("/v1/agents/nobody/{path}"), &json!({})).fault(404, "no-agent");
    }
    scene.send("DELETE", "/v1/agents/b", &json!({})).ok();
    scene.send("PUT", "/v1/agents/b/revocation", &json!({})).fault(409, "removed");
}

#[test]
fn what_is_changed_by_hand_is_on_record_though_no_agent_does_anything() {
    let scene = Scene::new(&[]);
    let mut stream = scene.events("/v1/events?types=trust-changed,switch-changed", "");
    put(&scene, "revocations.json", r#"{"revoked": {"a": {"by": "ana", "reason": "by hand"}}}"#);
    // What only reads the data root makes nobody look. A stream goes on for ever, so that it is asked when there is something.
    let events = || scene.get("/v1/agents/a/trust").ok()["events"].as_array().unwrap().len();
    until("the revocation is on record", || (events() == 1).then_some(()));
    let revoked = stream.next().unwrap();
    assert_eq!((revoked.kind.as_str(), revoked.data["agent"].as_str()), ("trust-changed", Some("a")), "{revoked:?}");
    assert_eq!(revoked.data["change"], "revoked", "{revoked:?}");
    assert_eq!((revoked.data["by"].as_str(), revoked.data["reason"].as_str()), (Some("ana"), Some("by hand")));
    scene.send("POST", "/v1/agents/a/messages", &json!({ "text": "add 1" })).fault(409, "revoked");
    put(&scene, "revocations.json", "{}");
    until("it is on record that it is over", || (events() == 2).then_some(()));
    let restored = stream.next().unwrap();
    assert_eq!(restored.data["change"], "restored", "{restored:?}");
    let thrown = r#"{"switches": {"spend": null, "all": {"by": "ana", "at": 1, "reason": "by hand"}}, "events": []}"#;
    put(&scene, "switches.json", thrown);
    let switch =
        || scene.get("/v1/events?since=0&follow=false&types=switch-changed").body.contains("event: switch-changed");
    until("the switch is on record", || switch().then_some(()));
    let killed = stream.next().unwrap();
    assert_eq!((killed.kind.as_str(), killed.data["switch"].as_str()), ("switch-changed", Some("all")), "{killed:?}");
    assert_eq!(events(), 2, "each is on record once");
}

#[test]
fn a_revocations_file_that_is_broken_is_not_written_over() {
    let scene = Scene::new(&[]);
    put(&scene, "revocations.json", r#"{"revoked": {"a""#);
    scene.send("POST", "/v1/agents/a/turns", &json!({ "text": "add 1" })).fault(409, "revoked");
    scene.send("DELETE", "/v1/agents/a/revocation", &json!({})).fault(409, "revocations");
    assert_eq!(scene.get("/v1/trust").ok()[0]["score"], 0);
    std::fs::remove_file(scene.root().join("revocations.json")).unwrap();
    assert_eq!(scene.turn("add 1"), "total=1 count=1");
}

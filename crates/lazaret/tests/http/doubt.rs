//! An effect of which nobody knows whether it happened, and a person who says.

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::mpsc::channel;

use serde_json::json;

use super::scene::{Scene, until};

#[test]
fn an_effect_in_doubt_is_told_and_settled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let mut scene = Scene::new(&[&format!("http:{origin}")]);
    let (heard, hears) = channel();
    // Hears the request, and never says what became of it.
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            heard.send(()).unwrap();
            held.push(stream);
        }
    });
    let mail = json!({ "text": format!("post {origin}/pay 10") });
    assert_eq!(scene.send("POST", "/v1/agents/a/messages", &mail).status, 202);
    hears.recv().unwrap();
    scene.crash();
    until("it is in doubt", || (scene.get("/v1/agents/a").ok()["state"] == "in doubt").then_some(()));
    let mut told = scene.events("/v1/events?types=in-doubt,settled&since=0", "");
    let doubt = told.next().unwrap();
    assert!(doubt.kind == "in-doubt" && doubt.data["agent"] == "a" && doubt.id.is_some(), "{doubt:?}");
    scene.send("POST", "/v1/agents/a/turns", &json!({ "text": "recall" })).fault(409, "in-doubt");

    scene.send("POST", "/v1/agents/a/settle", &json!({ "note": "the shop says no" })).ok();
    let settled = told.next().unwrap();
    assert!(settled.kind == "settled" && settled.data["agent"] == "a", "{settled:?}");
    until("its turn goes on", || (scene.get("/v1/agents/a").ok()["turn"] == 1).then_some(()));
    assert_eq!(scene.get("/v1/agents/a").ok()["state"], "asleep");
    assert!(hears.try_recv().is_err(), "it was not sent again");
    scene.send("POST", "/v1/agents/a/settle", &json!({ "note": "x" })).fault(409, "not-in-doubt");
    let replayed = scene.send("POST", "/v1/agents/a/turns/1/replay", &json!({})).ok();
    assert_eq!(replayed["result"]["verdict"], "match", "{replayed}");
}

//! What Prometheus is told.

use serde_json::json;

use super::scene::Scene;

#[test]
fn turns_effects_and_refusals_are_counted() {
    let scene = Scene::new(&[]);
    scene.turn("add 1");
    scene.turn("tool not.granted {}");
    scene.send("POST", "/v1/agents/a/turns", &json!({ "text": "fail x" })).ok();
    let got = scene.get("/metrics");
    assert!(got.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    for (name, value) in [
        ("lazaret_turns_total{ending=\"replied\"}", 2.0),
        ("lazaret_turns_total{ending=\"failed\"}", 1.0),
        ("lazaret_effects_total{kind=\"tools.call\",verdict=\"refused\"}", 1.0),
        ("lazaret_effects_total{kind=\"storage.set\",verdict=\"done\"}", 1.0),
        ("lazaret_refusals_total{code=\"not-granted\"}", 1.0),
        ("lazaret_turn_seconds_count", 3.0),
        ("lazaret_agents{state=\"asleep\"}", 1.0),
        ("lazaret_approvals_pending", 0.0),
        ("lazaret_event_streams", 0.0),
        ("lazaret_mailbox_messages", 0.0),
        ("lazaret_killed{switch=\"all\"}", 0.0),
    ] {
        let line = got.body.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        let found = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        assert_eq!(found, Some(value), "{name}\n{}", got.body);
    }
    assert!(scene.figure("lazaret_commit_seconds_count") >= 3.0);
    let journal = scene.get("/v1/status").ok()["journal"].as_f64().unwrap();
    assert!((scene.figure("lazaret_journal_entries") - journal).abs() < 0.5);
    assert!(scene.figure("lazaret_http_connections") >= 1.0);
    assert!(!got.body.contains("\"a\""), "an agent's name is a label:\n{}", got.body);
}

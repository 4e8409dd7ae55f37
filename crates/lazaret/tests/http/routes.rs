//! What can be asked, once one is let in.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::scene::{Scene, component, until};
use crate::station;

#[test]
fn an_agent_is_made_talked_to_replayed_and_removed() {
    let scene = Scene::new(&[]);
    let new = json!({ "agent": "b", "component": component("rust-counter"), "grants": ["storage", "log"] });
    let made = scene.send("POST", "/v1/agents", &new);
    assert_eq!(made.status, 201);
    assert_eq!(made.json()["grants"], json!(["storage", "log"]));
    scene.send("POST", "/v1/agents", &new).fault(409, "name-taken");
    let names: Vec<Value> =
        scene.get("/v1/agents").ok().as_array().unwrap().iter().map(|it| it["agent"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(scene.turn("add 1"), "total=1 count=1");
    assert_eq!(scene.turn("add 2"), "total=3 count=2");
    let page = scene.get("/v1/agents/a/turns?limit=1").ok();
    assert_eq!((page["turns"][0]["turn"].as_u64(), page["next"].as_u64()), (Some(1), Some(1)));
    let page = scene.get("/v1/agents/a/turns?after=1").ok();
    assert_eq!((page["turns"][0]["ending"].as_str(), page["next"].as_u64()), (Some("replied"), None));
    let turn = scene.get("/v1/agents/a/turns/2").ok();
    assert_eq!(turn["record"]["turn"], 2);
    assert!(turn["rulings"].is_array());
    let replayed = scene.send("POST", "/v1/agents/a/turns/2/replay", &json!({})).ok();
    assert_eq!(replayed["result"]["verdict"], "match", "{replayed}");
    assert_eq!(scene.send("POST", "/v1/agents/a/messages", &json!({ "text": "add 4" })).status, 202);
    assert_eq!(scene.send("DELETE", "/v1/agents/b", &json!({})).status, 204);
    scene.send("POST", "/v1/agents/b/turns", &json!({ "text": "add 1" })).fault(409, "removed");
    assert_eq!(scene.get("/v1/agents?all=true").ok().as_array().unwrap().len(), 2);
}

#[test]
fn the_journal_is_paged_proven_signed_and_checked() {
    let scene = Scene::new(&[]);
    scene.turn("add 1");
    let newest = scene.get("/v1/journal?limit=1").ok();
    let len = newest["len"].as_u64().unwrap();
    assert_eq!((newest["entries"][0]["kind"].as_str(), newest["next"].as_u64()), (Some("turn"), None));
    let (mut from, mut seen) = (0, Vec::new());
    loop {
        let page = scene.get(&format!("/v1/journal?from={from}&limit=2")).ok();
        seen.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()));
        match page["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(seen, (0..len).collect::<Vec<_>>());
    let ours = scene.get("/v1/journal?agent=a&from=0").ok();
    assert!(ours["entries"].as_array().unwrap().iter().all(|entry| entry["agent"] == "a"));
    let entry = scene.get(&format!("/v1/journal/{}", len - 1)).ok();
    assert!(entry["entry"]["body"]["turn"].is_object());
    let proof = scene.get(&format!("/v1/journal/{}/proof", len - 1)).ok();
    assert!(proof["inclusion"].is_array() && proof["checkpoint"].as_str().unwrap().contains(&format!("\n{len}\n")));
    assert_eq!(scene.get("/v1/journal/checkpoint").ok()["size"], len);
    assert_eq!(scene.send("POST", "/v1/journal/checkpoint", &json!({})).ok()["size"], len);
    let checked = scene.send("POST", "/v1/journal/verify", &json!({})).ok();
    assert_eq!(checked["entries"], len);
}

#[test]
fn rules_are_shown_checked_explained_and_tried() {
    let scene = Scene::new(&[]);
    scene.turn("add 1");
    let rules = scene.get("/v1/policy").ok();
    assert!(rules["rules"].as_u64().unwrap() > 0 && rules["problems"].as_array().unwrap().is_empty(), "{rules}");
    let good = json!({ "files": { "x.cedar": "@id(\"all\") permit(principal, action, resource);" } });
    assert_eq!(scene.send("POST", "/v1/policy/check", &good).ok()["ok"], true);
    let bad = json!({ "files": { "x.cedar": "permit(principal, action, resource" } });
    let bad = scene.send("POST", "/v1/policy/check", &bad).ok();
    assert!(bad["ok"] == false && bad["problems"][0]["line"].is_u64(), "{bad}");
    let asked = json!({ "agent": "a", "action": "http.fetch", "resource": "Host::api.example.com" });
    let why = scene.send("POST", "/v1/policy/why", &asked).ok();
    assert!(why["policy"]["verdict"].is_string(), "{why}");
    scene.send("POST", "/v1/policy/why", &json!({ "action": "x" })).fault(422, "bad-input");
    scene.send("POST", "/v1/policy/why", &json!({ "effect": "99999.0" })).fault(404, "no-effect");
    let seq = scene.get("/v1/journal?limit=1").ok()["entries"][0]["seq"].as_u64().unwrap();
    let why = scene.send("POST", "/v1/policy/why", &json!({ "effect": format!("{seq}.0") })).ok();
    assert_eq!(why["recorded"]["agent"], "a", "{why}");
    let none = json!({ "files": { "x.cedar": "@id(\"no\") forbid(principal, action, resource);" } });
    let tried = scene.send("POST", "/v1/policy/backtest", &none).ok();
    assert!(tried["past"]["newly_denied"].as_u64().unwrap() > 0, "{tried}");
}

#[test]
fn budgets_and_switches_are_set() {
    let scene = Scene::new(&[]);
    let caps = scene.send("PATCH", "/v1/agents/a/budget", &json!({ "day.effects": "1000" })).ok();
    assert_eq!(caps["day"]["effects"], 1000);
    let budget = scene.get("/v1/agents/a/budget").ok();
    assert_eq!(budget["lines"][0]["cap"], 1000, "{budget}");
    let why = json!({ "by": "ana", "reason": "a drill" });
    let thrown = scene.send("PUT", "/v1/kill/all", &why).ok();
    assert_eq!(thrown["all"]["by"], "ana", "{thrown}");
    assert_eq!(scene.get("/v1/kill").ok(), thrown);
    scene.send("POST", "/v1/agents/a/turns", &json!({ "text": "add 1" })).fault(409, "killed");
    let lifted = scene.send("DELETE", "/v1/kill/all?by=ana&reason=over", &json!({})).ok();
    assert_eq!(lifted["all"], Value::Null);
    assert_eq!(scene.turn("add 1"), "total=1 count=1");
    scene.send("PUT", "/v1/kill/nothing", &why).fault(400, "bad-request");
    let status = scene.get("/v1/status").ok();
    assert_eq!((status["agents"].as_u64(), status["health"].as_str()), (Some(1), Some("ok")));
    let doctor = scene.get("/v1/doctor").ok();
    let names: Vec<_> = doctor["findings"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["engine", "pagemap-scan", "fsync", "disk", "data-root-modes", "clock", "journal"], "{doctor}");
    let modes = &doctor["findings"][4];
    assert_eq!(modes["ok"], true, "{modes}");
}

/// A rule that asks before the agent writes to its storage.
const ASKS: &str = r#"
@id("look-first") @requireApproval("Somebody should look at it.")
permit(principal, action == Action::"storage.set", resource);
"#;

#[test]
fn a_question_is_shown_whole_and_answered_once() {
    let scene = Scene::new(&[]);
    std::fs::write(scene.root().join("policy/asks.cedar"), ASKS).unwrap();
    for (verdict, said) in [("approve", "total="), ("deny", "refused")] {
        std::thread::scope(|scope| {
            let turn = scope.spawn(|| scene.turn("add 1"));
            let id =
                until("a question waits", || Some(scene.get("/v1/approvals").ok().get(0)?["id"].as_str()?.to_owned()));
            // Who waits for a person is seen to, by whatever way one looks.
            assert_eq!(scene.get("/v1/agents/a").ok()["state"], "waiting for approval");
            let listed = station::done(&mut scene.command(&["agent", "list"]));
            assert!(listed.contains("waiting for approval"), "{listed}");
            let shown = scene.get(&format!("/v1/approvals/{id}")).ok();
            assert!(shown["lines"].as_array().unwrap().len() > 3 && shown["hidden"] == false, "{shown}");
            let path = format!("/v1/approvals/{id}/decision");
            let digest = "0".repeat(64);
            scene.send("POST", &path, &json!({ "verdict": verdict, "digest": digest })).fault(409, "other-question");
            scene.send("POST", &path, &json!({ "verdict": verdict })).fault(422, "bad-input");
            let decided = json!({ "verdict": verdict, "digest": shown["digest"] });
            assert_eq!(scene.send("POST", &path, &decided).ok()["verdict"], verdict);
            let reply = turn.join().unwrap();
            assert!(reply.contains(said), "{reply}");
            let again = scene.send("POST", &path, &decided);
            assert!(again.status == 409 || again.status == 404, "{}", again.body);
        });
    }
}

#[test]
fn a_client_that_goes_leaves_its_turn_and_a_stop_waits_for_it() {
    let mut scene = Scene::new(&[]);
    std::fs::write(scene.root().join("policy/asks.cedar"), ASKS).unwrap();
    let body = json!({ "text": "add 1" }).to_string();
    let head = scene.head("POST /v1/agents/a/turns");
    let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = scene.connect();
    std::io::Write::write_all(&mut client, format!("{head}{more}{body}").as_bytes()).unwrap();
    let id = until("a question waits", || Some(scene.get("/v1/approvals").ok().get(0)?["id"].as_str()?.to_owned()));
    drop(client);
    let shown = scene.get(&format!("/v1/approvals/{id}")).ok();
    let yes = json!({ "verdict": "approve", "digest": shown["digest"] });
    scene.send("POST", &format!("/v1/approvals/{id}/decision"), &yes).ok();
    until("the turn is on record", || (scene.get("/v1/agents/a").ok()["turn"].as_u64() == Some(1)).then_some(()));
    let mut stream = scene.events("/v1/events", "");
    let begun = Instant::now();
    scene.stop();
    while stream.next().is_some() {}
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn the_document_names_every_route_and_what_it_answers() {
    let scene = Scene::new(&[]);
    let document = scene.get("/v1/openapi.json").ok();
    assert_eq!(document["openapi"], "3.1.0");
    let mut routes = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            routes += 1;
            let answers = operation["responses"].as_object().unwrap();
            for status in ["400", "401", "403", "405", "421", "500", "503", "504"] {
                let schema = &answers[status]["content"]["application/json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Fault", "{method} {path} {status}");
            }
            assert!(operation["summary"].is_string() || operation["description"].is_string(), "{method} {path}");
            if operation.get("requestBody").is_some() {
                assert!(["413", "415", "422"].iter().all(|status| answers.contains_key(*status)), "{method} {path}");
            }
        }
    }
    crate::station::say(&format!("the document names {routes} routes"));
    assert!(routes >= 48, "{routes}");
}

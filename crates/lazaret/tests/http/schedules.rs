//! Schedules: made, kept, and removed by whoever says so twice.

use serde_json::{Value, json};

use super::scene::{Scene, until};

const PATH: &str = "/v1/agents/a/schedules";

#[test]
fn a_schedule_fires_until_somebody_removes_it_and_confirms_that() {
    let scene = Scene::new(&[]);
    let often = json!({ "schedule": "often", "every_ms": 1_000, "message": { "text": "add 1" }, "by": "ana" });
    let made = scene.send("POST", PATH, &often);
    assert_eq!(made.status, 201, "{}", made.body);
    let made = made.json();
    assert_eq!((made["agent"].as_str(), made["schedule"].as_str()), (Some("a"), Some("often")), "{made}");
    assert_eq!((made["missed"].as_str(), made["by"].as_str()), (Some("once"), Some("ana")), "{made}");
    assert!(made["when"]["every"]["interval"] == 1_000 && made["next"].is_u64(), "{made}");
    let listed = scene.get("/v1/schedules").ok();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["when"]), (1, &made["when"]), "{listed}");
    until("it has fired twice", || (scene.get("/v1/agents/a").ok()["turn"].as_u64()? >= 2).then_some(()));
    let turn = scene.get("/v1/agents/a/turns/2").ok();
    assert!(turn["record"]["ending"]["replied"].is_object(), "{turn}");
    let path = format!("{PATH}/often");
    for wrong in ["", "?confirm=", "?confirm=yes", "?confirm=often-not"] {
        let refused = scene.send("DELETE", &format!("{path}{wrong}"), &json!({}));
        refused.fault(422, "unconfirmed");
        assert!(refused.body.contains("has to be confirmed") && refused.body.contains("`confirm`"), "{}", refused.body);
    }
    assert_eq!(scene.get("/v1/schedules").ok().as_array().unwrap().len(), 1, "nothing was removed");
    assert_eq!(scene.send("DELETE", &format!("{path}?confirm=often&by=ana&reason=over"), &json!({})).status, 204);
    assert_eq!(scene.get("/v1/schedules").ok(), json!([]));
    scene.send("DELETE", &format!("{path}?confirm=often"), &json!({})).fault(404, "no-schedule");
    let kind = |kind: &str| scene.get(&format!("/v1/events?since=0&follow=false&types={kind}&bodies=1")).body;
    assert!(kind("schedule-removed").contains("\"reason\":\"over\""));
    let fired = kind("schedule-fired").matches("event: schedule-fired").count();
    assert!(fired >= 2, "{fired}");
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(kind("schedule-fired").matches("event: schedule-fired").count(), fired, "it is gone");
}

#[test]
fn schedules_that_cannot_be_kept_are_not_made() {
    let scene = Scene::new(&[]);
    let cron = json!({ "schedule": "morning", "cron": "30 8 * * MON-FRI", "zone": "Europe/Berlin", "missed": "skip" });
    let made = scene.send("POST", PATH, &cron).ok();
    assert_eq!(made["when"]["cron"]["zone"], "Europe/Berlin", "{made}");
    scene.send("POST", PATH, &cron).fault(409, "schedule-taken");
    let with = |key: &str, value: Value| {
        let mut new = cron.clone();
        new["schedule"] = json!("other");
        new[key] = value;
        new
    };
    for (code, new) in [
        ("bad-schedule", with("cron", json!("61 * * * *"))),
        ("bad-schedule", with("cron", json!("0 0 30 2 *"))),
        ("bad-schedule", with("zone", json!("Mars/Base"))),
        ("bad-schedule", with("schedule", json!("Not A Name"))),
        ("bad-schedule", with("message", json!({ "text": "x".repeat(70_000) }))),
        ("bad-schedule", json!({ "schedule": "x", "every_ms": 999 })),
        ("bad-schedule", json!({ "schedule": "x", "every_ms": 31_622_400_001_u64 })),
        ("bad-input", with("every_ms", json!(1_000))),
        ("bad-input", with("cron", Value::Null)),
        ("bad-input", json!({ "schedule": "x", "every_ms": 1_000, "zone": "UTC" })),
        ("bad-input", with("missed", json!("never"))),
        ("bad-input", with("unknown", json!(1))),
        ("bad-input", json!({ "schedule": "x" })),
    ] {
        scene.send("POST", PATH, &new).fault(422, code);
    }
    scene.send("POST", "/v1/agents/nobody/schedules", &cron).fault(404, "no-agent");
    scene.send("DELETE", "/v1/agents/nobody/schedules/x?confirm=x", &json!({})).fault(404, "no-agent");
    for n in 1..32 {
        scene.send("POST", PATH, &with("schedule", json!(format!("s{n}")))).ok();
    }
    scene.send("POST", PATH, &with("schedule", json!("s32"))).fault(409, "too-many-schedules");
    assert_eq!(scene.get("/v1/schedules").ok().as_array().unwrap().len(), 32);
}

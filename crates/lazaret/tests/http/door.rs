//! Who is let in, and how those are answered who are not, or ask for what isn't there.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::scene::Scene;
use crate::station;

#[test]
fn only_our_own_names_and_pages_are_answered() {
    let scene = Scene::new(&[]);
    let port = scene.address.rsplit(':').next().unwrap().to_owned();
    let ask = |line: &str, host: &str, more: &str| {
        let token = &scene.token;
        let text = format!("{line} HTTP/1.1\r\n{host}Authorization: Bearer {token}\r\n{more}Connection: close\r\n\r\n");
        scene.raw(text.as_bytes())
    };
    let get = "GET /v1/status";
    for host in ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"] {
        let got = ask(get, &format!("Host: {host}:{port}\r\n"), "");
        assert_eq!(got.status, 200, "{host}: {}", got.body);
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "a@localhost", "192.168.0.1", ""] {
        ask(get, &format!("Host: {host}:{port}\r\n"), "").fault(421, "other-host");
    }
    ask(get, "Host: localhost\r\n", "").fault(421, "other-host");
    ask(get, "Host: localhost:1\r\n", "").fault(421, "other-host");
    ask(get, "", "").fault(400, "bad-request");
    ask(get, &format!("Host: localhost:{port}\r\nHost: localhost:{port}\r\n"), "").fault(400, "bad-request");
    let ours = format!("Host: localhost:{port}\r\n");
    ask("GET http://evil.example/v1/status", &ours, "").fault(421, "other-host");
    for origin in ["http://evil.example", "null", "https://localhost", &format!("http://localhost:{port}.evil.example")]
    {
        ask(get, &ours, &format!("Origin: {origin}\r\n")).fault(403, "other-origin");
        // Even for what needs no token, and for whatever a browser asks before it asks.
        ask("GET /v1/health", &ours, &format!("Origin: {origin}\r\n")).fault(403, "other-origin");
        ask("OPTIONS /v1/agents", &ours, &format!("Origin: {origin}\r\n")).fault(403, "other-origin");
    }
    let got = ask(get, &ours, &format!("Origin: http://localhost:{port}\r\n"));
    assert_eq!(got.status, 200);
    assert_eq!(got.header("access-control-allow-origin"), None);
}

#[test]
fn without_the_token_there_is_only_health() {
    let scene = Scene::new(&[]);
    let ask = |line: &str, more: &str| {
        let host = &scene.address;
        scene.raw(format!("{line} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n").as_bytes())
    };
    let paths = scene.get("/v1/openapi.json").ok();
    let paths = paths["paths"].as_object().unwrap();
    let mut asked = 0;
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys().filter(|_| path != "/v1/health") {
            let line = format!("{} {}", method.to_uppercase(), path.replace(['{', '}'], ""));
            for more in ["", "Authorization: Bearer wrong\r\n", "Authorization: Bearer \r\n"] {
                let got = ask(&line, more);
                got.fault(401, "token");
                assert_eq!(got.header("www-authenticate"), Some("Bearer"));
            }
            asked += 1;
        }
    }
    assert!(asked >= 30, "{asked}");
    ask("GET /v1/status", &format!("Authorization: Basic {}\r\n", scene.token)).fault(401, "token");
    ask("GET /v1/status", &format!("Authorization: Bearer {}x\r\n", scene.token)).fault(401, "token");
    ask("GET /nothing", "").fault(401, "token");
    let health = ask("GET /v1/health", "");
    assert_eq!(health.ok(), json!({ "health": "ok" }));
    for name in ["x-content-type-options", "x-frame-options", "content-security-policy", "referrer-policy"] {
        assert!(health.header(name).is_some() && ask("GET /v1/status", "").header(name).is_some(), "{name}");
    }
    assert_eq!(health.header("cache-control"), Some("no-store"));
}

#[test]
fn what_is_not_there_or_not_right_is_said_in_one_form() {
    let scene = Scene::new(&[]);
    scene.get("/v1/nothing").fault(404, "no-path");
    scene.get("/v1/agents/nobody").fault(404, "no-agent");
    scene.get("/v1/agents/NOT%20A%20NAME").fault(400, "bad-request");
    scene.get("/v1/agents/%ff").fault(400, "bad-request");
    scene.get("/v1/agents/a/turns/7").fault(404, "no-turn");
    scene.get("/v1/agents/a/turns/x").fault(400, "bad-request");
    scene.get("/v1/journal/99999").fault(404, "no-entry");
    scene.get("/v1/journal/18446744073709551615").fault(404, "no-entry");
    scene.get("/v1/journal?limit=x").fault(400, "bad-request");
    scene.get("/v1/journal?what=1").fault(400, "bad-request");
    scene.get("/v1/approvals/abc").fault(404, "no-question");
    let got = scene.send("PUT", "/v1/agents", &json!({}));
    got.fault(405, "no-method");
    assert!(got.header("allow").is_some_and(|allow| allow.contains("POST")), "{}", got.head);
    let post = scene.head("POST /v1/agents/a/turns");
    scene
        .raw(format!("{post}Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{{}}").as_bytes())
        .fault(415, "not-json");
    scene.raw(format!("{post}Content-Length: 2\r\n\r\n{{}}").as_bytes()).fault(415, "not-json");
    let json = "Content-Type: application/json\r\n";
    scene.raw(format!("{post}{json}Content-Length: 1\r\n\r\n{{").as_bytes()).fault(400, "bad-request");
    let deep = "[".repeat(100_000);
    let nested = format!("{post}{json}Content-Length: {}\r\n\r\n{deep}", deep.len());
    scene.raw(nested.as_bytes()).fault(422, "bad-input");
    let deep = format!("{{\"context\":{deep}");
    let why = scene.head("POST /v1/policy/why");
    let nested = format!("{why}{json}Content-Length: {}\r\n\r\n{deep}", deep.len());
    scene.raw(nested.as_bytes()).fault(400, "bad-request");
    scene.send("POST", "/v1/agents/a/turns", &json!(["text/plain", "add 1", null])).fault(422, "bad-input");
    scene.send("POST", "/v1/agents/a/turns", &json!({ "texts": "x" })).fault(422, "bad-input");
    scene.send("POST", "/v1/agents/a/turns", &json!({ "text": "x", "base64": "eA==" })).fault(422, "bad-input");
    scene.send("POST", "/v1/agents", &json!({ "agent": "b", "component": "eA==" })).fault(422, "inadmissible");
    scene.send("POST", "/v1/agents/a/settle", &json!({ "note": "x" })).fault(409, "not-in-doubt");
    scene.send("PATCH", "/v1/agents/a/budget", &json!({ "day.nothing": "1" })).fault(422, "bad-cap");
}

#[test]
fn json_as_bad_as_it_gets_is_refused_as_a_body_too() {
    let scene = Scene::new(&[]);
    let (post, json) = (scene.head("POST /v1/agents/a/messages"), "Content-Type: application/json\r\n");
    let mut bodies = 0;
    for seed in std::fs::read_dir(station::workspace().join("fuzz/corpus/session")).unwrap().map(Result::unwrap) {
        let (name, body) = (seed.file_name().into_string().unwrap(), std::fs::read(seed.path()).unwrap());
        let head = format!("{post}{json}Content-Length: {}\r\n\r\n", body.len());
        // An empty message is one.
        if body.trim_ascii() == b"{}" {
            continue;
        }
        let got = scene.raw(&[head.as_bytes(), &body].concat());
        assert!([400, 422].contains(&got.status), "{name}: {} {}", got.status, got.head);
        bodies += 1;
    }
    assert!(bodies >= 100);
    assert_eq!(scene.get("/v1/agents/a").ok()["mailbox"], 0, "none of them is a message");
}

#[test]
fn a_mailbox_that_is_full_is_said_and_takes_nothing_more() {
    let scene = Scene::new(&[]);
    scene.send("PUT", "/v1/agents/a/quarantine", &json!({ "by": "ana" })).ok();
    for _ in 0..1_000 {
        assert_eq!(scene.send("POST", "/v1/agents/a/messages", &json!({ "text": "add 1" })).status, 202);
    }
    let full = scene.send("POST", "/v1/agents/a/messages", &json!({ "text": "add 1" }));
    assert_eq!(full.header("retry-after"), Some("1"));
    full.fault(429, "mailbox-full");
    assert_eq!(scene.get("/v1/agents/a").ok()["mailbox"], 1_000);
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let scene = Scene::new(&[]);
    let post = scene.head("POST /v1/policy/check");
    let json = "Content-Type: application/json\r\n";
    let begun = Instant::now();
    scene.raw(format!("{post}{json}Content-Length: 99000000000\r\n\r\n{{").as_bytes()).fault(413, "input-too-large");
    assert!(begun.elapsed() < Duration::from_secs(5));
    // One that doesn't say how long it is, in chunks.
    let mut stream = scene.connect();
    stream.write_all(format!("{post}{json}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let mut sent = 0;
    while stream.write_all(chunk.as_bytes()).is_ok() && sent < 1_000 {
        sent += 1;
    }
    assert!(sent < 1_000, "it goes on reading");
    // A message that is too large for an agent, but not for a body.
    let large = json!({ "text": "x".repeat((4 << 20) + 1) });
    scene.send("POST", "/v1/agents/a/turns", &large).fault(413, "input-too-large");
    // Too many headers, and too long ones.
    let many: String = (0..200).map(|number| format!("X-{number}: x\r\n")).collect();
    let got = scene.raw(format!("{}{many}\r\n", scene.head("GET /v1/status")).as_bytes());
    assert_eq!(got.status, 431, "{}", got.head);
    let long = format!("{}X: {}\r\n\r\n", scene.head("GET /v1/status"), "x".repeat(100_000));
    assert_eq!(scene.raw(long.as_bytes()).status, 431);
    assert_eq!(scene.turn("add 1"), "total=1 count=1");
}

#[test]
fn a_body_that_comes_too_slowly_is_given_up() {
    let scene = Scene::new(&[]);
    let mut stream = scene.connect();
    let post = scene.head("POST /v1/policy/check");
    let json = "Content-Type: application/json\r\n";
    stream.write_all(format!("{post}{json}Content-Length: 1000\r\n\r\n{{").as_bytes()).unwrap();
    // A byte now and then doesn't help.
    let mut dripping = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        while dripping.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let begun = Instant::now();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let took = begun.elapsed();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(40), "{took:?}");
    // Nor does a head that never ends.
    let mut stream = scene.connect();
    stream.write_all(b"GET /v1/health HTTP/1.1\r\nHost: ").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn connections_are_counted_and_one_too_many_is_told_so() {
    let scene = Scene::new(&[]);
    let mut open: Vec<_> = (0..256).map(|_| scene.connect()).collect();
    super::scene::until("there is no room", || {
        let mut stream = scene.connect();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        if answer.contains("\"too-many\"") {
            return Some(());
        }
        open.push(stream);
        None
    });
    // However many more there are, they are told, and the keeper is well: somebody known is answered on the socket.
    station::raise_files();
    let mut told = 0;
    while open.len() < 10_000 {
        open.push(scene.connect());
    }
    for stream in &mut open[300..] {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        told += u32::from(answer.contains("\"too-many\""));
    }
    // Places of those that say nothing are free again after a while, and somebody gets them.
    station::say(&format!("10000 connections over HTTP: {told} of the last 9700 told that there is no room"));
    assert!(told > 8_000, "{told}");
    station::done(&mut scene.command(&["agent", "send", "a", "add 1"]));
    drop(open);
    super::scene::until("there is room again", || (scene.get("/v1/health").status == 200).then_some(()));
}

#[test]
fn it_is_served_on_loopback_and_its_place_is_written_down() {
    let mut scene = Scene::new(&[]);
    let place = scene.root().join("run/http");
    assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o7777, 0o600);
    scene.stop();
    assert!(!place.exists());
    for (wide, why) in [("0.0.0.0:0", "can be reached from other machines"), ("example.com:1", "is not an address")] {
        let refused = scene.command(&["serve", "--http", wide]).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!refused.status.success() && said.contains(why), "{said}");
    }
}

//! Event streams: whole, resumed, slow.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

use super::scene::{Event, Scene, until};
use crate::station;

fn is_turn(number: u64) -> impl Fn(&Event) -> bool {
    move |event| event.kind == "turn" && event.data["turn"] == number
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

#[test]
fn a_turn_is_told_effect_by_effect() {
    let scene = Scene::new(&[]);
    let mut stream = scene.events("/v1/events", "");
    scene.turn("add 1");
    let events = stream.until(is_turn(1));
    let expected = ["effect-proposed", "effect-permitted", "effect-executed"];
    assert_eq!(&kinds(&events)[..3], expected, "{events:?}");
    let turn = events.last().unwrap();
    assert_eq!((turn.data["ending"].as_str(), turn.data["agent"].as_str()), (Some("replied"), Some("a")));
    // The last of an entry has its place; those before are parts of it.
    let seq = turn.data["seq"].as_u64().unwrap().to_string();
    assert_eq!(turn.id.as_deref(), Some(seq.as_str()));
    assert_eq!(events[0].id.as_deref(), Some(format!("{seq}.0").as_str()));
    assert!(events.iter().all(|event| event.data.get("effect").is_none() && event.data.get("input").is_none()));
    // Who asks for bodies gets them, escaped: guest text can't make an event.
    let mut whole = scene.events("/v1/events?bodies=1", "");
    scene.turn("say x\n\nevent: forged\ndata: {}\n\n");
    let events = whole.until(is_turn(2));
    assert!(!kinds(&events).contains(&"forged"));
    let said = events.iter().find(|event| event.data["kind"] == "log.write").unwrap();
    assert!(said.data["effect"]["text"].as_str().unwrap().contains("event: forged"), "{said:?}");
    let mut refused = scene.events("/v1/events?types=effect-refused,agent-removed&agent=a&since=0", "");
    scene.turn("tool not.granted {}");
    let event = refused.next().unwrap();
    assert_eq!((event.kind.as_str(), event.data["code"].as_str()), ("effect-refused", Some("not-granted")));
}

#[test]
fn what_leaves_the_host_is_told_when_it_does_and_once() {
    let server = Silent::start();
    let scene = Scene::new(&[&format!("http:{}", server.origin)]);
    let mut stream = scene.events("/v1/events", "");
    std::thread::scope(|scope| {
        let turn = scope.spawn(|| scene.turn(&format!("fetch {}/secret/path", server.origin)));
        let before = stream.until(|event| event.kind == "effect-permitted" && event.data["kind"] == "http.fetch");
        let proposed = before.iter().find(|event| event.data["target"] == server.origin.as_str()).unwrap();
        assert!(!proposed.data.to_string().contains("secret"), "{proposed:?}");
        server.answer();
        let after = stream.until(is_turn(1));
        assert_eq!(kinds(&after), ["effect-executed", "turn"], "{after:?}");
        assert!(turn.join().unwrap().contains("200"));
        // Somebody who comes in the middle, or afterwards, is told the same.
        let all: Vec<Event> = before.into_iter().chain(after).collect();
        for (place, seen) in all.iter().enumerate() {
            let more = format!("Last-Event-ID: {}\r\n", seen.id.as_deref().unwrap());
            if place + 1 < all.len() {
                let rest = scene.events("/v1/events", &more).until(is_turn(1));
                assert_eq!(rest, all[place + 1..], "after {seen:?}");
            }
        }
    });
}

/// A server that answers when it is told to.
pub(super) struct Silent {
    pub(super) origin: String,
    go: std::sync::mpsc::Sender<()>,
}

impl Silent {
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (go, wait) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = wait.recv();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi");
        });
        Self { origin, go }
    }

    pub(super) fn answer(&self) {
        self.go.send(()).unwrap();
    }
}

#[test]
fn a_stream_that_breaks_goes_on_where_it_was() {
    const TURNS: u64 = 120;
    let scene = Scene::new(&[]);
    let from = scene.get("/v1/status").ok()["journal"].as_u64().unwrap() - 1;
    let (mut seen, mut breaks) = (Vec::<Event>::new(), 0);
    std::thread::scope(|scope| {
        let turns = scope.spawn(|| (0..TURNS).for_each(|_| drop(scene.turn("add 1"))));
        let mut dice = station::Dice(7);
        while !seen.last().is_some_and(is_turn(TURNS)) {
            let last = seen.last().and_then(|event| event.id.clone()).unwrap_or_else(|| from.to_string());
            let mut stream = scene.events("/v1/events", &format!("Last-Event-ID: {last}\r\n"));
            for _ in 0..=dice.below(40) {
                seen.push(stream.next().unwrap());
                if seen.last().is_some_and(is_turn(TURNS)) {
                    break;
                }
            }
            breaks += 1;
        }
        turns.join().unwrap();
    });
    let whole = scene.events(&format!("/v1/events?since={from}"), "").until(is_turn(TURNS));
    let ids: BTreeSet<_> = seen.iter().map(|event| event.id.clone().unwrap()).collect();
    assert_eq!(ids.len(), seen.len(), "something was told twice");
    assert_eq!(seen, whole, "something was lost or changed");
    let events = seen.len();
    station::say(&format!("{events} events of {TURNS} turns over {breaks} connections: none lost, none twice"));
    scene.events(&format!("/v1/events?since={from}"), "").next().unwrap();
    scene.get("/v1/events?since=x").fault(400, "bad-request");
    // Of a journal that was longer than this one is.
    let len = scene.get("/v1/status").ok()["journal"].as_u64().unwrap();
    let ahead = scene.get(&format!("/v1/events?since={len}"));
    assert!(ahead.body.contains(&format!("this journal, which has {len} entries")), "{}", ahead.body);
    ahead.fault(400, "bad-request");
    let (get, last) = (scene.head("GET /v1/events"), format!("Last-Event-ID: {}.0\r\n\r\n", len + 1));
    scene.raw(format!("{get}{last}").as_bytes()).fault(400, "bad-request");
    let last = len - 1;
    assert_eq!(scene.get(&format!("/v1/events?since={last}&follow=false")).status, 200);
    scene.get("/v1/events?types=A").fault(400, "bad-request");
}

#[test]
fn a_reader_that_never_reads_slows_nobody_and_is_cut_off() {
    const TURNS: u32 = 60;
    let scene = Scene::new(&[]);
    let text = format!("say {}", "x".repeat(60_000));
    let large = json!({ "text": text, "content_type": "x".repeat(1000) });
    let take = || {
        let begun = Instant::now();
        for _ in 0..TURNS {
            scene.send("POST", "/v1/agents/a/turns", &large).ok();
        }
        begun.elapsed()
    };
    take();
    let alone = take();
    let deaf: Vec<_> = (0..8).map(|_| scene.events("/v1/events?since=0&bodies=1", "")).collect();
    // By now they have been given more than the system holds for them.
    let with_deaf = take();
    for _ in 0..2 {
        take();
    }
    assert_eq!(scene.figure("lazaret_event_streams"), 8.0);
    let (a, b) = (alone / TURNS, with_deaf / TURNS);
    station::say(&format!("a turn takes {a:?} alone and {b:?} while 8 streams are not read"));
    assert!(with_deaf < alone * 3 + Duration::from_secs(2), "{alone:?} alone, {with_deaf:?} with deaf readers");
    until("they are cut off", || (scene.figure("lazaret_event_streams") == 0.0).then_some(()));
    drop(deaf);
}

#[test]
fn there_are_only_so_many_streams() {
    let scene = Scene::new(&[]);
    let streams: Vec<_> = (0..32).map(|_| scene.events("/v1/events", "")).collect();
    scene.get("/v1/events").fault(429, "too-many");
    drop(streams);
    until("there is room again", || {
        let mut got = scene.connect();
        use std::io::{Read as _, Write as _};
        got.write_all(format!("{}\r\n", scene.head("GET /v1/events")).as_bytes()).unwrap();
        let mut head = [0; 12];
        got.read_exact(&mut head).unwrap();
        (&head == b"HTTP/1.1 200").then_some(())
    });
}

#[test]
fn questions_kills_and_budgets_are_told() {
    let scene = Scene::new(&[]);
    let rule =
        "@id(\"look\") @requireApproval(\"Look.\") permit(principal, action == Action::\"storage.set\", resource);";
    std::fs::write(scene.root().join("policy/asks.cedar"), rule).unwrap();
    scene.send("PATCH", "/v1/agents/a/budget", &json!({ "day.effects": "1" })).ok();
    let mut stream = scene.events("/v1/events", "");
    std::thread::scope(|scope| {
        let turn = scope.spawn(|| scene.turn("add 1"));
        let question = stream.until(|event| event.kind == "question").pop().unwrap();
        assert!(question.id.is_none() && question.data["agent"] == "a", "{question:?}");
        let id = question.data["question"].as_str().unwrap().to_owned();
        let shown = scene.get(&format!("/v1/approvals/{id}")).ok();
        let yes = json!({ "verdict": "approve", "digest": shown["digest"] });
        scene.send("POST", &format!("/v1/approvals/{id}/decision"), &yes).ok();
        turn.join().unwrap();
        let events = stream.until(is_turn(1));
        let find =
            |kind: &str| events.iter().find(|event| event.kind == kind).unwrap_or_else(|| panic!("{kind}: {events:?}"));
        assert_eq!(find("effect-asked").data["question"], id.as_str());
        assert_eq!(find("approval-answered").data["verdict"], "approved");
    });
    // The only effect of the day is used up, which the turn itself was told, and the stream too.
    let mut warned = scene.events("/v1/events?types=budget-warning&since=0", "");
    for percent in [80, 100] {
        let warning = warned.next().unwrap();
        let text = format!("agent:a has used {percent} % of its 1 effect per day: 1 effect so far");
        assert_eq!((&warning.data["text"], &warning.data["turn"]), (&text.into(), &1.into()), "{warning:?}");
    }
    let mut all = scene.events("/v1/events?types=budget-warning,switch-changed,caps-set,agent-created&since=0", "");
    scene.send("PUT", "/v1/kill/spend", &json!({ "reason": "a drill" })).ok();
    let told = all.until(|event| event.kind == "switch-changed");
    assert_eq!(told.last().unwrap().data["reason"], "a drill");
    assert!(kinds(&told).contains(&"agent-created") && kinds(&told).contains(&"caps-set"), "{told:?}");
}

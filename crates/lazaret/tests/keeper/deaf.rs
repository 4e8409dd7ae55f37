//! Clients that ask, and don't listen.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::scene::{Scene, timed};
use crate::station;

/// Each of them asks for as many answers as it may wait for: a thread for each answer would be all threads there are.
const DEAF: usize = 24;

/// A connection that has shown the token.
pub(super) fn known(scene: &Scene) -> UnixStream {
    let mut stream = scene.connect();
    let hello = format!("{{\"id\":0,\"hello\":{{\"versions\":[1],\"token\":\"{}\"}}}}\n", scene.token());
    stream.write_all(hello.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, &stream).read_line(&mut line).unwrap();
    assert!(line.contains("\"version\":1"), "{line}");
    stream
}

#[test]
fn who_does_not_listen_keeps_nobody_from_being_heard() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let asks = "{\"id\":1,\"ask\":{\"agent\":{\"list\":{\"all\":true}}}}\n".repeat(4_000);
    let deaf: Vec<UnixStream> = (0..DEAF).map(|_| known(&scene)).collect();
    for mut stream in &deaf {
        stream.set_nonblocking(true).unwrap();
        assert!(stream.write(asks.as_bytes()).unwrap() > 50_000);
    }
    // Until as much is answered as goes into the sockets.
    std::thread::sleep(Duration::from_secs(4));
    let (pong, took) = timed(|| scene.say(b"PING\n"));
    assert_eq!(pong, "PONG\n");
    station::say(&format!("{DEAF} clients that don't listen: another one was heard in {} ms", took.as_millis()));
    assert!(took < Duration::from_secs(3), "{took:?}");
    let (text, took) = timed(|| scene.done(&["kill", "all"]));
    assert!(text.contains("stopped: everything") && took < Duration::from_secs(3), "{took:?}: {text}");
    drop(deaf);
    scene.done(&["kill", "--lift", "all"]);
    assert!(scene.done(&["agent", "send", "a", "add 1"]).contains("total=1 count=1"));
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn who_is_slow_to_take_an_answer_is_heard_meanwhile() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    // A bundle with this component is larger than what a socket holds.
    let component = station::guests().join("js-counter.wasm");
    scene.done(&["agent", "create", "a", component.to_str().unwrap()]);
    scene.done(&["agent", "send", "a", "add 1"]);
    let mut stream = known(&scene);
    stream.write_all(b"{\"id\":1,\"ask\":{\"turns\":{\"export\":{\"turns\":[\"a\"]}}}}\n").unwrap();
    // The keeper writes, and gets stuck: half a second is enough, and too little only makes this test easier.
    std::thread::sleep(Duration::from_millis(500));
    let kill = "{\"switch\":\"all\",\"lift\":false,\"by\":\"ana\",\"reason\":\"enough\"}";
    stream.write_all(format!("{{\"id\":2,\"ask\":{{\"kill\":{kill}}}}}\n").as_bytes()).unwrap();
    let stopped = || scene.say(format!("STATUS {}\n", scene.token()).as_bytes()).contains(" stopped=all ");
    station::wait_for("the kill to be heard", stopped);
    // Both answers come, whole.
    let mut lines = BufReader::new(&stream).lines();
    let mut next = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    let bundle = next();
    assert!(bundle["id"] == 1 && bundle["ok"]["bundle"].as_str().unwrap().len() > 1 << 20);
    assert_eq!(next()["id"], 2);
    drop(stream);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn a_line_that_comes_byte_by_byte_has_its_time_and_no_more() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    let mut stream = known(&scene);
    let ((), took) = timed(|| {
        // Never silent for as long as the kernel's shortest wait.
        for _ in 0..60_000 {
            if stream.write_all(b" ").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(took > Duration::from_secs(29) && took < Duration::from_secs(50), "{took:?}");
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn who_asks_only_what_is_open_is_let_go_after_a_minute() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    let stream = scene.connect();
    let (mut lines, begun) = (BufReader::new(&stream).lines(), Instant::now());
    let last = loop {
        let _ = (&stream).write_all(b"PING\n");
        match lines.next() {
            Some(Ok(line)) if line == "PONG" => std::thread::sleep(Duration::from_millis(500)),
            other => break other,
        }
    };
    let (said, after) = (last.unwrap().unwrap(), begun.elapsed());
    assert!(said.starts_with("ERROR idle the token was not shown for too long"), "{said}");
    assert!(after > Duration::from_secs(59) && after < Duration::from_secs(75), "{after:?}");
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

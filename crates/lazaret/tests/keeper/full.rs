//! A keeper whose disk is full: it says so, nothing leaves, and it goes on when there is room.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lazaret_link::{AgentRequest, Client, Request, Token, socket};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::scene::{Scene, timed};
use crate::station;

/// Answers every request, and counts them.
fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        }
    });
    (origin, served)
}

#[test]
fn a_keeper_without_room_says_so_and_goes_on_when_there_is_some() {
    let scene = Scene::new();
    let (origin, served) = server();
    let component = station::guests().join("rust-counter.wasm");
    let (component, grant) = (component.to_str().unwrap(), format!("http:{origin}"));
    let create = ["agent", "create", "a", component, "--grant", &grant, "--wall-ms", "3000", "--fuel", "9000000000000"];
    scene.done(&create);
    // A write past the limit must be an error and not a signal.
    let mut serve = Command::new("sh");
    let lazaret = scene.command(&["serve", "--foreground"]);
    serve.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(lazaret.get_program()).args(lazaret.get_args());
    serve.envs(lazaret.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut keeper = scene.serve_with(&mut serve);
    let pid = Pid::from_child(&keeper.child);
    let mut client =
        Client::connect(&socket(&scene.root), &Token::read(&scene.root.join("ipc.token")).unwrap()).unwrap();
    // The first turn is stopped by the clock; by then the disk is full, and the other message waits behind it.
    for text in ["spin".to_owned(), format!("fetch {origin}/")] {
        let (agent, content_type) = ("a".parse().unwrap(), "text/plain".into());
        let post = AgentRequest::Post { agent, content_type, body: text.into_bytes().into() };
        client.ask(Request::Agent(post)).unwrap();
    }
    let status = || scene.say(format!("STATUS {}\n", scene.token()).as_bytes());
    assert!(status().contains(" troubled=0 commits=ok "), "{}", status());
    station::wait_for("the first turn to begin", || scene.done(&["agent", "list"]).contains(" awake "));
    let mut third = scene.command(&["agent", "send", "a", "add 3"]);
    let waiting = third.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    station::wait_for("the third message", || status().contains(" mail=3 "));
    let before = prlimit(Some(pid), Resource::Fsize, Rlimit { current: Some(1), maximum: None }).unwrap();
    station::wait_for("the status to say so", || status().contains(" troubled=1 commits=failing "));

    let said = scene.done(&["status"]);
    for part in ["disk       the last commit failed: ", "trouble    a can't take its turn: ", "tried again in "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let json = scene.json(&["status"]);
    assert!(json["troubled"] == 1 && json["troubles"][0]["agent"] == "a" && json["unwritten"].is_string(), "{json}");
    let shown = scene.done(&["agent", "show", "a"]);
    assert!(shown.contains("asleep") && shown.contains("takes no turn: "), "{shown}");
    let (refused, code) = scene.run(&["agent", "send", "a", "add 1"]);
    assert!(code != 0 && refused.contains("error: "), "{refused}");
    // Who had waited was told, and that the message is kept.
    let told = String::from_utf8_lossy(&waiting.wait_with_output().unwrap().stderr).into_owned();
    for part in ["can't take its turn now", "message 3 waits in its mailbox", "don't send it twice"] {
        assert!(told.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "{part}: {told}");
    }
    assert_eq!(served.load(Ordering::SeqCst), 0, "nothing leaves");
    assert_eq!(scene.say(b"HEALTH\n"), "OK\n");

    prlimit(Some(pid), Resource::Fsize, before).unwrap();
    // Who asks now need not wait for a pause to be over: only for those before, the first of whom takes three seconds.
    let (recalled, took) = timed(|| scene.done(&["agent", "send", "a", "recall"]));
    assert!(recalled.starts_with("3\n") && took < Duration::from_secs(10), "each message once: {took:?}: {recalled}");
    station::wait_for("the status to say so", || status().contains(" troubled=0 commits=ok "));
    assert_eq!(served.load(Ordering::SeqCst), 1, "once");
    assert!(!scene.done(&["status"]).contains("trouble"));
    drop(client);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    scene.done(&["journal", "verify"]);
    station::say(&format!("a keeper without room said: {}", refused.trim()));
}

//! As many requests that take long as a keeper answers at once, and what is answered beside them.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use lazaret_link::{AgentRequest, Client, LinkError, Reply, Request, Token, socket};

use super::deaf::known;
use super::scene::{Scene, timed};
use crate::station;

/// As many as are answered at once, and one connection's worth more.
const ASKED: u64 = 288;
const ANSWERED: u64 = 256;
const EACH: u64 = 32;

/// What `AGENTS` says of one.
fn line_of(scene: &Scene, agent: &str) -> String {
    let all = scene.say(format!("AGENTS {}\n", scene.token()).as_bytes());
    let begin = format!("{agent} ");
    all.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no {agent} in {all}")).to_owned()
}

#[test]
fn as_many_long_turns_as_there_is_room_for_hold_up_only_the_next_one() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    scene.agent("b");
    let mut spin = scene.spin("a");
    // Behind a turn without end: each of these is answered when its own is over.
    let clients: Vec<UnixStream> = (0..ASKED / EACH).map(|_| known(&scene)).collect();
    for (client, mut stream) in clients.iter().enumerate() {
        for id in 1..=EACH {
            let send = format!(
                "{{\"id\":{id},\"ask\":{{\"agent\":{{\"send\":{{\"agent\":\"a\",\"content_type\":\"text/plain\",\
                 \"body\":\"YWRkIDE=\"}}}}}}}}\n"
            );
            stream.write_all(send.as_bytes()).unwrap_or_else(|why| panic!("client {client}: {why}"));
        }
    }
    // The one that spins has room too.
    let full = format!("a awake turns=0 mail={}", ANSWERED - 1);
    station::wait_for("all room to be taken", || line_of(&scene, "a") == full);
    let (list, took) = timed(|| scene.done(&["agent", "list"]));
    assert!(list.contains("awake") && took < Duration::from_secs(20), "{took:?}: {list}");
    let token = Token::read(&scene.root.join("ipc.token")).unwrap();
    let mut client = Client::connect(&socket(&scene.root), &token).unwrap();
    let (agent, content_type, body) = ("b".parse().unwrap(), "text/plain".to_owned(), "add 1".into());
    let post = Request::Agent(AgentRequest::Post { agent, content_type, body });
    assert!(matches!(client.ask(post), Ok(Reply::Posted { .. })));
    station::wait_for("the other agent's mail", || line_of(&scene, "b") == "b asleep turns=1 mail=0");
    let (agent, content_type, body) = ("b".parse().unwrap(), "text/plain".to_owned(), "add 1".into());
    let send = Request::Agent(AgentRequest::Send { agent, content_type, body });
    let Err(LinkError::Fault(fault)) = client.ask(send) else { panic!("there was room") };
    let refused = "`agent.send` was not begun: the keeper has been answering 256 requests of its kind for 30 s";
    assert!(fault.code == "busy" && fault.exit == 7 && fault.message.starts_with(refused), "{fault:?}");
    assert!(fault.hint.is_some_and(|hint| hint.starts_with("ask again later")));
    // Those that found no room are told so; none of them left a message.
    assert_eq!(line_of(&scene, "a"), full);
    scene.done(&["trust", "revoke", "a"]);
    assert_eq!(spin.wait().unwrap().code(), Some(6));
    assert!(scene.done(&["agent", "send", "b", "add 1"]).contains("total=2 count=2"));
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    assert!(!keeper.log().contains("panicked"));
}

#[test]
fn orders_that_wait_for_a_long_turn_hold_up_no_looks_and_no_stops() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let mut spin = scene.spin("a");
    // More than there is room for, each of which waits until the loop is over.
    let clients: Vec<UnixStream> = (0..4).map(|_| known(&scene)).collect();
    for mut stream in &clients {
        for id in 1..=EACH {
            let quarantine = format!(
                "{{\"id\":{id},\"ask\":{{\"agent\":{{\"quarantine\":{{\"agent\":\"a\",\"by\":\"ana\",\"reason\":\"\"}}}}}}}}\n"
            );
            stream.write_all(quarantine.as_bytes()).unwrap();
        }
    }
    let status = || scene.say(format!("STATUS {}\n", scene.token()).as_bytes());
    // All that have room, and the loop.
    station::wait_for("the orders", || status().contains(" under_way=65 "));
    let (list, took) = timed(|| scene.done(&["agent", "list"]));
    assert!(list.contains("awake") && took < Duration::from_secs(20), "{took:?}: {list}");
    scene.done(&["trust", "revoke", "a"]);
    assert_eq!(spin.wait().unwrap().code(), Some(6));
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    assert!(!keeper.log().contains("panicked"));
}

#[test]
fn a_taken_name_is_said_while_its_agent_is_awake() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let mut spin = scene.spin("a");
    let component = station::guests().join("rust-counter.wasm");
    let ((said, code), took) = timed(|| scene.run(&["agent", "create", "a", component.to_str().unwrap()]));
    assert!(code == 1 && took < Duration::from_secs(20), "{took:?}: {said}");
    scene.done(&["kill", "all"]);
    assert_eq!(spin.wait().unwrap().code(), Some(6));
    scene.done(&["kill", "--lift"]);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

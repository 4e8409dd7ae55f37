//! A full disk under the supervisor. A child process lives under a file size limit, which it lifts later.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test touches the disk and the loopback, and one that can't go on has failed"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::Message;
use lazaret_gate::{AgentId, Budget, Grants};
use lazaret_host::{Host, Life, NewAgent, Pace, Settings, Supervisor};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CHILD: &str = "LAZARET_TEST_NO_ROOM";

fn message(text: &str) -> Message {
    Message::outside("text/plain", text.as_bytes().to_vec())
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn without_room_nothing_leaves_and_nothing_is_lost() {
    if let Some(root) = std::env::var_os(CHILD) {
        return child(Path::new(&root));
    }
    let dir = tempfile::tempdir().unwrap();
    // A write past the limit must be an error and not a signal.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, dir.path().join("root"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("child done"), "{text}");
}

/// Answers every request, and counts them.
fn serve() -> (String, Arc<AtomicUsize>) {
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

fn child(root: &Path) {
    let (origin, served) = serve();
    let settings = Settings { preset: "open".into(), ..Settings::default() };
    let host = Arc::new(Host::open_with(root, settings).unwrap());
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/build/rust-counter.wasm");
    let component = std::fs::read(component).expect("guests/build.sh makes the guests");
    let agent: AgentId = "a".parse().unwrap();
    let grants = Grants::basic().iter().cloned().chain([format!("http:{origin}").parse().unwrap()]).collect();
    let new = NewAgent {
        agent: agent.clone(),
        grants: Grants::new(grants),
        budget: Budget::default(),
        caps: Caps::default(),
    };
    host.create(new, &component).unwrap();
    for text in ["add 1", &format!("fetch {origin}/"), "add 2"] {
        host.post(&agent, message(text)).unwrap();
    }
    // What is acknowledged is in the tables: the disk is full from the next write on.
    host.store().agents().unwrap();
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(1), ..before }).unwrap();
    let pace = Pace { pause_ms: 20, pause_most_ms: 100, breaker: 3, ..Pace::default() };
    let supervisor = Supervisor::start(host.clone(), pace).unwrap();
    eventually("trouble", || supervisor.status().troubles.contains_key(&agent));
    // Far more attempts than the breaker allows to an agent that is itself to blame.
    std::thread::sleep(Duration::from_millis(1_000));
    assert!(supervisor.post(&agent, message("add 3")).is_err());
    let (why, again) = supervisor.status().troubles[&agent].clone();
    println!("status: {why}; again in {again} ms");
    assert_eq!(host.known(&agent).unwrap().turn, 0);
    assert_eq!((host.store().mailbox_len(&agent).unwrap(), served.load(Ordering::SeqCst)), (3, 0));
    setrlimit(Resource::Fsize, before).unwrap();
    eventually("recovery", || host.known(&agent).unwrap().turn == 3);
    eventually("rest", || supervisor.status().troubles.is_empty() && supervisor.status().awake == 0);
    assert_eq!((host.store().mailbox_len(&agent).unwrap(), served.load(Ordering::SeqCst)), (0, 1));
    assert_eq!(supervisor.lives()[&agent], Life::Asleep);
    host.store().verify_journal(|_| ()).unwrap();
    host.store().verify_state().unwrap();
    println!("child done");
}

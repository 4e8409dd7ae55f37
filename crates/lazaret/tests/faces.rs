//! Ordinary web requests of agents in JavaScript, Python, Rust and C, with keys in them that the agents never see.
//!
//! Compiling the Python one takes half a minute: `LAZARET_FACES=all` runs it too.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

#[allow(dead_code, reason = "shared by several tests")]
#[path = "support/station.rs"]
mod station;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{Ending, Message};
use lazaret_gate::{AgentId, Budget, Bytes, Grants};
use lazaret_host::{Host, NewAgent, Selection, Settings, Verdict};
use lazaret_store::vault::{Binding, Form, Holder, Name, Scope, Secret, Source, Vault};

const KEY: &str = "key-of-the-tracker-71c4";
const PASSWORD: &str = "ada's own passw0rd";

type Heads = Arc<Mutex<Vec<String>>>;

/// A tracker with three open tasks, that says back what it was told, and sends elsewhere whoever asks to be.
fn tracker() -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let heads = Heads::default();
    let kept = heads.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = kept.clone();
            std::thread::spawn(move || serve(stream, &kept));
        }
    });
    (origin, heads)
}

fn serve(mut stream: TcpStream, kept: &Heads) {
    loop {
        let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
        let body = loop {
            if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut some) {
                Ok(read) if read > 0 => bytes.extend_from_slice(&some[..read]),
                _ => return,
            }
        };
        let head = String::from_utf8_lossy(&bytes[..body]).into_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        while bytes.len() < body + length {
            let read = stream.read(&mut some).expect("the body");
            bytes.extend_from_slice(&some[..read]);
        }
        let auth = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("nobody");
        let answer = match head.split(' ').take(2).collect::<Vec<_>>().as_slice() {
            ["GET", "/v1/tasks?state=open"] => r#"{"tasks":[1,2,3]}"#.to_owned(),
            ["POST", _] => format!("{} by {auth}", String::from_utf8_lossy(&bytes[body..])),
            _ => format!("you are {auth}"),
        };
        let path = head.split(' ').nth(1).unwrap_or_default();
        let away = if path == "/v1/round" { Some(path) } else { path.strip_prefix("/v1/away?to=") };
        let status = away.map_or("200 OK".to_owned(), |to| format!("302 Found\r\nlocation: {to}"));
        kept.lock().expect("heads").push(head);
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", answer.len());
        if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
            return;
        }
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn keep(root: &Path, agents: &[AgentId], origin: &str) {
    let vault = Vault::init(root, &Source::KeyFile { path: root.with_file_name("key") }, || 0).unwrap();
    vault.set(&name("tracker-key"), &Scope::Global, &Secret::new(KEY.into())).unwrap();
    vault.set(&name("password"), &Scope::Global, &Secret::new(PASSWORD.into())).unwrap();
    for agent in agents {
        let bearer = Form::Header { name: "authorization".into(), prefix: "Bearer ".into() };
        let forms = [("tracker", "tracker-key", bearer), ("login", "password", Form::Basic { user: "ada".into() })];
        for (slot, secret, form) in forms {
            let (hosts, holder) = (vec![origin.parse().unwrap()], Holder::Agent(agent.clone()));
            let (methods, paths) = (Vec::new(), vec!["/v1".parse().unwrap()]);
            vault
                .bind(&Binding { holder, slot: name(slot), secret: name(secret), hosts, form, methods, paths })
                .unwrap();
        }
    }
}

fn replied(host: &Host, agent: &AgentId, text: &str) -> String {
    let body = Bytes(text.as_bytes().to_vec());
    let turn = host.send(agent, Message::outside("text/plain", body)).unwrap();
    match turn.record.ending {
        Ending::Replied(reply) => String::from_utf8(reply.body.0).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Redirects are followed by whoever asks for that, and a key stays with the origin that it was written for.
fn follow(host: &Host, agent: &AgentId, origin: &str, other: &str) {
    let said = replied(host, agent, &format!("follow {origin}/v1/away?to=/v1/me"));
    assert_eq!(said, format!("200 from {origin}/v1/me: you are Bearer [lazaret-secret:tracker-key]"));
    let said = replied(host, agent, &format!("follow {origin}/v1/away?to={other}/v1/me"));
    assert_eq!(said, format!("200 from {other}/v1/me: you are nobody"));
    let said = replied(host, agent, &format!("follow {origin}/v1/round"));
    assert_eq!(said, format!("too many redirects; the last one leads to {origin}/v1/round"));
}

#[test]
fn agents_of_other_languages_use_keys_by_ordinary_requests() {
    let (guests, dir) = (station::guests(), tempfile::tempdir().expect("a directory"));
    let ((origin, heads), (other, unasked)) = (tracker(), tracker());
    let root = dir.path().join("data");
    let all = std::env::var("LAZARET_FACES").is_ok_and(|which| which == "all");
    let names = if all { &["js-web", "rust-web", "c-web", "python-web"][..] } else { &["js-web", "rust-web", "c-web"] };
    let agents: Vec<AgentId> = names.iter().map(|name| name.parse().unwrap()).collect();
    keep(&root, &agents, &origin);
    let host = Host::open_with(&root, Settings { preset: "open".into(), ..Settings::default() }).unwrap();
    for agent in &agents {
        let grants = format!("storage http:{origin} http:{other} secret:tracker secret:login");
        let grants = Grants::new(grants.split(' ').map(|grant| grant.parse().unwrap()).collect());
        let component = std::fs::read(guests.join(format!("{agent}.wasm"))).unwrap();
        let (budget, caps) = (Budget { fuel: 20_000_000_000, ..Budget::default() }, Caps::default());
        host.create(NewAgent { agent: agent.clone(), grants, budget, caps, slots: Default::default() }, &component)
            .unwrap();

        let said = replied(&host, agent, &origin);
        let added = said.strip_prefix("3 open; added: 200; ").unwrap_or_else(|| panic!("{agent}: {said}"));
        assert!(
            added.contains("water the plants") && added.contains("by Bearer [lazaret-secret:tracker-key]"),
            "{said}"
        );
        if agent.as_str() != "js-web" {
            // The first letters are the user's name.
            assert!(said.ends_with("you are Basic YWRhO[lazaret-secret:password]=="), "{said}");
        }
        assert!(!said.contains(KEY) && !said.contains(PASSWORD), "{said}");
        let said = replied(&host, agent, &other);
        assert!(said.contains("secret-not-bound") && said.contains("it is not bound to that host"), "{agent}: {said}");
        if agent.as_str() == "rust-web" {
            follow(&host, agent, &origin, &other);
        }
        let verdicts = host.replay(&Selection { agent: agent.clone(), turns: None }, |_, _, _| {}).unwrap();
        assert_eq!(verdicts.len(), if agent.as_str() == "rust-web" { 5 } else { 2 });
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Match), "{agent}: {verdicts:?}");
    }
    let heads = heads.lock().unwrap().clone();
    let with_key = heads.iter().filter(|head| head.contains(&format!("authorization: Bearer {KEY}\r\n"))).count();
    let basic = "authorization: Basic YWRhOmFkYSdzIG93biBwYXNzdzByZA==\r\n";
    let with_password = heads.iter().filter(|head| head.contains(basic)).count();
    // Two with a key each, and seven more by the one that follows redirects; one with a password but for JavaScript.
    let expected = if all { (15, 3, 18) } else { (13, 2, 15) };
    assert_eq!((with_key, with_password, heads.len()), expected, "{heads:?}");
    let unasked = unasked.lock().unwrap().clone();
    assert!(unasked.len() == 1 && !unasked[0].contains("authorization"), "{unasked:?}");
    let left = if all { "" } else { "; python-web was not run, LAZARET_FACES=all runs it" };
    station::say(&format!(
        "faces: {} requests with keys, none of them seen by {}{left}",
        heads.len(),
        names.join(" and ")
    ));
}

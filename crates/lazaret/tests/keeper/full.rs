//! A keeper whose disk is full: it says so, nothing leaves, and it goes on when there is room.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lazaret_link::{AgentRequest, Client, Request, Token, socket};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::scene::{Running, Scene, timed};
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

/// A keeper whose writes fail while its files may have no more than a byte.
fn serve_under_a_limit(scene: &Scene) -> Running {
    // A write past the limit must be an error and not a signal.
    let mut serve = Command::new("sh");
    let lazaret = scene.command(&["serve", "--foreground"]);
    serve.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(lazaret.get_program()).args(lazaret.get_args());
    serve.envs(lazaret.get_envs().filter_map(|(name, value)| Some((name, value?))));
    scene.serve_with(&mut serve)
}

/// What a command says that can write no file either, and its exit code.
fn under_a_limit(scene: &Scene, args: &[&str]) -> (String, i32) {
    let lazaret = scene.command(args);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(lazaret.get_program());
    limited.args(lazaret.get_args()).envs(lazaret.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = limited.output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    (text, said.status.code().unwrap_or(-1))
}

/// Takes a keeper all room; returns what gives it back.
fn fill(keeper: &Running) -> impl Fn() + use<> {
    let pid = Pid::from_child(&keeper.child);
    let full = Rlimit { current: Some(1), maximum: None };
    let before = prlimit(Some(pid), Resource::Fsize, full).unwrap();
    move || {
        prlimit(Some(pid), Resource::Fsize, before).unwrap();
    }
}

/// How long a keeper has been on processors, in hundredths of a second.
fn ticks(keeper: &Running) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", keeper.child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn what_is_stopped_on_a_full_disk_stops_and_stays_so() {
    let scene = Scene::new();
    scene.agent("a");
    scene.agent("b");
    let mut keeper = serve_under_a_limit(&scene);
    let mut client =
        Client::connect(&socket(&scene.root), &Token::read(&scene.root.join("ipc.token")).unwrap()).unwrap();
    let agents = || scene.say(format!("AGENTS {}\n", scene.token()).as_bytes());
    for agent in ["a", "b"] {
        let (agent, content_type) = (agent.parse().unwrap(), "text/plain".to_owned());
        let post = AgentRequest::Post { agent, content_type, body: b"spin".to_vec().into() };
        client.ask(Request::Agent(post)).unwrap();
    }
    station::wait_for("both turns", || agents().matches(" awake ").count() == 2);
    // Their memories need room in files; they have it once they compute.
    let begun = ticks(&keeper);
    station::wait_for("both to loop", || ticks(&keeper) > begun + 50);
    let make_room = fill(&keeper);
    let unsaved = |args: &[&str], file: &str| {
        let (said, code) = under_a_limit(&scene, args);
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(code == 1 && words.contains("this is in force in the keeper for as long as it runs"), "{said}");
        assert!(words.contains(&format!("`{file}` can't be written: ")), "{said}");
    };
    unsaved(&["trust", "revoke", "a", "--reason", "enough"], "revocations.json");
    assert!(agents().contains("a revoked ") && agents().contains("b awake "), "{}", agents());
    unsaved(&["kill", "all", "--reason", "enough"], "switches.json");
    let status = || scene.say(format!("STATUS {}\n", scene.token()).as_bytes());
    station::wait_for("the loops' end", || !agents().contains(" awake ") && status().contains(" stopped=all "));
    assert!(!scene.root.join("switches.json").exists() && !scene.root.join("revocations.json").exists());
    // Once more is no more than that.
    assert_eq!(under_a_limit(&scene, &["kill", "all"]).1, 1);
    assert_eq!(under_a_limit(&scene, &["trust", "revoke", "a"]).1, 1);
    // Whoever looks elsewhere is told the same.
    let said = scene.done(&["status"]);
    assert!(said.contains("ana has stopped everything") && said.contains("1 revoked: "), "{said}");
    let said = scene.done(&["trust", "list"]);
    let a = said.lines().find(|line| line.starts_with("a ")).unwrap();
    assert!(a.contains("0.00") && a.contains("in force in the keeper, which can't write `revocations.json`"), "{said}");
    let get = |path: &str| {
        let answer = scene.get(path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        answer
    };
    assert!(get("/v1/kill").contains("\"all\":{\"by\":\"ana\""), "{}", get("/v1/kill"));
    assert!(get("/v1/trust").contains("\"reason\":\"enough\""), "{}", get("/v1/trust"));
    let figures = get("/metrics");
    let figure = |line: &str| assert!(figures.contains(line), "{line}: {figures}");
    figure("lazaret_killed{switch=\"all\"} 1");
    figure("lazaret_commits_failing 1");
    assert!(get("/v1/status").contains("\"held\":[\"a\"]"), "{}", get("/v1/status"));
    // Somebody else's change of a file takes nothing of it back.
    let (_, code) = scene.run(&["kill", "spend"]);
    assert_eq!(code, 1, "it is in force and can't be put on record");
    assert!(status().contains(" stopped=all ") && agents().contains("a revoked "), "{} {}", status(), agents());

    make_room();
    let saved = |file: &str| std::fs::read_to_string(scene.root.join(file)).is_ok_and(|text| text.contains("enough"));
    station::wait_for("the files", || saved("switches.json") && saved("revocations.json"));
    scene.done(&["kill", "--lift"]);
    assert!(status().contains(" stopped=none "), "{}", status());
    // Nothing of its turn could be recorded, so its message waits and is taken up again.
    station::wait_for("the other to go on", || agents().contains("b awake turns=0 mail=1"));
    assert!(agents().contains("a revoked "));
    scene.done(&["trust", "revoke", "b"]);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    let told = scene.done(&["journal", "tail", "-n", "20"]);
    assert_eq!(told.matches("a revoked by ana").count(), 1, "{told}");
    assert_eq!(told.matches("kill switch `all` thrown by ana").count(), 1, "{told}");
    scene.done(&["trust", "restore", "a"]);
    scene.done(&["journal", "verify"]);
}

#[test]
fn what_could_not_be_written_can_be_taken_back() {
    let scene = Scene::new();
    scene.agent("a");
    let mut keeper = serve_under_a_limit(&scene);
    let status = || scene.say(format!("STATUS {}\n", scene.token()).as_bytes());
    let agents = || scene.say(format!("AGENTS {}\n", scene.token()).as_bytes());
    let _make_room = fill(&keeper);
    // Over HTTP, where nobody is told to ask again for what is in force.
    for line in ["PUT /v1/kill/spend", "PUT /v1/agents/a/revocation"] {
        let said = scene.http(line, "{\"by\":\"ana\",\"reason\":\"enough\"}");
        assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("\"code\":\"unsaved\""), "{said}");
        assert!(!said.to_lowercase().contains("retry-after"), "{said}");
    }
    assert!(status().contains(" stopped=spend ") && agents().contains("a revoked "), "{} {}", status(), agents());
    // By a file that somebody else can write, which the keeper reads.
    let (said, _) = scene.run(&["kill", "--lift"]);
    assert!(said.contains("lifted") && status().contains(" stopped=none "), "{said} {}", status());
    let (said, _) = scene.run(&["trust", "restore", "a"]);
    assert!(said.contains("restored: a"), "{said}");
    station::wait_for("the restoration", || agents().contains("a new ") || agents().contains("a asleep "));
    // And it doesn't come back.
    std::thread::sleep(Duration::from_secs(2));
    assert!(status().contains(" stopped=none ") && !agents().contains("revoked"), "{} {}", status(), agents());
    keeper.signal("KILL");
    keeper.end();
}

#[test]
fn a_keeper_without_room_says_so_and_goes_on_when_there_is_some() {
    let scene = Scene::new();
    let (origin, served) = server();
    let component = station::guests().join("rust-counter.wasm");
    let (component, grant) = (component.to_str().unwrap(), format!("http:{origin}"));
    let create = ["agent", "create", "a", component, "--grant", &grant, "--wall-ms", "3000", "--fuel", "9000000000000"];
    scene.done(&create);
    let mut keeper = serve_under_a_limit(&scene);
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
    let make_room = fill(&keeper);
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

    make_room();
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

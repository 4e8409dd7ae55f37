//! Starting, stopping, and who may ask.

use std::fs;
use std::io::{BufRead as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Stdio;
use std::time::Duration;

use lazaret_link::{AgentRequest, Client, Request, TOKEN, Token, TurnsRequest, socket};

use super::scene::{Scene, timed};
use crate::station;

fn mode(path: std::path::PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn the_socket_is_closed_to_others_and_the_keeper_starts_once() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    assert_eq!(mode(scene.root.join("run")), 0o700);
    assert_eq!(mode(scene.root.join("run/keeper.sock")), 0o600);
    assert_eq!(mode(scene.root.join("ipc.token")), 0o600);
    let (text, code) = scene.run(&["serve"]);
    assert_eq!(code, 7, "{text}");
    let who = format!("as process {}", keeper.child.id());
    assert!(text.contains("a keeper runs on this data root") && text.contains(&who), "{text}");
    scene.agent("a");
    assert!(scene.done(&["agent", "send", "a", "add 2"]).contains("total=2 count=1"));
    assert!(scene.done(&["stop"]).contains("stopped the keeper"));
    assert_eq!(keeper.end(), Some(0));
    assert!(!scene.root.join("run/keeper.sock").exists());
    let log = fs::metadata(scene.root.join("lazaret.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "the data root was closed in order");
    let (text, code) = scene.run(&["stop"]);
    assert_eq!((code, text.contains("no keeper runs on this data root")), (1, true), "{text}");
    // Without a keeper, the same command does it itself.
    assert!(scene.done(&["agent", "send", "a", "add 3"]).contains("total=5 count=2"));
    assert!(!keeper.log().contains(&scene.token()), "the token is in the log");
}

#[test]
fn a_killed_keeper_leaves_nothing_in_the_way() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    keeper.child.kill().unwrap();
    keeper.end();
    assert!(scene.root.join("run/keeper.sock").exists(), "it had no time to tidy up");
    assert!(scene.done(&["agent", "send", "a", "add 1"]).contains("total=1 count=1"), "embedded");
    let mut keeper = scene.serve();
    assert!(scene.done(&["agent", "send", "a", "add 1"]).contains("total=2 count=2"), "asked");
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    scene.done(&["journal", "verify"]);
}

#[test]
fn a_path_too_long_for_a_socket_is_no_hindrance() {
    let scene = Scene::at(&["a-folder-with-a-long-name"; 8].join("/"));
    fs::create_dir_all(scene.root.parent().unwrap()).unwrap();
    let mut keeper = scene.serve();
    assert!(scene.root.join("run/keeper.sock").as_os_str().len() > 200);
    scene.agent("a");
    assert_eq!(scene.say(b"PING\n"), "PONG\n");
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn a_token_from_the_environment_is_the_token() {
    let scene = Scene::new();
    let token = "a-token-of-my-own-0123456789";
    let mut keeper = scene.serve_with(scene.command(&["serve"]).env("LAZARET_IPC_TOKEN", token));
    assert!(!scene.root.join("ipc.token").exists());
    assert!(scene.say(format!("STATUS {token}\n").as_bytes()).starts_with("OK agents=0 "));
    let list = scene.command(&["journal", "checkpoint"]).env("LAZARET_IPC_TOKEN", token).output().unwrap();
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    let other = "another-token-0123456789abc";
    let wrong = scene.command(&["journal", "checkpoint"]).env("LAZARET_IPC_TOKEN", other).output().unwrap();
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && text.contains("the token is wrong") && !text.contains(other), "{text}");
    // What is on disk can be looked at all the same.
    let status = scene.command(&["status"]).env("LAZARET_IPC_TOKEN", other).output().unwrap();
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        status.status.success() && text.contains("keeper     it can't be asked: ") && text.contains("questions  none"),
        "{text}"
    );
    let stop = scene.command(&["stop"]).env("LAZARET_IPC_TOKEN", token).output().unwrap();
    assert!(stop.status.success());
    assert_eq!(keeper.end(), Some(0));
    assert!(!keeper.log().contains(token) && !keeper.log().contains(other), "{}", keeper.log());
    let short = scene.command(&["serve"]).env("LAZARET_IPC_TOKEN", "short").output().unwrap();
    assert_eq!(short.status.code(), Some(3), "{}", String::from_utf8_lossy(&short.stderr));
}

#[test]
fn somebody_else_is_turned_away_even_if_the_door_stands_open() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        station::say("SKIPPED: only root can play somebody else");
        return;
    }
    // The folders keep others out; open them, and who asks still counts.
    for (path, mode) in [(scene.dir().to_owned(), 0o711), (scene.root.clone(), 0o711), (scene.root.join("run"), 0o711)]
    {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let socket = scene.root.join("run/keeper.sock");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let ask = "import os, socket, sys; os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534); \
               s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(999).decode())";
    let mut other = std::process::Command::new("python3");
    other.args(["-c", ask]).arg(&socket);
    let said = station::done(&mut other);
    assert!(said.contains("\"code\":\"not-you\"") && !said.contains("PONG"), "{said}");
    fs::set_permissions(&scene.root, fs::Permissions::from_mode(0o700)).unwrap();
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn a_folder_that_others_can_enter_is_not_used() {
    let scene = Scene::new();
    scene.agent("a");
    for mode in [0o777, 0o1777, 0o702] {
        fs::set_permissions(&scene.root, fs::Permissions::from_mode(mode)).unwrap();
        let (text, code) = scene.run(&["serve"]);
        assert_eq!((code, text.contains(&format!("can be opened by others (mode {mode:04o})"))), (1, true), "{text}");
        assert!(!scene.root.join("run").exists(), "nothing is made there");
    }
    fs::set_permissions(&scene.root, fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(scene.root.join("run")).unwrap();
    fs::set_permissions(scene.root.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    let (text, code) = scene.run(&["serve"]);
    assert_eq!((code, text.contains("closed to others")), (1, true), "{text}");
}

#[test]
fn stopping_waits_for_what_is_under_way_and_no_longer_than_it_is_told() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let turn = scene.spin("a");
    let (text, took) = timed(|| scene.done(&["stop", "--within", "1s"]));
    assert!(text.contains("waiting for 1 request to end") && text.contains("stopped the keeper"), "{text}");
    assert!(took >= Duration::from_millis(900), "{took:?}");
    assert_eq!(keeper.end(), Some(0));
    let cut = turn.wait_with_output().unwrap();
    assert_eq!(cut.status.code(), Some(1), "{}", String::from_utf8_lossy(&cut.stderr));
    assert!(keeper.log().contains("cut off"), "{}", keeper.log());
    assert_eq!(scene.json(&["agent", "show", "a"])["turn"], 0, "nothing of it is kept");
}

#[test]
fn the_first_signal_drains_and_the_second_does_not() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let mut turn = scene.spin("a");
    keeper.signal("TERM");
    station::wait_for("the keeper to stop taking work", || scene.say(b"HEALTH\n") == "STOPPING\n");
    assert_eq!(scene.say(b"PING\n"), "PONG\n");
    let (text, code) = scene.run(&["agent", "send", "a", "add 1"]);
    assert_eq!((code, text.contains("the keeper is stopping and takes no more work")), (7, true), "{text}");
    assert!(turn.try_wait().unwrap().is_none(), "what was under way goes on");
    let (code, took) = timed(|| {
        keeper.signal("TERM");
        keeper.end()
    });
    assert!(code == Some(0) && took < Duration::from_secs(5), "{code:?} {took:?}");
    turn.wait().unwrap();
    // An answer that is nearly there is waited for.
    let mut keeper = scene.serve();
    let question =
        "@id(\"look\") @requireApproval(\"x\") permit(principal, action == Action::\"storage.set\", resource);";
    fs::write(scene.root.join("policy/asks.cedar"), question).unwrap();
    let asked = scene.command(&["agent", "send", "a", "add 1"]).stdout(Stdio::piped()).spawn().unwrap();
    let waiting = || scene.json(&["approvals", "list"]).get(0).map(|it| it["id"].as_str().unwrap().to_owned());
    station::wait_for("a question", || waiting().is_some());
    keeper.signal("INT");
    station::wait_for("the keeper to stop taking work", || scene.say(b"HEALTH\n") == "STOPPING\n");
    scene.done(&["approvals", "approve", &waiting().unwrap()]);
    let said = asked.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("total=1 count=1"), "{said:?}");
    assert_eq!(keeper.end(), Some(0));
    scene.done(&["journal", "verify"]);
}

#[test]
fn a_keeper_that_cant_be_reached_begins_nothing() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let token = Token::read(&scene.root.join(TOKEN)).unwrap();
    let mut client = Client::connect(&socket(&scene.root), &token).unwrap();
    let (agent, content_type) = ("a".parse().unwrap(), "text/plain".to_owned());
    let post = AgentRequest::Post { agent, content_type, body: b"spin".to_vec().into() };
    client.ask(Request::Agent(post)).unwrap();
    drop(client);
    scene.done(&["stop", "--within", "0s"]);
    assert_eq!(keeper.end(), Some(0));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for _ in 0..5 {
        let (text, code) = scene.run(&["serve", "--http", &address]);
        assert!(code == 1 && text.contains("the HTTP interface can't be had"), "{text}");
        assert!(!text.contains("cut off") && !text.contains("the keeper is up"), "{text}");
        assert!(!scene.root.join("run/keeper.sock").exists() && !scene.root.join("run/http").exists());
    }
}

#[test]
fn a_turn_that_answers_mail_and_is_cut_off_is_told_of() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let token = Token::read(&scene.root.join(TOKEN)).unwrap();
    let mut client = Client::connect(&socket(&scene.root), &token).unwrap();
    let (agent, content_type) = ("a".parse().unwrap(), "text/plain".to_owned());
    let post = AgentRequest::Post { agent, content_type, body: b"spin".to_vec().into() };
    client.ask(Request::Agent(post)).unwrap();
    drop(client);
    let agents = || scene.say(format!("AGENTS {}\n", scene.token()).as_bytes());
    station::wait_for("the loop", || agents().contains("a awake "));
    keeper.signal("TERM");
    station::wait_for("the keeper to stop taking work", || scene.say(b"HEALTH\n") == "STOPPING\n");
    let (code, took) = timed(|| {
        keeper.signal("TERM");
        keeper.end()
    });
    assert!(code == Some(0) && took < Duration::from_secs(2), "{code:?} {took:?}");
    assert!(keeper.log().contains("\"cut\":1"), "{}", keeper.log());
}

/// A keeper that answers everything in the same way.
fn answers(scene: &Scene, fault: &'static str) -> std::thread::JoinHandle<String> {
    let listener = std::os::unix::net::UnixListener::bind(socket(&scene.root)).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = std::io::BufReader::new(&stream).lines();
        lines.next().unwrap().unwrap();
        (&stream).write_all(b"{\"id\":0,\"ok\":{\"hello\":{\"version\":1,\"program\":\"x\"}}}\n").unwrap();
        let asked = lines.next().unwrap().unwrap();
        (&stream).write_all(fault.as_bytes()).unwrap();
        asked
    })
}

#[test]
fn what_goes_on_after_a_stop_is_said() {
    let acting = "{\"id\":1,\"error\":{\"code\":\"still-acting\",\"message\":\"the stop is in force, but `a` acts\",\"exit\":1}}\n";
    for args in [&["kill", "all"][..], &["trust", "revoke", "a"]] {
        let scene = Scene::new();
        let mut keeper = scene.serve();
        scene.agent("a");
        scene.done(&["stop"]);
        assert_eq!(keeper.end(), Some(0));
        let asked = answers(&scene, acting);
        let (said, code) = scene.run(args);
        assert_eq!(asked.join().unwrap(), "{\"id\":1,\"ask\":\"record\"}");
        assert!(code == 1 && said.contains("the stop is in force, but `a` acts"), "{args:?}: {said}");
        assert!(!said.contains("can't be put on record") && !said.contains("obeys and records"), "{args:?}: {said}");
    }
}

#[test]
fn who_has_the_wrong_token_can_stop_agents_all_the_same() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let mut turn = scene.spin("a");
    let mut revoke = scene.command(&["trust", "revoke", "a"]);
    let said = revoke.env("LAZARET_IPC_TOKEN", "another-token-0123456789abc").output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && text.contains("revoked: a;"), "{text}");
    assert!(text.contains("another process has the data root open: it obeys and records this"), "{text}");
    assert_eq!(turn.wait().unwrap().code(), Some(6));
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn logs_are_json_lines_and_what_others_wrote_is_made_visible_in_them() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    let token = Token::read(&scene.root.join(TOKEN)).unwrap();
    let mut client = Client::connect(&socket(&scene.root), &token).unwrap();
    let turns = "nobody\u{1b}[2J\u{202e}\u{7}\nERROR all is lost".to_owned();
    let fault = client.ask(Request::Turns(TurnsRequest::Replay { turns })).unwrap_err();
    assert!(fault.to_string().contains("nobody"), "{fault}");
    drop(client);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    let log = keeper.log();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = lines.iter().find(|line| line["message"] == "not done").unwrap_or_else(|| panic!("{log}"));
    let why = told["why"].as_str().unwrap();
    assert!(why.contains("nobody") && !why.contains(['\u{1b}', '\u{202e}', '\u{7}', '\n']), "{told}");
    assert!(lines.iter().all(|line| line["level"] != "ERROR"), "{log}");
}

#[test]
fn a_data_root_of_a_later_release_is_left_alone() {
    let scene = Scene::new();
    scene.agent("a");
    let conn = rusqlite::Connection::open(scene.root.join("lazaret.db")).unwrap();
    conn.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(conn);
    let (text, code) = scene.run(&["serve"]);
    assert_eq!((code, text.contains("has format 99")), (1, true), "{text}");
}

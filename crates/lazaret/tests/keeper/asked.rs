//! What is asked of a keeper, by programs and by people.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use lazaret_gate::ledger::Switch;
use lazaret_gate::record::Ending;
use lazaret_link::{AgentRequest, Client, Reply, Request, Token, socket};

use super::scene::Scene;
use crate::station;

#[test]
fn plain_commands_do_what_they_say() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let token = scene.token();
    assert_eq!(scene.say(b"PING\nHEALTH\n"), "PONG\nOK\n");
    let status = scene.say(format!("STATUS {token}\n").as_bytes());
    assert!(status.starts_with("OK agents=1 in_doubt=0 mail=0 under_way=0 journal="), "{status}");
    assert_eq!(scene.say(format!("AGENTS {token}\n").as_bytes()), "OK 1\na new turns=0 mail=0\n");
    assert_eq!(scene.say(format!("KILL all {token}\n").as_bytes()), "OK stopped=all\n");
    let (text, code) = scene.run(&["agent", "send", "a", "add 1"]);
    assert_eq!((code, text.contains("the local socket has stopped everything")), (6, true), "{text}");
    scene.done(&["kill", "--lift"]);
    assert!(scene.done(&["agent", "send", "a", "add 1"]).contains("total=1"));
    assert_eq!(scene.say(format!("REVOKE a {token}\n").as_bytes()), "OK\n");
    let (text, code) = scene.run(&["agent", "send", "a", "add 1"]);
    assert_eq!((code, text.contains("revoked")), (10, true), "{text}");
    assert_eq!(scene.say(format!("AGENTS {token}\n").as_bytes()), "OK 1\na revoked turns=1 mail=0\n");
    scene.done(&["trust", "restore", "a"]);
    assert!(scene.done(&["agent", "send", "a", "add 1"]).contains("total=2"));
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    let tail = scene.done(&["journal", "tail"]);
    assert!(tail.contains("kill switch `all` thrown by the local socket"), "{tail}");
}

#[test]
fn one_connection_carries_many_calls_and_answers_find_theirs() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    scene.agent("b");
    let mut stream = scene.connect();
    let hello = format!("{{\"id\":0,\"hello\":{{\"versions\":[1],\"token\":\"{}\"}}}}\n", scene.token());
    stream.write_all(hello.as_bytes()).unwrap();
    for id in 1..=40 {
        let agent = if id % 2 == 0 { "a" } else { "b" };
        let send = format!(
            "{{\"id\":{id},\"ask\":{{\"agent\":{{\"send\":{{\"agent\":\"{agent}\",\"content_type\":\"text/plain\",\"body\":\
             \"YWRkIDE=\"}}}}}}}}\n"
        );
        stream.write_all(send.as_bytes()).unwrap();
    }
    let mut ids: Vec<u64> = Vec::new();
    for line in BufReader::new(stream).lines().take(41) {
        let value: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(value["error"].is_null(), "{value}");
        ids.push(value["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..=40).collect::<Vec<_>>());
    assert!(scene.done(&["agent", "send", "a", "recall"]).starts_with("1,1,1,"));
    assert_eq!(scene.json(&["agent", "show", "b"])["turn"], 20);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    assert!(scene.done(&["replay", "verify", "a", "b"]).contains("0 MISMATCH, 0 UNVERIFIABLE"));
}

#[test]
fn a_long_turn_keeps_nobody_from_asking_on_the_same_connection() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let stream = scene.connect();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let ask = |line: &str| (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut next = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    let send = |id: u32, body: &str| {
        let send = format!("{{\"agent\":\"a\",\"content_type\":\"text/plain\",\"body\":\"{body}\"}}");
        format!("{{\"id\":{id},\"ask\":{{\"agent\":{{\"send\":{send}}}}}}}")
    };
    ask(&format!("{{\"id\":0,\"hello\":{{\"versions\":[1],\"token\":\"{}\"}}}}", scene.token()));
    assert_eq!(next()["id"], 0);
    // Twice: whoever reads on while the first turn runs has to be relieved in the same way.
    for round in 0..2_u32 {
        let id = |nth: u32| 10 * round + nth;
        ask(&send(id(1), "c3Bpbg=="));
        station::wait_for("the turn to begin", || {
            scene.say(format!("STATUS {}\n", scene.token()).as_bytes()).contains(" under_way=1 ")
        });
        ask(&format!("{{\"id\":{},\"ask\":\"status\"}}", id(2)));
        let status = next();
        assert_eq!((&status["id"], &status["ok"]["status"]["under_way"]), (&id(2).into(), &1.into()), "{status}");
        let kill = "{\"switch\":\"all\",\"lift\":false,\"by\":\"ana\",\"reason\":\"enough\"}";
        ask(&format!("{{\"id\":{},\"ask\":{{\"kill\":{kill}}}}}", id(3)));
        let (one, other) = (next(), next());
        let (kill, turn) = if one["id"] == id(3) { (one, other) } else { (other, one) };
        assert_eq!((&kill["id"], &turn["id"]), (&id(3).into(), &id(1).into()), "{kill} {turn}");
        assert!(kill["ok"]["switches"]["all"].is_object(), "{kill}");
        assert!(turn.to_string().contains("killed"), "{turn}");
        scene.done(&["kill", "--lift"]);
        ask(&send(id(4), "YWRkIDE="));
        assert_eq!(next()["id"], id(4));
    }
    drop(stream);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn a_client_asks_what_the_command_does() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let token = Token::read(&scene.root.join("ipc.token")).unwrap();
    let mut client = Client::connect(&socket(&scene.root), &token).unwrap();
    let Reply::Agents(agents) = client.ask(Request::Agent(AgentRequest::List { all: true })).unwrap() else { panic!() };
    assert_eq!(agents.len(), 1);
    let kill = lazaret_link::KillRequest { switch: Switch::Spend, lift: false, by: "ana".into(), reason: "x".into() };
    let Reply::Switches(switches) = client.ask(Request::Kill(kill)).unwrap() else { panic!() };
    assert!(switches.spend.is_some() && switches.all.is_none());
    let agent = "nobody".parse().unwrap();
    let fault = client.ask(Request::Agent(AgentRequest::Show { agent })).unwrap_err();
    assert!(fault.to_string().contains("there is no agent `nobody`; `lazaret agent list`"), "{fault}");
    let post = AgentRequest::Post { agent: "a".parse().unwrap(), content_type: "t".into(), body: "add 7".into() };
    assert_eq!(client.ask(Request::Agent(post)).unwrap(), Reply::Posted { message: 1 });
    // What is asked later is answered later.
    let send = AgentRequest::Send { agent: "a".parse().unwrap(), content_type: "t".into(), body: "recall".into() };
    let Reply::Taken(taken) = client.ask(Request::Agent(send)).unwrap() else { panic!() };
    assert_eq!(taken.record.turn, 2);
    let Ending::Replied(reply) = taken.record.ending else { panic!() };
    assert_eq!(reply.body, "7".into());
    drop(client);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

/// Plays somebody at a terminal who types an answer when asked.
const TYPIST: &str = r#"
import os, pty, sys
asked, answer = sys.argv[1].encode(), sys.argv[2].encode()
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[3], sys.argv[3:])
seen = b''
typed = False
while True:
    try:
        data = os.read(fd, 4096)
    except OSError:
        break
    if not data:
        break
    seen += data
    if not typed and asked in seen:
        os.write(fd, answer + b'\n')
        typed = True
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// What a command says on a terminal where that is asked and so answered, and its exit code.
fn typed(scene: &Scene, (asked, answer): (&str, &str), args: &[&str]) -> (String, Option<i32>) {
    let play = Command::new("python3")
        .args(["-c", TYPIST, asked, answer, env!("CARGO_BIN_EXE_lazaret"), "--data-dir"])
        .arg(&scene.root)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (String::from_utf8_lossy(&play.stdout).into_owned(), play.status.code())
}

#[test]
fn a_schedule_is_removed_when_somebody_says_yes_to_it() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    scene.done(&["schedule", "add", "a", "often", "--every", "1d", "add 1"]);
    let remove = ["schedule", "rm", "a", "often"];
    for answer in ["n", "", "Y?"] {
        let (text, code) = typed(&scene, ("[n]o > ", answer), &remove);
        assert!(text.contains("often of a, every 1d: add 1") && text.contains("nothing was removed"), "{text}");
        assert_eq!((code, scene.json(&["schedule", "list"]).as_array().unwrap().len()), (Some(1), 1), "{text}");
    }
    let (text, code) = typed(&scene, ("[n]o > ", "y"), &remove);
    // The first word has a colour here.
    assert!(code == Some(0) && text.contains("removed") && text.contains(" often of a\r"), "{text}");
    assert_eq!(scene.json(&["schedule", "list"]).as_array().unwrap().len(), 0);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn an_agent_that_has_schedules_is_removed_when_somebody_says_yes_to_that() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    scene.agent("b");
    for (agent, schedule) in [("a", "often"), ("a", "seldom"), ("b", "often")] {
        scene.done(&["schedule", "add", agent, schedule, "--every", "1d", "add 1"]);
    }
    let (text, code) = scene.run(&["agent", "rm", "a"]);
    assert!(code == 1 && text.contains("removing agent `a` with its 2 schedules has to be confirmed"), "{text}");
    let (text, code) = typed(&scene, ("[n]o > ", "n"), &["agent", "rm", "a"]);
    assert!(
        code == Some(1) && text.contains("often of a, every 1d: add 1\r\nseldom of a, every 1d: add 1\r\n"),
        "{text}"
    );
    assert!(text.contains("Remove them? [y]es, [n]o > ") && text.contains("nothing was removed"), "{text}");
    let (text, code) = typed(&scene, ("[n]o > ", "y"), &["agent", "rm", "a"]);
    assert!(code == Some(0) && text.contains("removed"), "{text}");
    // Over HTTP the name is said twice.
    let unconfirmed = scene.http("DELETE /v1/agents/b?confirm=a", "");
    assert!(unconfirmed.starts_with("HTTP/1.1 422 ") && unconfirmed.contains("unconfirmed"), "{unconfirmed}");
    let gone = scene.http("DELETE /v1/agents/b?confirm=b", "");
    assert!(gone.starts_with("HTTP/1.1 204 "), "{gone}");
    assert_eq!(scene.json(&["agent", "list"]).as_array().unwrap().len(), 0);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn whoever_sits_at_the_terminal_is_asked_what_the_keeper_asks() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let rule =
        "@id(\"look\") @requireApproval(\"Look.\") permit(principal, action == Action::\"storage.set\", resource);";
    std::fs::write(scene.root.join("policy/asks.cedar"), rule).unwrap();
    let (text, code) = typed(&scene, ("[n]o > ", "y"), &["agent", "send", "a", "add 5"]);
    assert!(code == Some(0) && text.contains("effect      storage.set"), "{text}");
    assert!(text.contains("May it? [y]es, once; [n]o") && text.contains("total=5 count=1"), "{text}");
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    station::say("a question of the keeper was answered on the client's terminal");
}

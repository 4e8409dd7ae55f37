//! A keeper is killed while eight clients ask it for work: at random moments, and at its first flush, its second, and so on, some of
//! which only fail. Whatever it acknowledged has exactly one turn, nothing that left the host was done twice, the journal verifies
//! and every turn replays to the same bytes. `LAZARET_KILLS` says how often, `LAZARET_FLUSHES` up to which flush, `LAZARET_SEED` which
//! moments.

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
#[path = "../faults/facts.rs"]
mod facts;
#[path = "../faults/server.rs"]
mod server;
#[allow(dead_code, reason = "shared by several tests")]
#[path = "../support/station.rs"]
mod station;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use facts::Facts;
use lazaret_gate::{Bytes, Effect};
use lazaret_link::{AgentRequest, Client, LinkError, Reply, Request, TOKEN, Token, socket};
use server::Server;
use station::{Dice, done, lazaret, number, say};

const AGENTS: u64 = 6;
const CLIENTS: u64 = 8;
/// How long a keeper may take to say that it is there, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(60);
const TYPE: &str = "text/plain; charset=utf-8";

struct World {
    _dir: tempfile::TempDir,
    root: PathBuf,
    server: Server,
}

/// What was asked of an agent, and whether the keeper said that it has it.
struct Asked {
    agent: String,
    text: String,
    acknowledged: bool,
}

/// What the clients did.
#[derive(Default)]
struct Log {
    asked: Mutex<Vec<Asked>>,
    next: AtomicU64,
    over: AtomicBool,
    refused: Mutex<BTreeMap<String, u64>>,
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn name(number: u64) -> String {
    format!("agent-{number}")
}

const SERVE: [&str; 6] = ["--preset", "open", "serve", "--foreground", "--http", "off"];

fn keeper(root: &Path) -> Child {
    let mut command = lazaret(root);
    command.args(SERVE).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a keeper starts")
}

/// One to whose so many-eth flush something happens: strace has it die there, or says that it failed.
fn struck_keeper(root: &Path, strike: &str, nth: u64) -> Child {
    let inject = format!("inject=fdatasync:{strike}:when={nth}");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", &inject]);
    strace.arg(env!("CARGO_BIN_EXE_lazaret")).args(SERVE).env("LAZARET_DATA_DIR", root);
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("strace starts")
}

fn connect(root: &Path) -> Result<Client, LinkError> {
    let token = Token::read(&root.join(TOKEN)).map_err(|_| LinkError::Nobody)?;
    Client::connect(&socket(root), &token)
}

/// Waits for a keeper, and for as long as it lives.
fn reach(root: &Path, keeper: &mut Child) -> Client {
    let begun = Instant::now();
    loop {
        if let Ok(client) = connect(root) {
            return client;
        }
        if let Some(status) = keeper.try_wait().expect("a child") {
            panic!("the keeper ended by itself: {status}");
        }
        assert!(begun.elapsed() < PATIENCE, "the keeper doesn't answer");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// People settle what is in doubt, so that agents can go on.
fn settle(client: &mut Client) -> u64 {
    let Ok(Reply::Agents(agents)) = client.ask(Request::Agent(AgentRequest::List { all: false })) else { return 0 };
    let mut settled = 0;
    for view in agents.into_iter().filter(|view| view.state == "in doubt") {
        let request = AgentRequest::Settle { agent: view.agent, note: "nobody can tell".to_owned() };
        settled += u64::from(client.ask(Request::Agent(request)).is_ok());
    }
    settled
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (root, server) = (dir.path().join("data"), Server::start());
        let component = station::guests().join("rust-counter.wasm");
        for agent in 0..AGENTS {
            let http = format!("http:http://127.0.0.1:{}", server.port);
            let other = format!("agent:{}", name((agent + 1) % AGENTS));
            let grants = ["--grant", "tool:mail.draft", "--grant", &http, "--grant", &other];
            let mut command = lazaret(&root);
            command.args(["--preset", "open", "agent", "create", &name(agent)]).arg(&component).args(grants);
            done(&mut command);
        }
        Self { _dir: dir, root, server }
    }

    /// A message that no other is like.
    fn message(&self, agent: u64, number: u64, dice: &mut Dice) -> String {
        let port = self.server.port;
        match dice.below(10) {
            0 | 1 => format!(r#"tool mail.draft {{"to":"x@example.org","subject":"s","body":"draft {number}"}}"#),
            2 => format!("post http://127.0.0.1:{port}/write-{number} it"),
            3 => format!("fetch http://127.0.0.1:{port}/read-{number}"),
            4 => format!("tell {} add {number}", name((agent + 1) % AGENTS)),
            5 => format!("fail {number}"),
            _ => format!("add {number}"),
        }
    }

    /// One client: asks, notes what was acknowledged, and comes back when the keeper was killed.
    fn client(&self, log: &Log, seed: u64) {
        let mut dice = Dice(seed);
        while !log.over.load(Ordering::Relaxed) {
            let Ok(mut client) = connect(&self.root) else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let mut goes_on = true;
            while goes_on && !log.over.load(Ordering::Relaxed) {
                goes_on = self.ask(&mut client, log, &mut dice);
            }
        }
    }

    /// False if the connection is gone.
    fn ask(&self, client: &mut Client, log: &Log, dice: &mut Dice) -> bool {
        let (agent, number) = (dice.below(AGENTS as usize) as u64, log.next.fetch_add(1, Ordering::Relaxed));
        let text = self.message(agent, number, dice);
        let agent = name(agent);
        let (id, content_type) = (agent.parse().expect("a name"), TYPE.to_owned());
        let body = Bytes::from(text.as_str());
        // Some wait for the answer, most leave a message.
        let request = match dice.below(3) {
            0 => AgentRequest::Send { agent: id, content_type, body },
            _ => AgentRequest::Post { agent: id, content_type, body },
        };
        let answer = client.ask(Request::Agent(request));
        let goes_on = match &answer {
            Ok(_) => true,
            Err(LinkError::Fault(fault)) => {
                *log.refused.lock().expect("no client failed").entry(fault.code.clone()).or_default() += 1;
                std::thread::sleep(Duration::from_millis(5));
                true
            }
            Err(_) => false,
        };
        log.asked.lock().expect("no client failed").push(Asked { agent, text, acknowledged: answer.is_ok() });
        goes_on
    }

    /// Starts keepers and kills them. Gives how many were killed before they answered, and how many doubts were settled.
    fn kill_often(&self, kills: u64, dice: &mut Dice) -> (u64, u64) {
        let (mut unborn, mut settled) = (0, 0);
        for round in 0..kills {
            let mut keeper = keeper(&self.root);
            if dice.below(8) == 0 {
                // While it starts: that is when it recovers what the last one left.
                std::thread::sleep(Duration::from_millis(dice.below(400) as u64));
                unborn += u64::from(connect(&self.root).is_err());
            } else {
                settled += settle(&mut reach(&self.root, &mut keeper));
                std::thread::sleep(Duration::from_millis(dice.below(250) as u64));
            }
            keeper.kill().expect("it can be killed");
            keeper.wait().expect("it ends");
            if round % 50 == 49 {
                say(&format!("crash: {} kills", round + 1));
            }
        }
        (unborn, settled)
    }

    /// Starts keepers that die at a flush, or whose flush fails and who are killed a little later. Gives the same.
    fn strike_often(&self, flushes: u64, dice: &mut Dice) -> (u64, u64) {
        let (mut unborn, mut settled) = (0, 0);
        for nth in 1..=flushes {
            let strike = ["signal=KILL", "error=EIO", "signal=KILL", "error=ENOSPC"][(nth % 4) as usize];
            let mut keeper = struck_keeper(&self.root, strike, nth);
            let (begun, lasts) = (Instant::now(), Duration::from_millis(400 + dice.below(400) as u64));
            let mut answered = false;
            while keeper.try_wait().expect("a child").is_none() {
                assert!(begun.elapsed() < PATIENCE, "it doesn't come to its flush {nth}");
                if let Ok(mut client) = connect(&self.root)
                    && !answered
                {
                    (answered, settled) = (true, settled + settle(&mut client));
                }
                if strike.starts_with("error") && answered && begun.elapsed() > lasts {
                    // Not strace, which the keeper would outlive.
                    let pid = std::fs::read_to_string(self.root.join("run/keeper.pid")).unwrap_or_default();
                    let _ = Command::new("kill").args(["-s", "KILL", pid.trim()]).output();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            unborn += u64::from(!answered);
        }
        (unborn, settled)
    }

    /// Lets everything come to rest, and ends the keeper as people do.
    fn rest(&self) -> u64 {
        let mut keeper = keeper(&self.root);
        let mut settled = 0;
        let mut client = reach(&self.root, &mut keeper);
        let begun = Instant::now();
        loop {
            settled += settle(&mut client);
            let Ok(Reply::Agents(agents)) = client.ask(Request::Agent(AgentRequest::List { all: false })) else {
                panic!("the keeper is gone")
            };
            if agents.iter().all(|view| view.mailbox == 0 && view.unfinished.is_none() && view.state == "asleep") {
                break;
            }
            assert!(begun.elapsed() < 2 * PATIENCE, "it does not come to rest: {agents:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        done(lazaret(&self.root).arg("stop"));
        assert!(keeper.wait().expect("it ends").success());
        settled
    }
}

/// How often each draft was kept. A line that is no draft was cut by a crash.
fn drafts(root: &Path) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    let text = std::fs::read(root.join("tools/drafts.jsonl")).unwrap_or_default();
    for line in String::from_utf8_lossy(&text).lines() {
        let Ok(draft) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        *counts.entry(draft["body"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    counts
}

/// What left the host: how often in all, and the effects that did so twice and must not.
fn effects(world: &World, facts: &Facts) -> (u64, Vec<String>) {
    let (drafts, mut all, mut twice) = (drafts(&world.root), 0, Vec::new());
    for (effect, done) in facts.effects() {
        let (times, may_repeat) = match effect {
            Effect::ToolsCall { arguments, .. } => {
                let draft: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
                (drafts.get(draft["body"].as_str().unwrap_or_default()).copied().unwrap_or(0), false)
            }
            Effect::HttpFetch(request) => {
                let path = request.url.splitn(4, '/').last().unwrap_or_default();
                (world.server.count(&format!("{} /{path}", request.method)), effect.is_idempotent())
            }
            _ => continue,
        };
        all += times;
        if (times > 1 && !may_repeat) || (done && times == 0) {
            twice.push(format!("{} was done {times} times", effect.summary()));
        }
    }
    (all, twice)
}

/// Every acknowledged message has one turn, every other at most one.
fn answered(facts: &Facts, asked: &[Asked]) -> (u64, Vec<String>) {
    let mut turns: HashMap<(&str, &[u8]), u64> = HashMap::new();
    for (_, record) in &facts.turns {
        *turns.entry((record.agent.as_str(), &record.input.body.0)).or_default() += 1;
    }
    let (mut acknowledged, mut wrong) = (0, Vec::new());
    let told = facts.told().into_iter().map(|(agent, text)| Asked { agent, text, acknowledged: true });
    let told: Vec<Asked> = told.collect();
    for Asked { agent, text, acknowledged: ok } in asked.iter().chain(&told) {
        let times = turns.get(&(agent.as_str(), text.as_bytes())).copied().unwrap_or(0);
        acknowledged += u64::from(*ok);
        if times > 1 || (*ok && times == 0) {
            wrong.push(format!("`{agent}` has {times} turns for `{text}`, acknowledged: {ok}"));
        }
    }
    (acknowledged, wrong)
}

#[test]
fn a_killed_keeper_loses_nothing_and_does_nothing_twice() {
    let kills = number("LAZARET_KILLS", 200);
    try_it("kills", kills, |world, dice| world.kill_often(kills, dice));
}

#[test]
fn a_keeper_that_is_struck_at_its_flushes_loses_nothing_and_does_nothing_twice() {
    let flushes = number("LAZARET_FLUSHES", 40);
    try_it("flushes struck", flushes, |world, dice| world.strike_often(flushes, dice));
}

/// Keepers come and go while clients ask; then all that was acknowledged is looked for.
fn try_it(what: &str, kills: u64, come_and_go: impl FnOnce(&World, &mut Dice) -> (u64, u64)) {
    let seed = number("LAZARET_SEED", 4);
    say(&format!("crash: {kills} {what}, seed {seed}"));
    let (world, log) = (World::new(), Log::default());
    let mut dice = Dice(seed);
    let (unborn, settled) = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (world, log) = (&world, &log);
            scope.spawn(move || world.client(log, seed.wrapping_mul(1_000).wrapping_add(client)));
        }
        // However it ends, the clients end too.
        let _over = Over(&log.over);
        come_and_go(&world, &mut dice)
    });
    let settled = settled + world.rest();
    done(lazaret(&world.root).args(["journal", "verify"]));
    let names: Vec<String> = (0..AGENTS).map(name).collect();
    let replayed = done(lazaret(&world.root).args(["replay", "verify"]).args(&names));
    let matches = replayed.matches("MATCH\n").count();
    let facts = Facts::read(&world.root).expect("the data root is whole");
    let asked = log.asked.into_inner().expect("no client failed");
    let (acknowledged, wrong) = answered(&facts, &asked);
    let (effects, twice) = effects(&world, &facts);
    say(&format!(
        "crash: {kills} {what} ({unborn} before the keeper answered), {} asked: {acknowledged} messages acknowledged, {} \
         lost or answered twice; {effects} effects, {} run twice; {settled} doubts settled; {} turns, {matches} MATCH",
        asked.len(),
        wrong.len(),
        twice.len(),
        facts.turns.len(),
    ));
    say(&format!("crash: refusals that clients saw: {:?}", log.refused.into_inner().expect("no client failed")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(twice.is_empty(), "{}", twice.join("\n"));
    assert_eq!(facts.waiting, 0);
    assert_eq!(matches, facts.turns.len(), "every turn replays");
    assert!(acknowledged > kills, "hardly anything was asked");
}

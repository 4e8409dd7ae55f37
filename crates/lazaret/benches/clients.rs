//! Clients of a keeper as they are: `lazaret serve` in a process of its own, asked over its socket. Turns per second with one
//! client and with eight that have an agent each, beside flushes of a file on the same disk. And once more where each of the
//! keeper's flushes takes a millisecond longer: on a disk that flushes in a tenth of one, two processors are what clients wait for,
//! and what they gain by sharing flushes hardly shows. How much of the processors that takes is printed too.
//!
//! `cargo bench -p lazaret` prints it. What a keeper does without its socket is in `cargo bench -p lazaret-host -- clients`.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

#[path = "../../lazaret-host/benches/speed/rates.rs"]
mod rates;
#[allow(dead_code, reason = "shared by several tests")]
#[path = "../tests/support/station.rs"]
mod station;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lazaret_link::{AgentRequest, Client, LinkError, Reply, Request, TOKEN, Token, socket};
use rates::{Raw, middle, rate};
use station::{done, lazaret};

/// How often each is measured, in turns.
const ROUNDS: usize = 7;
const CLIENTS: usize = 8;
/// About what a turn of this agent flushes; the benchmark of the host counts it.
const FLUSHED: usize = 6_400;

/// A keeper that is stopped when nobody needs it any more. Told so, not killed: it may be strace's child, and would go on.
struct Keeper {
    child: Child,
    root: PathBuf,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = lazaret(&self.root).args(["stop", "--within", "1s"]).output();
        let _ = self.child.wait();
    }
}

/// A client and its agent.
struct Caller {
    client: Client,
    agent: String,
}

impl Caller {
    /// One turn.
    fn send(&mut self) {
        let (agent, body) = (self.agent.parse().expect("an agent's name"), b"add 1".to_vec().into());
        let request = AgentRequest::Send { agent, content_type: "text/plain".into(), body };
        let answer = self.client.ask(Request::Agent(request));
        assert!(matches!(answer, Ok(Reply::Taken(_))), "the keeper says something else: {answer:?}");
    }
}

fn connect(root: &Path) -> Result<Client, LinkError> {
    let token = Token::read(&root.join(TOKEN)).map_err(|_| LinkError::Nobody)?;
    Client::connect(&socket(root), &token)
}

/// How long a process has been on processors, to a hundredth of a second.
fn busy(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    // After the name, which may have anything in it: user and system time are the 12th and 13th.
    let fields = stat.rsplit(") ").next().expect("fields").split(' ').skip(11).take(2);
    let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Turns in a second, and what one takes of all processors, in the keeper and in its clients.
#[derive(Clone, Copy)]
struct Rate {
    turns: f64,
    keeper: Duration,
    clients: Duration,
}

/// A keeper with as many agents as there are clients, and these.
struct Station {
    callers: Vec<Caller>,
    keeper: Keeper,
    dir: tempfile::TempDir,
}

impl Station {
    fn open(slow: bool) -> Self {
        let target = station::workspace().join("target");
        std::fs::create_dir_all(&target).expect("a place on the disk that the build is on");
        let dir = tempfile::Builder::new().prefix("lazaret-bench-").tempdir_in(target).expect("a directory");
        let root = dir.path().join("root");
        let component = station::workspace().join("guests/build/rust-counter.wasm");
        assert!(component.is_file(), "`{}` is missing; `cargo xtask guests rust` builds it", component.display());
        let names = (0..CLIENTS).map(|number| format!("counter-{number}"));
        names.clone().for_each(|name| drop(done(lazaret(&root).args(["agent", "create", &name]).arg(&component))));
        let mut serve = if slow { slowly(&root) } else { lazaret(&root) };
        serve.args(["serve", "--foreground", "--http", "off"]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = serve.spawn().expect("a keeper, and strace for a slow one");
        let keeper = Keeper { child, root: root.clone() };
        station::wait_for("the keeper to answer", || connect(&root).is_ok());
        let caller = |agent| Caller { client: connect(&root).expect("a connection"), agent };
        let mut callers: Vec<Caller> = names.map(caller).collect();
        // Until the redo log's file is as long as it gets.
        (0..2_000).for_each(|_| callers[0].send());
        Self { callers, keeper, dir }
    }

    /// Turns of the first so many callers.
    fn turns(&mut self, many: usize) -> Rate {
        let processes = [self.keeper.child.id(), std::process::id()];
        let (before, begun) = (processes.map(busy), Instant::now());
        let turns = rate(&mut self.callers[..many], Caller::send);
        let count = turns * begun.elapsed().as_secs_f64();
        let [keeper, clients] = [0, 1].map(|at| (busy(processes[at]) - before[at]).div_f64(count));
        Rate { turns, keeper, clients }
    }
}

/// Some microseconds of work that waits for nothing. What many do at once lies far apart.
fn compute(seed: &mut u64) {
    let mut number = *seed;
    for _ in 0..10_000 {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) ^ (number >> 33));
    }
    *seed = number;
}

/// The command, where a flush takes a millisecond longer.
fn slowly(root: &Path) -> Command {
    let inject = ["-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync"];
    let mut strace = Command::new("strace");
    strace.args(inject).args(["-e", "inject=fdatasync:delay_exit=1000"]).arg(env!("CARGO_BIN_EXE_lazaret"));
    strace.env("LAZARET_DATA_DIR", root).stdin(Stdio::null());
    strace
}

fn main() {
    let mut station = Station::open(false);
    let raw = |number| Raw::new(&station.dir.path().join(format!("raw-{number}")), FLUSHED);
    let mut raws: Vec<Raw> = (0..CLIENTS).map(raw).collect();
    let (mut one, mut eight, mut raw_one, mut raw_eight) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut processors = Vec::new();
    for _ in 0..ROUNDS {
        processors.push(rate(&mut [0; CLIENTS], compute) / rate(&mut [0], compute));
        one.push(station.turns(1));
        raw_one.push(rate(&mut raws[..1], Raw::flush));
        eight.push(station.turns(CLIENTS));
        raw_eight.push(rate(&mut raws, Raw::flush));
    }
    let [one, eight] = [one, eight].map(|all| middle(all, |rate| rate.turns));
    let [raw_one, raw_eight] = [raw_one, raw_eight].map(|all| middle(all, |rate| *rate));
    print("1 client", one, ("1 thread", raw_one));
    print("8 clients", eight, ("8 threads, a file each", raw_eight));
    println!("  8 clients: {:.2} times the turns of 1 client (target at least 3)", eight.turns / one.turns);
    // A processor of a virtual machine may be half of one that does two things at a time.
    let processors = middle(processors, |times| *times);
    let busy = |rate: &Rate| rate.turns * (rate.keeper + rate.clients).as_secs_f64();
    println!(
        "  8 threads that only compute do {processors:.2} times what one does: 1 client keeps {:.2} of that busy, 8 clients {:.2}; \
         at what a turn of 8 costs, no more than {:.2} times the turns of 1 can be made here",
        busy(&one),
        busy(&eight),
        processors * eight.turns / busy(&eight) / one.turns
    );
    drop(station);
    let mut station = Station::open(true);
    let (mut one, mut eight) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        one.push(station.turns(1).turns);
        eight.push(station.turns(CLIENTS).turns);
    }
    let [one, eight] = [one, eight].map(|all| middle(all, |rate| *rate));
    println!(
        "  with flushes that take a millisecond longer: {one:.0}/s and {eight:.0}/s, {:.2} times (target at least 3)",
        eight / one
    );
}

fn print(who: &str, rate: Rate, (threads, raw): (&str, f64)) {
    let Rate { turns, keeper, clients } = rate;
    println!(
        "{:<34} lazaret {turns:>7.0}/s   raw flushes {raw:>7.0}/s ({threads})   ratio {:.2}   of processors for a turn: keeper {} \
         µs, client {} µs",
        format!("turns over the socket, {who}"),
        turns / raw,
        keeper.as_micros(),
        clients.as_micros(),
    );
}

//! Several callers in a keeper's own process: turns per second, and how they share their flushes. Clients come over the socket:
//! what they get is measured by `cargo bench -p lazaret`, and there the target stands. Where the disk is quick, a lone caller without
//! a socket already uses most of a processor, and eight of them on two processors have less to gain.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lazaret_gate::AgentId;
use lazaret_host::{Host, Keeper, Pace, Supervisor};
use lazaret_link::{AgentRequest, Reply, Request};

use crate::guests;
use crate::rates::{Raw, middle, rate};
use crate::timing::show;
use crate::turns::Flushed;

/// How often each is measured, in turns.
const ROUNDS: usize = 7;
const CLIENTS: usize = 8;

/// A keeper as `lazaret serve` has it, without its sockets.
pub(crate) fn keeper(host: Host) -> Keeper {
    let host = Arc::new(host);
    let supervisor = Supervisor::start(host.clone(), Pace::default()).expect("a supervisor");
    Keeper::new(host).with_supervisor(supervisor)
}

/// Turns and flushes of the redo log in a second, and what a turn takes of all processors.
#[derive(Clone, Copy, Default)]
struct Rate {
    turns: f64,
    flushes: f64,
    busy: Duration,
}

/// How long this process has been on processors.
fn busy() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().expect("a time that has passed")
}

/// One turn.
fn send(keeper: &Keeper, agent: &AgentId) {
    let (agent, body) = (agent.clone(), b"add 1".to_vec().into());
    let request = AgentRequest::Send { agent, content_type: "text/plain".into(), body };
    let answer = keeper.answer(Request::Agent(request));
    assert!(matches!(answer, Ok(Reply::Taken(_))), "the keeper says something else: {answer:?}");
}

/// Durable turns per second of a small agent with one client, and with eight that have an agent each. The anchors write as
/// many bytes as a turn flushes into files that are long enough, and flush them once each: one thread, and eight threads
/// with a file each. One client can't get past the first anchor; eight share flushes of the one redo log.
pub(crate) fn clients() {
    let dir = guests::data_root();
    let host = Host::open(&dir.path().join("root")).expect("a data root");
    let component = guests::counter();
    let mut agents: Vec<AgentId> =
        (0..CLIENTS).map(|number| guests::create(&host, &format!("counter-{number}"), &component)).collect();
    let Flushed { commits, bytes } = Flushed::of(&host);
    let keeper = keeper(host);
    // Until the redo log's file is as long as it gets.
    for _ in 0..2_000 {
        send(&keeper, &agents[0]);
    }
    let before = bytes.load(Ordering::Relaxed);
    (0..100).for_each(|_| send(&keeper, &agents[0]));
    let bytes = (bytes.load(Ordering::Relaxed) - before) / 100;
    let turns = |agents: &mut [AgentId]| {
        let (before, begun, ran) = (commits.load(Ordering::Relaxed), Instant::now(), busy());
        let turns = rate(agents, |agent| send(&keeper, agent));
        let took = begun.elapsed().as_secs_f64();
        let flushes = (commits.load(Ordering::Relaxed) - before) as f64 / took;
        Rate { turns, flushes, busy: (busy() - ran).div_f64(turns * took) }
    };
    let mut raws: Vec<Raw> =
        (0..CLIENTS).map(|number| Raw::new(&dir.path().join(format!("raw-{number}")), bytes as usize)).collect();
    let (mut one, mut eight, mut raw_one, mut raw_eight) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        one.push(turns(&mut agents[..1]));
        raw_one.push(rate(&mut raws[..1], Raw::flush));
        eight.push(turns(&mut agents));
        raw_eight.push(rate(&mut raws, Raw::flush));
    }
    let [one, eight] = [one, eight].map(|all| middle(all, |rate| rate.turns));
    let [raw_one, raw_eight] = [raw_one, raw_eight].map(|all| middle(all, |rate| *rate));
    print("1 client", one, ("1 thread", raw_one));
    print("8 clients", eight, ("8 threads, a file each", raw_eight));
    println!(
        "  8 clients: {:.2} times the turns of 1 client, {:.1} turns in a flush, {:.2} of 1 thread's raw flushes; {bytes} bytes for a \
         turn",
        eight.turns / one.turns,
        eight.turns / eight.flushes,
        eight.turns / raw_one,
    );
    if std::env::var_os(SLOW).is_none() {
        slower();
    }
}

fn print(who: &str, rate: Rate, (threads, raw): (&str, f64)) {
    let Rate { turns, flushes, busy } = rate;
    println!(
        "{:<34} lazaret {turns:>7.0}/s in {flushes:>6.0} flushes/s   raw flushes {raw:>7.0}/s ({threads})   ratio {:.2}   {} of \
         processors for a turn",
        format!("durable turns, {who}"),
        turns / raw,
        show(busy),
    );
}

/// Set in the process that has a slower disk.
const SLOW: &str = "LAZARET_BENCH_SLOW";

/// The same once more, where every flush takes a millisecond longer. With a disk that flushes faster than a turn thinks,
/// it is processors that several clients wait for, and what they gain by sharing flushes hardly shows.
fn slower() {
    println!("  the same with flushes that take a millisecond longer:");
    let bench = std::env::current_exe().expect("this program");
    let inject = ["-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync"];
    let mut strace = std::process::Command::new("strace");
    strace.args(inject).args(["-e", "inject=fdatasync:delay_exit=1000"]).arg(bench).args(["--bench", "clients"]);
    match strace.env(SLOW, "1").status() {
        Ok(done) if done.success() => {}
        Ok(done) => println!("  it failed: {done}"),
        Err(why) => println!("  not measured: `strace` can't be started: {why}"),
    }
}

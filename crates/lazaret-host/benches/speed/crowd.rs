//! Agents by the thousand, asleep and awake: what they take of a process of their own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lazaret_gate::AgentId;
use lazaret_host::{Host, Settings};
use lazaret_link::{AgentRequest, Reply, Request};

use crate::bare::Bare;
use crate::clients::keeper;
use crate::guests;
use crate::timing::{median, show, time};

/// What a process that this one starts is to do, and with which data root.
const ROLE: &str = "LAZARET_BENCH_ROLE";
const ROOT: &str = "LAZARET_BENCH_ROOT";

/// How many agents, if not as many as usual: for quick tries.
pub(crate) fn many(usual: usize) -> usize {
    match std::env::var("LAZARET_BENCH_AGENTS") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("LAZARET_BENCH_AGENTS is a number, not `{text}`")),
        Err(_) => usual,
    }
}

pub(crate) fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Another process of this program: it writes lines of numbers, and ends when its input does.
pub(crate) fn child() {
    let root = PathBuf::from(std::env::var_os(ROOT).unwrap_or_default());
    match std::env::var(ROLE).as_deref() {
        Ok("asleep") => keep_asleep(&root),
        Ok("awake") => keep_awake(&root),
        Ok("bare") => keep_bare(many(AWAKE)),
        role => panic!("no part is called {role:?}"),
    }
    let _ = std::io::stdin().read_line(&mut String::new());
    // Some threads never end.
    std::process::exit(0);
}

fn say(numbers: &[u64]) {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    println!("{}", words.join(" "));
    std::io::stdout().flush().expect("somebody listens");
}

/// Starts one; its first line of numbers, and when it came.
fn ask(role: &str, root: &Path) -> (Vec<u64>, Duration) {
    let begun = Instant::now();
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .env(ROLE, role)
        .env(ROOT, root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let took = begun.elapsed();
    drop(child.stdin.take());
    assert!(child.wait().expect("its end").success(), "`{role}` failed");
    (line.split_whitespace().map(|word| word.parse().expect("a number")).collect(), took)
}

/// Kilobytes of this process that are in memory: now, and at most so far.
fn resident() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/status").expect("the kernel's account");
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the account");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    })
}

/// Memory when it has stopped growing, or after half a minute.
fn settled() -> u64 {
    let (begun, mut before) = (Instant::now(), resident()[0]);
    loop {
        std::thread::sleep(Duration::from_secs(2));
        let now = resident()[0];
        if now <= before + before / 200 || begun.elapsed() > Duration::from_secs(30) {
            return now;
        }
        before = now;
    }
}

fn open(root: &Path) -> Host {
    Host::open_with(root, Settings { preset: "open".into(), ..Settings::default() }).expect("a data root")
}

fn keep_asleep(root: &Path) {
    let keeper = keeper(open(root));
    assert!(matches!(keeper.answer(Request::Ping), Ok(Reply::Pong)), "the keeper says something else");
    let [now, most] = resident();
    say(&[now, most]);
    // Not before it is asked to end: the data root is closed in order.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Ten thousand agents of one component asleep in a data root: how much memory a keeper has that was just started there, and
/// how long it takes from the start of its process until it answers. The anchor is the same process with no agents. What the
/// command's sockets need comes on top, and doesn't depend on agents.
pub(crate) fn asleep() {
    const ROUNDS: usize = 5;
    let most = many(10_000);
    let mut anchor = None;
    for agents in [0, 1, most] {
        let dir = guests::data_root();
        let root = dir.path().join("root");
        let made = time(|| guests::create_many(&open(&root), agents, &guests::counter()));
        let looks: Vec<(Vec<u64>, Duration)> = (0..ROUNDS).map(|_| ask("asleep", &root)).collect();
        let start = median(looks.iter().map(|(_, took)| *took).collect());
        let mut memory: Vec<(u64, u64)> = looks.iter().map(|(numbers, _)| (numbers[0], numbers[1])).collect();
        memory.sort_unstable();
        let (now, peak) = memory[ROUNDS / 2];
        let (empty, first) = *anchor.get_or_insert((now, start));
        let each = now.saturating_sub(empty) as f64 / agents.max(1) as f64;
        println!(
            "{:<34} {:>6.1} MiB resident, {:>6.1} at most   answers after {:>9}   over none: {:.1} MiB, {} ({each:.2} KiB an agent)",
            format!("{agents} agents asleep"),
            now as f64 / 1024.0,
            peak as f64 / 1024.0,
            show(start),
            now.saturating_sub(empty) as f64 / 1024.0,
            show(start.saturating_sub(first)),
        );
        if agents == most {
            println!("  made in {}", show(made));
        }
    }
}

const AWAKE: usize = 1_000;

fn keep_awake(root: &Path) {
    let keeper = keeper(open(root));
    let agents: Vec<AgentId> = (0..many(AWAKE)).map(|number| guests::agent(&format!("agent-{number}"))).collect();
    let before = settled();
    std::thread::scope(|scope| {
        for part in agents.chunks(agents.len().div_ceil(16).max(1)) {
            let keeper = &keeper;
            scope.spawn(move || part.iter().for_each(|agent| post(keeper, agent, b"s")));
        }
    });
    let supervisor = keeper.supervisor().expect("it has one");
    let begun = Instant::now();
    while supervisor.status().awake < agents.len() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = settled();
    say(&[before, after, supervisor.status().awake as u64]);
    // The turns never end; this process does.
    std::mem::forget(keeper);
}

pub(crate) fn post(keeper: &lazaret_host::Keeper, agent: &AgentId, body: &[u8]) {
    let (agent, body) = (agent.clone(), body.to_vec().into());
    let request = AgentRequest::Post { agent, content_type: "text/plain".into(), body };
    assert!(matches!(keeper.answer(Request::Agent(request)), Ok(Reply::Posted { .. })), "no place in the mailbox");
}

/// As many threads, each in a call of a bare instance.
fn keep_bare(agents: usize) {
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    let bare: &'static Bare = Box::leak(Box::new(Bare::new(&guests::busy())));
    let before = settled();
    for _ in 0..agents {
        // As large as the stacks of the supervisor's threads.
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
            INSIDE.fetch_add(1, Ordering::Relaxed);
            bare.call(b"s")
        });
        drop(thread.expect("a thread"));
    }
    while INSIDE.load(Ordering::Relaxed) < agents {
        std::thread::sleep(Duration::from_millis(20));
    }
    say(&[before, settled(), agents as u64]);
}

/// A thousand agents, each inside of a turn that computes and doesn't end: memory beyond that of the same keeper with all
/// of them asleep. The anchor is as many threads in calls of bare instances of the same component.
pub(crate) fn awake() {
    let (dir, agents) = (guests::data_root(), many(AWAKE));
    let root = dir.path().join("root");
    drop(guests::create_many(&open(&root), agents, &guests::busy()));
    let [ours, anchor] = ["awake", "bare"].map(|role| {
        let numbers = ask(role, &root).0;
        assert_eq!(numbers[2] as usize, agents, "not all of them are in turns");
        numbers[1].saturating_sub(numbers[0]) as f64 / agents as f64
    });
    println!(
        "{:<34} lazaret {ours:>6.1} KiB each   bare Wasmtime {anchor:>6.1} KiB each   ratio {:.2}",
        format!("{agents} agents in turns at once"),
        ours / anchor
    );
    println!("  resident memory; a thread and a guest's memory of 64 KiB, of which a few pages are used, are in both");
}

//! Stateless agents: ordinary WASI commands. What toolchains emit runs; everything from outside is on the tape; a
//! replay is exact; nothing that a guest does with its handles harms the host.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test reads its data files and calls rustc")]
#![expect(clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod hostile;
mod http;
mod programs;
mod waiting;

#[path = "../support"]
#[expect(dead_code, unreachable_pub, reason = "shared with other tests, which use the rest")]
mod support {
    pub mod command;
    pub mod wasi;
    pub mod world;
}

use std::path::Path;
use std::process::Command;

use lazaret_gate::effect::{Header, Level};
use lazaret_gate::outcome::Response;
use lazaret_gate::record::{Cause, Ending, Failure, Stop};
use lazaret_gate::{Answer, Budget, Bytes, Effect, Exact, Grant, Grants, Outcome, TapeEntry};

use support::command::{Took, admit, fake, take};
use support::world::Memory;

/// Compiles one of `tests/programs` as anybody would.
fn compile(name: &str) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.rs"));
    // Tests run side by side; each compiles for itself.
    let unique = std::thread::current().name().unwrap_or("main").replace("::", "-");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{unique}.wasm"));
    let status = Command::new("rustc")
        .args(["--edition=2024", "--target=wasm32-wasip2", "-Copt-level=s", "-Cdebuginfo=0", "-o"])
        .args([&out, &source])
        .status()
        .expect("rustc runs");
    assert!(status.success(), "rustc can't compile {name}; `rustup target add wasm32-wasip2` may be missing");
    std::fs::read(&out).expect("rustc wrote it")
}

/// Builds `tests/programs/http`, which needs bindings and so a package of its own.
fn build_http() -> Vec<u8> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/http");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("http");
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--locked", "--target=wasm32-wasip2", "--target-dir"])
        .arg(&out)
        .current_dir(package)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo can't build tests/programs/http");
    std::fs::read(out.join("wasm32-wasip2/debug/http.wasm")).expect("cargo wrote it")
}

fn outside(effect: &Effect) -> Outcome {
    Outcome::Done(match effect {
        Effect::LogWrite { .. } | Effect::ClockSleep { .. } => Answer::Nothing,
        Effect::ClockNow {} => Answer::Time(Exact(1_700_000_000_123_456_789)),
        // A real clock moves on; this one jumps far enough for any sleep to be over.
        Effect::ClockMonotonic {} => Answer::Time(Exact(next() * 1_000_000_000)),
        Effect::RandomBytes { len } => Answer::Random(Bytes((0..*len).map(|at| (at * 7 + 3) as u8).collect())),
        Effect::EnvironmentRead {} => Answer::Environment(vec![("HOME".into(), "/nest".into())]),
        Effect::HttpFetch(_) => Answer::Response(Response {
            status: 201,
            headers: vec![Header { name: "x-from".into(), value: "outside".into() }],
            body: b"hello from outside".to_vec().into(),
        }),
        other => return Outcome::Failed(format!("{} isn't here", other.kind())),
    })
}

/// One more each time, in each thread.
fn next() -> u64 {
    thread_local!(static TIMES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    TIMES.set(TIMES.get() + 1);
    TIMES.get()
}

fn run(bytes: &[u8], input: &str) -> Took {
    take(&admit(bytes), input, &Budget::default(), fake(outside))
}

fn run_gated(bytes: &[u8], grants: &[&str]) -> Took {
    let grants = Grants::new(grants.iter().map(|name| name.parse::<Grant>().expect("a grant")).collect());
    let budget = Budget::default();
    take(&admit(bytes), "", &budget, Memory::new(grants, budget.clone()))
}

fn stopped(took: &Took) -> (Cause, &str) {
    match &took.ending {
        Ok(Ending::Stopped(Stop { cause, detail })) => (*cause, detail),
        other => panic!("not stopped: {other:?}"),
    }
}

fn failed(took: &Took) -> &str {
    match &took.ending {
        Ok(Ending::Failed(Failure::Failed(text))) => text,
        other => panic!("not failed: {other:?}"),
    }
}

fn kinds(tape: &[TapeEntry]) -> Vec<&'static str> {
    tape.iter().map(|entry| entry.effect.kind()).collect()
}

fn logged(tape: &[TapeEntry]) -> Vec<&str> {
    let lines = tape.iter().filter_map(|entry| match &entry.effect {
        Effect::LogWrite { level: Level::Info, text } => Some(text.as_str()),
        _ => None,
    });
    lines.collect()
}

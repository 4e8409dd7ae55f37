//! Stateless agents: ordinary WASI commands. What toolchains emit runs; everything from outside is on the tape; a
//! replay is exact; nothing that a guest does with its handles harms the host.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads its data files and calls rustc"
)]

#[expect(dead_code, unreachable_pub, reason = "shared with other tests, which use the rest")]
mod support {
    pub mod command;
    pub mod wasi;
    pub mod world;
}

use std::path::Path;
use std::process::Command;

use lazaret_gate::effect::{Header, Level, Request};
use lazaret_gate::limits::{MAX_OUTPUT, MAX_VALUE};
use lazaret_gate::outcome::Response;
use lazaret_gate::record::{Cause, Ending, Failure, Stop};
use lazaret_gate::{Answer, Budget, Bytes, Effect, Exact, Grant, Grants, Outcome, TapeEntry};
use lazaret_guest::limits::{MAX_HANDLES, MAX_HELD};

use support::command::{Fake, Played, Took, admit, built, fake, played, take};
use support::wasi::command;
use support::world::Memory;

/// Compiles one of `tests/programs` as anybody would.
fn compile(name: &str) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.rs"));
    // Tests run side by side; each compiles for itself.
    let unique = std::thread::current().name().unwrap_or("main").replace("::", "-");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{unique}.wasm"));
    let status = Command::new("rustc")
        .args([
            "--edition=2024",
            "--target=wasm32-wasip2",
            "-Copt-level=s",
            "-Cdebuginfo=0",
            "-o",
        ])
        .args([&out, &source])
        .status()
        .expect("rustc runs");
    assert!(
        status.success(),
        "rustc can't compile {name}; `rustup target add wasm32-wasip2` may be missing"
    );
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
        Effect::EnvironmentRead {} => Answer::Environment(vec![("HOME".into(), "/home/agent".into())]),
        Effect::HttpFetch(_) => Answer::Response(Response {
            status: 201,
            headers: vec![Header {
                name: "x-from".into(),
                value: "outside".into(),
            }],
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
    let grants = Grants::new(
        grants
            .iter()
            .map(|name| name.parse::<Grant>().expect("a grant"))
            .collect(),
    );
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
        Effect::LogWrite {
            level: Level::Info,
            text,
        } => Some(text.as_str()),
        _ => None,
    });
    lines.collect()
}

// ---- what toolchains emit ----

#[test]
fn a_rust_program_says_hello() {
    let took = run(&compile("hello"), "");
    assert_eq!(took.reply(), "hello, agent\n");
    let Ok(Ending::Replied(reply)) = &took.ending else {
        panic!("no reply")
    };
    assert_eq!(reply.content_type, "text/plain; charset=utf-8");
    assert_eq!(kinds(&took.world::<Fake>().tape), [""; 0], "it asks for nothing");
}

#[test]
fn the_tool_answers_in_upper_case_and_logs_its_world() {
    let took = run(&built("wasi-tool"), "grüße\n");
    assert_eq!(took.reply(), "GRÜSSE\n");
    let tape = took.world::<Fake>().tape;
    let lines = logged(&tape);
    assert_eq!(
        lines[..3],
        [
            "arguments: []",
            "environment: [\"HOME=/home/agent\"]",
            "time: 1700000000123456789"
        ]
    );
    assert!(lines[3].starts_with("order: "), "{lines:?}");
}

#[test]
fn a_refused_environment_is_an_empty_one() {
    let took = run_gated(&built("wasi-tool"), &["clock", "random", "log"]);
    assert_eq!(took.reply(), "");
    let tape = took.world::<Memory>().journal.entries;
    assert!(logged(&tape).contains(&"environment: []"));
    let asked = tape
        .iter()
        .find(|entry| entry.effect == Effect::EnvironmentRead {})
        .expect("it was asked for");
    assert!(
        matches!(asked.outcome, Outcome::Refused(_)),
        "and the refusal is on the tape"
    );
}

#[test]
fn refused_log_lines_are_recorded_and_the_guest_goes_on() {
    let took = run_gated(&built("wasi-tool"), &["clock", "random"]);
    assert_eq!(took.reply(), "");
    let tape = took.world::<Memory>().journal.entries;
    assert_eq!(
        tape.iter()
            .filter(|entry| matches!(entry.outcome, Outcome::Refused(_)))
            .count(),
        5
    );
}

#[test]
fn a_refused_clock_or_randomness_ends_the_turn_in_the_gates_words() {
    let tool = built("wasi-tool");
    for (grants, lacking) in [(["random", "log"], "clock"), (["clock", "log"], "random")] {
        let took = run_gated(&tool, &grants);
        let (cause, detail) = stopped(&took);
        assert_eq!(cause, Cause::Refused);
        assert!(detail.contains(&format!("--grant {lacking}")), "{detail}");
    }
}

#[test]
fn a_busy_program_gets_everything_from_the_tape_and_no_files() {
    let took = run(&compile("busy"), "in");
    let reply = took.reply();
    assert!(reply.starts_with("in|1700000000123456789|["), "{reply}");
    assert!(reply.contains("]|/home/agent|Err("), "{reply}");
    let tape = took.world::<Fake>().tape;
    let sleeps: Vec<_> = tape
        .iter()
        .filter(|entry| matches!(entry.effect, Effect::ClockSleep { .. }))
        .collect();
    assert!(matches!(
        sleeps[..],
        [TapeEntry {
            effect: Effect::ClockSleep {
                nanos: Exact(30_000_000)
            },
            ..
        }]
    ));
    assert_eq!(logged(&tape).last(), Some(&"no line end"));
}

#[test]
fn a_replay_is_exact() {
    for program in [admit(&compile("busy")), admit(&built("wasi-tool"))] {
        let live = take(&program, "in", &Budget::default(), fake(outside));
        let (reply, fuel) = (live.reply(), live.fuel);
        let tape = live.world::<Fake>().tape;
        assert!(!tape.is_empty());
        let again = take(&program, "in", &Budget::default(), played(tape));
        assert_eq!(again.reply(), reply);
        assert_eq!(again.fuel, fuel);
        let rest = again.world::<Played>();
        assert_eq!(rest.left(), 0, "it asks as often");
    }
}

// ---- how a command ends ----

#[test]
fn an_exit_code_fails_the_turn_with_the_last_line() {
    assert_eq!(failed(&run(&compile("busy"), "exit")), "exit code 1; no line end");
    assert_eq!(
        failed(&run(&command("(call $exit:exit-with-code (i32.const 7))", ""), "")),
        "exit code 7"
    );
    assert_eq!(
        failed(&run(&command("(call $exit:exit (i32.const 1))", ""), "")),
        "exit code 1"
    );
    assert_eq!(failed(&run(&command("(return (i32.const 1))", ""), "")), "exit code 1");
}

#[test]
fn an_exit_with_success_replies_with_what_was_written() {
    let code =
        "(call $streams:output-stream.write (call $stdout:get-stdout) (i32.const 4096) (i32.const 3) (i32.const 0))
                (call $exit:exit (i32.const 0)) unreachable";
    assert_eq!(run(&command(code, "yes"), "").reply(), "yes");
    let took = run(&command(code, "\\ff\\00\\01"), "");
    let Ok(Ending::Replied(reply)) = &took.ending else {
        panic!("{:?}", took.ending)
    };
    assert_eq!(reply.content_type, "application/octet-stream");
}

#[test]
fn a_panic_is_a_trap_and_its_message_is_in_the_log() {
    let took = run(&compile("busy"), "panic");
    assert_eq!(stopped(&took).0, Cause::Trap);
    let tape = took.world::<Fake>().tape;
    assert!(
        logged(&tape).iter().any(|line| line.contains("told to")),
        "{:?}",
        logged(&tape)
    );
}

#[test]
fn a_failed_clock_fails_the_turn() {
    let took = take(
        &admit(&command("(drop (call $monotonic:now))", "")),
        "",
        &Budget::default(),
        fake(|_| Outcome::Failed("it stands still".into())),
    );
    assert_eq!(failed(&took), "clock.monotonic failed: it stands still");
}

#[test]
fn an_answer_of_another_shape_ends_the_turn() {
    for code in [
        "(drop (call $monotonic:now))",
        "(call $wall:now (i32.const 0))",
        "(drop (call $random:get-random-u64))",
        "(call $random:get-random-bytes (i64.const 9) (i32.const 0))",
        "(call $environment:get-environment (i32.const 0))",
        "(call $poll:pollable.block (call $monotonic:subscribe-instant (i64.const 9)))",
    ] {
        let program = admit(&command(code, ""));
        let forged = fake(|_| Outcome::Done(Answer::Random(Bytes(vec![1, 2, 3]))));
        let took = take(&program, "", &Budget::default(), forged);
        assert_eq!(
            stopped(&took),
            (Cause::BadValue, "the answer doesn't fit the ask"),
            "{code}"
        );
    }
}

#[test]
fn what_is_no_command_of_0_2_is_not_admitted() {
    let engine = lazaret_guest::Engine::new().expect("the engine starts");
    for (text, why) in [
        (
            r#"(component (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#,
            "no function `run`",
        ),
        (
            r#"(component (core module $m (func (export "run"))) (core instance $m (instantiate $m))
                (func $f (canon lift (core func $m "run"))) (instance $i (export "run" (func $f)))
                (export "wasi:cli/run@0.2.0" (instance $i)))"#,
            "`run` of `wasi:cli/run` isn't `func() -> result`",
        ),
        (
            r#"(component (import "wasi:sockets/tcp@0.2.0" (instance)) (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#,
            "no sockets",
        ),
        (
            r#"(component (import "wasi:cli/exit@0.2.0" (instance (export "explode" (func))))
                (core module $m (func (export "run") (result i32) (i32.const 0))) (core instance $m (instantiate $m))
                (func $f (result (result)) (canon lift (core func $m "run"))) (instance $i (export "run" (func $f)))
                (export "wasi:cli/run@0.2.0" (instance $i)))"#,
            "explode",
        ),
    ] {
        let refused = engine
            .admit(&wat::parse_str(text).expect("a component"))
            .err()
            .map(|why| why.to_string());
        assert!(
            refused.as_ref().is_some_and(|said| said.contains(why)),
            "{why}: {refused:?}"
        );
    }
}

// ---- waiting ----

#[test]
fn a_poll_never_sleeps_while_something_is_ready() {
    let code = "(i32.store (i32.const 64) (call $monotonic:subscribe-instant (i64.const -1)))
                (i32.store (i32.const 68) (call $streams:input-stream.subscribe (call $stdin:get-stdin)))
                (call $poll:poll (i32.const 64) (i32.const 2) (i32.const 0))
                (if (i32.ne (i32.load (i32.load (i32.const 0))) (i32.const 1)) (then unreachable))
                (if (i32.ne (i32.load (i32.const 4)) (i32.const 1)) (then unreachable))";
    let took = run(&command(code, ""), "");
    assert_eq!(took.reply(), "");
    assert_eq!(kinds(&took.world::<Fake>().tape), [""; 0]);
}

#[test]
fn as_many_as_can_be_held_can_be_polled() {
    let code = format!(
        "(loop $more
           (i32.store (i32.add (i32.const 16384) (i32.shl (local.get $a) (i32.const 2))) (call $monotonic:subscribe-instant (i64.const 0)))
           (br_if $more (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 1))) (i32.const {MAX_HANDLES}))))
         (call $poll:poll (i32.const 16384) (i32.const {MAX_HANDLES}) (i32.const 0))
         (if (i32.ne (i32.load (i32.const 4)) (i32.const {MAX_HANDLES})) (then unreachable))"
    );
    assert_eq!(run(&command(&code, ""), "").reply(), "");
}

#[test]
fn a_poll_of_timers_sleeps_until_the_nearest_and_no_timer_fires_early() {
    let code = "(drop (call $monotonic:now))
                (i32.store (i32.const 64) (call $monotonic:subscribe-instant (i64.const 50000000000000)))
                (i32.store (i32.const 68) (call $monotonic:subscribe-instant (i64.const 40000000000000)))
                (call $poll:poll (i32.const 64) (i32.const 2) (i32.const 0))
                (if (i32.ne (i32.load (i32.load (i32.const 0))) (i32.const 1)) (then unreachable))
                (call $poll:poll (i32.const 68) (i32.const 1) (i32.const 0))
                (call $poll:pollable.block (i32.load (i32.const 64)))";
    let took = run(&command(code, ""), "");
    assert_eq!(took.reply(), "");
    let tape = took.world::<Fake>().tape;
    assert_eq!(kinds(&tape), ["clock.monotonic", "clock.sleep", "clock.sleep"]);
    assert_eq!(
        tape[2].effect,
        Effect::ClockSleep {
            nanos: Exact(10_000_000_000_000)
        }
    );
}

#[test]
fn a_wait_that_cannot_end_is_refused() {
    let took = run(
        &command("(call $poll:poll (i32.const 0) (i32.const 0) (i32.const 0))", ""),
        "",
    );
    assert_eq!(
        stopped(&took),
        (Cause::BadValue, "a poll of 0 pollables; it takes 1 to 1000")
    );
    let waits = format!(
        "{REQUEST} {BODY} {HANDLE} (call $poll:pollable.block (call $http:future-incoming-response.subscribe (local.get $d)))"
    );
    let took = run(&command(&waits, URL), "");
    let (cause, detail) = stopped(&took);
    assert!(cause == Cause::BadValue && detail.contains("wait for ever"), "{detail}");
}

// ---- HTTP ----

/// At 4096: "example.com" (11), "/a?b" (4), "X-Name" (6), "body" (4).
const URL: &str = "example.com/a?bX-Namebody";

/// `$a`: a request.
const REQUEST: &str = "
    (local.set $a (call $http:new-fields))
    (call $http:fields.append (local.get $a) (i32.const 4111) (i32.const 6) (i32.const 4117) (i32.const 4) (i32.const 0))
    (local.set $a (call $http:new-outgoing-request (local.get $a)))
    (drop (call $http:outgoing-request.set-method (local.get $a) (i32.const 2) (i32.const 0) (i32.const 0)))
    (drop (call $http:outgoing-request.set-authority (local.get $a) (i32.const 1) (i32.const 4096) (i32.const 11)))
    (drop (call $http:outgoing-request.set-path-with-query (local.get $a) (i32.const 1) (i32.const 4107) (i32.const 4)))";
/// `$b`: its body, `$c`: the body's stream.
const BODY: &str = "
    (call $http:outgoing-request.body (local.get $a) (i32.const 0)) (local.set $b (i32.load (i32.const 4)))
    (call $http:outgoing-body.write (local.get $b) (i32.const 0)) (local.set $c (i32.load (i32.const 4)))";
const WRITE: &str = "(call $streams:output-stream.write (local.get $c) (i32.const 4117) (i32.const 4) (i32.const 0))";
const FINISH: &str = "(call $http:outgoing-body.finish (local.get $b) (i32.const 0) (i32.const 0) (i32.const 0))";
/// `$d`: the future.
const HANDLE: &str = "
    (call $handler:handle (local.get $a) (i32.const 0) (i32.const 0) (i32.const 0))
    (if (i32.load8_u (i32.const 0)) (then unreachable))
    (local.set $d (i32.load (i32.const 8)))";
/// Waits, and writes the body to stdout.
const ANSWER: &str = "
    (call $poll:pollable.block (call $http:future-incoming-response.subscribe (local.get $d)))
    (call $http:future-incoming-response.get (local.get $d) (i32.const 0))
    (if (i32.eqz (i32.load8_u (i32.const 0))) (then unreachable))
    (if (i32.load8_u (i32.const 8)) (then unreachable))
    (if (i32.load8_u (i32.const 16)) (then unreachable))
    (call $http:incoming-response.consume (i32.load (i32.const 24)) (i32.const 0))
    (call $http:incoming-body.stream (i32.load (i32.const 4)) (i32.const 0))
    (call $streams:output-stream.splice (call $stdout:get-stdout) (i32.load (i32.const 4)) (i64.const 1000) (i32.const 0))";
/// Waits, and exits with the number of the error code.
const ERROR: &str = "
    (call $http:future-incoming-response.get (local.get $d) (i32.const 0))
    (if (i32.eqz (i32.load8_u (i32.const 0))) (then unreachable))
    (if (i32.eqz (i32.load8_u (i32.const 16))) (then unreachable))
    (call $exit:exit-with-code (i32.load8_u (i32.const 24)))";

fn posted(body: &str) -> Effect {
    Effect::HttpFetch(Request {
        method: "POST".into(),
        url: "https://example.com/a?b".into(),
        headers: vec![Header {
            name: "x-name".into(),
            value: "body".into(),
        }],
        body: body.as_bytes().to_vec().into(),
    })
}

#[test]
fn a_rust_program_posts_by_the_standard_bindings() {
    let program = admit(&build_http());
    let budget = Budget::default();
    let took = take(&program, "example.com", &budget, fake(outside));
    assert_eq!(
        took.reply(),
        "201\nx-from: outside\nhello f\nrom out\nside\ntrailers: false\n"
    );
    let (fuel, tape) = (took.fuel, took.world::<Fake>().tape);
    let request = Effect::HttpFetch(Request {
        method: "POST".into(),
        url: "https://example.com/in?n=1".into(),
        headers: vec![Header {
            name: "x-kind".into(),
            value: "test".into(),
        }],
        body: b"payload".to_vec().into(),
    });
    assert_eq!(tape.iter().map(|entry| &entry.effect).collect::<Vec<_>>(), [&request]);
    let again = take(&program, "example.com", &budget, played(tape));
    assert_eq!((again.fuel, again.world::<Played>().left()), (fuel, 0));

    let refused = take(
        &program,
        "example.com",
        &budget,
        Memory::new(Grants::basic(), budget.clone()),
    );
    assert_eq!(failed(&refused), "exit code 1; ErrorCode::HttpRequestDenied");
}

#[test]
fn a_request_is_one_effect_whenever_its_body_is_finished() {
    let before = format!("{REQUEST} {BODY} {WRITE} {FINISH} {HANDLE} {ANSWER}");
    let after = format!("{REQUEST} {BODY} {HANDLE} {WRITE} {WRITE} {FINISH} {ANSWER}");
    let without = format!("{REQUEST} {HANDLE} {ANSWER}");
    for (code, body) in [(before, "body"), (after, "bodybody"), (without, "")] {
        let took = run(&command(&code, URL), "");
        assert_eq!(took.reply(), "hello from outside", "{code}");
        let tape = took.world::<Fake>().tape;
        assert_eq!(
            tape.into_iter().map(|entry| entry.effect).collect::<Vec<_>>(),
            [posted(body)],
            "{code}"
        );
    }
}

#[test]
fn a_refused_request_is_denied_and_a_failed_one_an_internal_error() {
    let program = admit(&command(&format!("{REQUEST} {HANDLE} {ERROR}"), URL));
    let budget = Budget::default();
    let took = take(&program, "", &budget, Memory::new(Grants::default(), budget.clone()));
    assert_eq!(failed(&took), "exit code 15", "HTTP-request-denied");
    assert_eq!(kinds(&took.world::<Memory>().journal.entries), ["http.fetch"]);
    let took = take(&program, "", &budget, fake(|_| Outcome::Failed("no route".into())));
    assert_eq!(failed(&took), "exit code 38", "internal-error");
    let granted = Memory::new(
        Grants::new(vec!["http:example.com".parse().expect("a grant")]),
        budget.clone(),
    );
    let program = admit(&command(&format!("{REQUEST} {HANDLE} {ANSWER}"), URL));
    assert_eq!(take(&program, "", &budget, granted).reply(), "hello");
}

#[test]
fn a_request_without_a_whole_body_is_not_sent() {
    let drop_body = "(call $http:drop-outgoing-body (local.get $b))";
    for code in [
        format!("{REQUEST} {BODY} {WRITE} {drop_body} {HANDLE} {ERROR}"),
        format!("{REQUEST} {BODY} {HANDLE} {WRITE} {drop_body} {ERROR}"),
    ] {
        let took = run(&command(&code, URL), "");
        assert_eq!(failed(&took), "exit code 38", "{code}");
        assert_eq!(kinds(&took.world::<Fake>().tape), [""; 0]);
    }
    let unwanted =
        format!("{REQUEST} {BODY} {HANDLE} (call $http:drop-future-incoming-response (local.get $d)) {FINISH}");
    let took = run(&command(&unwanted, URL), "");
    assert_eq!(took.reply(), "");
    assert_eq!(
        kinds(&took.world::<Fake>().tape),
        [""; 0],
        "nobody wants the response any more"
    );
}

#[test]
fn a_body_must_keep_its_promised_length_and_has_no_trailers() {
    let promise = "
        (local.set $a (call $http:new-fields))
        (call $http:fields.append (local.get $a) (i32.const 4121) (i32.const 14) (i32.const 4135) (i32.const 1) (i32.const 0))
        (local.set $a (call $http:new-outgoing-request (local.get $a)))
        (drop (call $http:outgoing-request.set-authority (local.get $a) (i32.const 1) (i32.const 4096) (i32.const 11)))";
    let finish = format!(
        "{FINISH} (if (i32.load8_u (i32.const 0)) (then (call $exit:exit-with-code (i32.load8_u (i32.const 8)))))"
    );
    let data = format!("{URL}content-length4");
    let kept = run(
        &command(&format!("{promise} {BODY} {WRITE} {finish} {HANDLE} {ANSWER}"), &data),
        "",
    );
    assert_eq!(kept.reply(), "hello from outside");
    let broken = run(
        &command(&format!("{promise} {BODY} {WRITE} {WRITE} {finish}"), &data),
        "",
    );
    assert_eq!(failed(&broken), "exit code 17", "HTTP-request-body-size");

    let trailers = "
        (local.set $e (call $http:new-fields))
        (call $http:fields.append (local.get $e) (i32.const 4111) (i32.const 6) (i32.const 4117) (i32.const 4) (i32.const 0))
        (call $http:outgoing-body.finish (local.get $b) (i32.const 1) (local.get $e) (i32.const 0))
        (call $exit:exit-with-code (i32.load8_u (i32.const 8)))";
    let took = run(&command(&format!("{REQUEST} {BODY} {trailers}"), URL), "");
    assert_eq!(failed(&took), "exit code 38", "internal-error");
}

// ---- hostile guests ----

#[test]
fn output_is_capped() {
    let write = "(loop $more
        (call $streams:output-stream.write-zeroes (local.get $a) (i64.const 65536) (i32.const 0))
        (br_if $more (i32.lt_u (local.tee $b (i32.add (local.get $b) (i32.const 1))) (i32.const TIMES))))";
    let code = |times: usize| {
        let write = write.replace("TIMES", &times.to_string());
        command(&format!("(local.set $a (call $stdout:get-stdout)) {write}"), "")
    };
    let took = run(&code(MAX_OUTPUT >> 16), "");
    assert_eq!(took.reply().len(), MAX_OUTPUT);
    let took = run(&code((MAX_OUTPUT >> 16) + 1), "");
    assert_eq!(stopped(&took).0, Cause::BadValue);
}

#[test]
fn one_write_is_capped() {
    for write in ["(i64.const 65537)", "(i64.const -1)"] {
        let code =
            format!("(call $streams:output-stream.write-zeroes (call $stdout:get-stdout) {write} (i32.const 0))");
        assert_eq!(stopped(&run(&command(&code, ""), "")).0, Cause::BadValue);
    }
}

#[test]
fn handles_are_capped() {
    for make in [
        "(call $stdin:get-stdin)",
        "(call $monotonic:subscribe-instant (i64.const 1))",
        "(call $http:new-fields)",
    ] {
        let took = run(&command(&format!("(loop $more (drop {make}) (br $more))"), ""), "");
        let (cause, detail) = stopped(&took);
        assert_eq!(cause, Cause::BadValue);
        assert!(
            detail.contains(&format!("more than {MAX_HANDLES} handles")),
            "{make}: {detail}"
        );
    }
}

#[test]
fn bytes_behind_handles_are_capped() {
    let body =
        "(call $http:outgoing-request.body (call $http:new-outgoing-request (call $http:new-fields)) (i32.const 0))
        (call $http:outgoing-body.write (i32.load (i32.const 4)) (i32.const 0)) (local.set $a (i32.load (i32.const 4)))
        (local.set $b (i32.const 0))
        (loop $more
          (call $streams:output-stream.write-zeroes (local.get $a) (i64.const 65536) (i32.const 0))
          (br_if $more (i32.lt_u (local.tee $b (i32.add (local.get $b) (i32.const 1))) (i32.const 16))))";
    let took = run(&command(&format!("(loop $again {body} (br $again))"), ""), "");
    let (cause, detail) = stopped(&took);
    assert_eq!(cause, Cause::BadValue);
    assert!(detail.contains(&format!("more than {MAX_HELD} bytes")), "{detail}");
}

#[test]
fn a_body_over_the_limit_fails_its_stream_and_not_the_turn() {
    let code = format!(
        "{REQUEST} {BODY}
         (loop $more (call $streams:output-stream.write-zeroes (local.get $c) (i64.const 65536) (i32.const 0))
           (local.set $e (i32.add (local.get $e) (i32.const 1)))
           (br_if $more (i32.eqz (i32.load8_u (i32.const 0)))))
         (call $http:http-error-code (i32.load (i32.const 8)) (i32.const 0))
         (if (i32.ne (i32.load8_u (i32.const 8)) (i32.const 17)) (then unreachable))
         (call $exit:exit-with-code (local.get $e))"
    );
    assert_eq!(
        failed(&run(&command(&code, URL), "")),
        format!("exit code {}", (MAX_VALUE >> 16) + 1)
    );
}

#[test]
fn much_randomness_is_many_asks_and_too_much_is_refused() {
    let code = |len: u64| {
        command(
            &format!("(call $random:get-random-bytes (i64.const {len}) (i32.const 0))"),
            "",
        )
    };
    let took = run(&code(10_000), "");
    assert_eq!(kinds(&took.world::<Fake>().tape).len(), 3);
    assert_eq!(kinds(&run(&code(0), "").world::<Fake>().tape), [""; 0]);
    assert_eq!(stopped(&run(&code(u64::from(u32::MAX)), "")).0, Cause::BadValue);
}

#[test]
fn too_many_fields_are_refused() {
    let append = "(call $http:fields.append (local.get $a) (i32.const 4111) (i32.const 6) (i32.const 4117) (i32.const 4) (i32.const 0))";
    let code = format!("(local.set $a (call $http:new-fields)) (loop $more {append} (br $more))");
    let took = run(&command(&code, URL), "");
    assert!(
        stopped(&took).1.contains("header fields of 1025 fields"),
        "{:?}",
        took.ending
    );
}

/// Parents before children, children before parents, everything twice. Each ends the turn or goes on; the host lives.
#[test]
fn any_order_of_drops_is_survived() {
    let goes_on = [
        // Parents first.
        "(call $http:drop-outgoing-request (local.get $a)) WRITE FINISH (call $streams:drop-output-stream (local.get $c))",
        "(call $http:drop-outgoing-body (local.get $b)) WRITE (call $streams:output-stream.flush (local.get $c) (i32.const 0))
         (call $streams:output-stream.check-write (local.get $c) (i32.const 0)) (call $http:drop-outgoing-request (local.get $a))",
        "FINISH WRITE (call $streams:output-stream.splice (local.get $c) (call $stdin:get-stdin) (i64.const 1) (i32.const 0))",
        // Another thing in the slot of what was dropped.
        "(call $http:drop-outgoing-body (local.get $b)) (drop (call $stdin:get-stdin)) (drop (call $stdin:get-stdin)) WRITE",
        "HANDLE (local.set $e (call $http:future-incoming-response.subscribe (local.get $d)))
         (call $http:drop-future-incoming-response (local.get $d)) (drop (call $http:new-fields))
         (call $poll:pollable.block (local.get $e)) (drop (call $poll:pollable.ready (local.get $e))) FINISH",
        // The same thing twice, where WASI has an answer.
        "(call $http:outgoing-request.body (local.get $a) (i32.const 0)) (if (i32.eqz (i32.load8_u (i32.const 0))) (then unreachable))
         (call $http:outgoing-body.write (local.get $b) (i32.const 0)) (if (i32.eqz (i32.load8_u (i32.const 0))) (then unreachable))",
        "FINISH HANDLE (call $http:future-incoming-response.get (local.get $d) (i32.const 0))
         (local.set $e (i32.load (i32.const 24)))
         (call $http:future-incoming-response.get (local.get $d) (i32.const 0)) (if (i32.eqz (i32.load8_u (i32.const 8))) (then unreachable))
         (call $http:incoming-response.consume (local.get $e) (i32.const 0)) (local.set $d (i32.load (i32.const 4)))
         (call $http:incoming-response.consume (local.get $e) (i32.const 0)) (if (i32.eqz (i32.load8_u (i32.const 0))) (then unreachable))
         (call $http:incoming-body.stream (local.get $d) (i32.const 0)) (call $http:drop-incoming-response (local.get $e))
         (call $http:incoming-body.stream (local.get $d) (i32.const 0)) (if (i32.eqz (i32.load8_u (i32.const 0))) (then unreachable))",
        "HANDLE (call $http:future-incoming-response.get (local.get $d) (i32.const 0)) (if (i32.load8_u (i32.const 0)) (then unreachable))",
    ];
    let ends = [
        "FINISH FINISH",
        "HANDLE HANDLE",
        "(call $http:drop-outgoing-body (local.get $b)) (call $http:drop-outgoing-body (local.get $b))",
        "(call $http:drop-outgoing-request (local.get $a)) HANDLE",
        "(call $streams:drop-output-stream (local.get $c)) WRITE",
        "(call $streams:drop-output-stream (local.get $a))",
        "(call $streams:drop-output-stream (i32.const 0))",
        "(call $streams:drop-output-stream (i32.const -1))",
        "(drop (call $http:new-outgoing-request (local.get $a)))",
        "(call $http:outgoing-body.finish (local.get $b) (i32.const 1) (local.get $a) (i32.const 0))",
        "(i32.store (i32.const 64) (local.get $c)) (call $poll:poll (i32.const 64) (i32.const 1) (i32.const 0))",
    ];
    let code = |rest: &str| {
        let rest = rest
            .replace("WRITE", WRITE)
            .replace("FINISH", FINISH)
            .replace("HANDLE", HANDLE);
        command(&format!("{REQUEST} {BODY} {rest}"), URL)
    };
    for rest in goes_on {
        let took = run(&code(rest), "input");
        assert!(
            matches!(took.ending, Ok(Ending::Replied(_))),
            "{rest}: {:?}",
            took.ending
        );
    }
    for rest in ends {
        assert_eq!(stopped(&run(&code(rest), "input")).0, Cause::BadValue, "{rest}");
    }
}

//! What toolchains emit, and how a command ends.

use lazaret_gate::record::{Cause, Ending};
use lazaret_gate::{Answer, Budget, Bytes, Effect, Exact, Outcome, TapeEntry};

use crate::support::command::{Fake, Played, admit, built, fake, played, take};
use crate::support::wasi::command;
use crate::support::world::Memory;
use crate::{compile, failed, kinds, logged, outside, run, run_gated, stopped};

#[test]
fn a_rust_program_says_hello() {
    let took = run(&compile("hello"), "");
    assert_eq!(took.reply(), "hello, agent\n");
    let Ok(Ending::Replied(reply)) = &took.ending else { panic!("no reply") };
    assert_eq!(reply.content_type, "text/plain; charset=utf-8");
    assert_eq!(kinds(&took.world::<Fake>().tape), [""; 0], "it asks for nothing");
}

#[test]
fn the_tool_answers_in_upper_case_and_logs_its_world() {
    let took = run(&built("wasi-tool"), "grüße\n");
    assert_eq!(took.reply(), "GRÜSSE\n");
    let tape = took.world::<Fake>().tape;
    let lines = logged(&tape);
    assert_eq!(lines[..3], ["arguments: []", "environment: [\"HOME=/nest\"]", "time: 1700000000123456789"]);
    assert!(lines[3].starts_with("order: "), "{lines:?}");
}

#[test]
fn a_refused_environment_is_an_empty_one() {
    let took = run_gated(&built("wasi-tool"), &["clock", "random", "log"]);
    assert_eq!(took.reply(), "");
    let tape = took.world::<Memory>().journal.entries;
    assert!(logged(&tape).contains(&"environment: []"));
    let asked = tape.iter().find(|entry| entry.effect == Effect::EnvironmentRead {}).expect("it was asked for");
    assert!(matches!(asked.outcome, Outcome::Refused(_)), "and the refusal is on the tape");
}

#[test]
fn refused_log_lines_are_recorded_and_the_guest_goes_on() {
    let took = run_gated(&built("wasi-tool"), &["clock", "random"]);
    assert_eq!(took.reply(), "");
    let tape = took.world::<Memory>().journal.entries;
    assert_eq!(tape.iter().filter(|entry| matches!(entry.outcome, Outcome::Refused(_))).count(), 5);
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
    assert!(reply.contains("]|/nest|Err("), "{reply}");
    let tape = took.world::<Fake>().tape;
    let sleeps: Vec<_> = tape.iter().filter(|entry| matches!(entry.effect, Effect::ClockSleep { .. })).collect();
    assert!(matches!(sleeps[..], [TapeEntry { effect: Effect::ClockSleep { nanos: Exact(30_000_000) }, .. }]));
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

#[test]
fn an_exit_code_fails_the_turn_with_the_last_line() {
    assert_eq!(failed(&run(&compile("busy"), "exit")), "exit code 1; no line end");
    assert_eq!(failed(&run(&command("(call $exit:exit-with-code (i32.const 7))", ""), "")), "exit code 7");
    assert_eq!(failed(&run(&command("(call $exit:exit (i32.const 1))", ""), "")), "exit code 1");
    assert_eq!(failed(&run(&command("(return (i32.const 1))", ""), "")), "exit code 1");
}

#[test]
fn an_exit_with_success_replies_with_what_was_written() {
    let code =
        "(call $streams:output-stream.write (call $stdout:get-stdout) (i32.const 4096) (i32.const 3) (i32.const 0))
                (call $exit:exit (i32.const 0)) unreachable";
    assert_eq!(run(&command(code, "yes"), "").reply(), "yes");
    let took = run(&command(code, "\\ff\\00\\01"), "");
    let Ok(Ending::Replied(reply)) = &took.ending else { panic!("{:?}", took.ending) };
    assert_eq!(reply.content_type, "application/octet-stream");
}

#[test]
fn a_panic_is_a_trap_and_its_message_is_in_the_log() {
    let took = run(&compile("busy"), "panic");
    assert_eq!(stopped(&took).0, Cause::Trap);
    let tape = took.world::<Fake>().tape;
    assert!(logged(&tape).iter().any(|line| line.contains("told to")), "{:?}", logged(&tape));
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
        assert_eq!(stopped(&took), (Cause::BadValue, "the answer doesn't fit the ask"), "{code}");
    }
}

#[test]
fn what_is_no_command_of_0_2_is_not_admitted() {
    let engine = lazaret_guest::Engine::new().expect("the engine starts");
    for (text, why) in [
        (r#"(component (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#, "no function `run`"),
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
        let refused = engine.admit(&wat::parse_str(text).expect("a component")).err().map(|why| why.to_string());
        assert!(refused.as_ref().is_some_and(|said| said.contains(why)), "{why}: {refused:?}");
    }
}

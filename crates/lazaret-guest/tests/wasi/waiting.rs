//! Polls and timers.

use lazaret_gate::record::Cause;
use lazaret_gate::{Effect, Exact};
use lazaret_guest::limits::MAX_HANDLES;

use crate::http::{BODY, HANDLE, REQUEST, URL};
use crate::support::command::Fake;
use crate::support::wasi::command;
use crate::{kinds, run, stopped};

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
    assert_eq!(tape[2].effect, Effect::ClockSleep { nanos: Exact(10_000_000_000_000) });
}

#[test]
fn a_wait_that_cannot_end_is_refused() {
    let took = run(&command("(call $poll:poll (i32.const 0) (i32.const 0) (i32.const 0))", ""), "");
    assert_eq!(stopped(&took), (Cause::BadValue, "a poll of 0 pollables; it takes 1 to 1000"));
    let waits = format!(
        "{REQUEST} {BODY} {HANDLE} (call $poll:pollable.block (call $http:future-incoming-response.subscribe (local.get $d)))"
    );
    let took = run(&command(&waits, URL), "");
    let (cause, detail) = stopped(&took);
    assert!(cause == Cause::BadValue && detail.contains("wait for ever"), "{detail}");
}

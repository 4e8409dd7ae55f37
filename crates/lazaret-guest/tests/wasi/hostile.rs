//! Guests that want too much, and guests that use their handles in every wrong order.

use lazaret_gate::limits::{MAX_OUTPUT, MAX_VALUE};
use lazaret_gate::record::{Cause, Ending};
use lazaret_guest::limits::{MAX_HANDLES, MAX_HELD};

use crate::http::{BODY, FINISH, HANDLE, REQUEST, URL, WRITE};
use crate::support::command::Fake;
use crate::support::wasi::command;
use crate::{failed, kinds, run, stopped};

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
    for make in
        ["(call $stdin:get-stdin)", "(call $monotonic:subscribe-instant (i64.const 1))", "(call $http:new-fields)"]
    {
        let took = run(&command(&format!("(loop $more (drop {make}) (br $more))"), ""), "");
        let (cause, detail) = stopped(&took);
        assert_eq!(cause, Cause::BadValue);
        assert!(detail.contains(&format!("more than {MAX_HANDLES} handles")), "{make}: {detail}");
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
    assert_eq!(failed(&run(&command(&code, URL), "")), format!("exit code {}", (MAX_VALUE >> 16) + 1));
}

#[test]
fn much_randomness_is_many_asks_and_too_much_is_refused() {
    let code = |len: u64| command(&format!("(call $random:get-random-bytes (i64.const {len}) (i32.const 0))"), "");
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
    assert!(stopped(&took).1.contains("header fields of 1025 fields"), "{:?}", took.ending);
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
        let rest = rest.replace("WRITE", WRITE).replace("FINISH", FINISH).replace("HANDLE", HANDLE);
        command(&format!("{REQUEST} {BODY} {rest}"), URL)
    };
    for rest in goes_on {
        let took = run(&code(rest), "input");
        assert!(matches!(took.ending, Ok(Ending::Replied(_))), "{rest}: {:?}", took.ending);
    }
    for rest in ends {
        assert_eq!(stopped(&run(&code(rest), "input")).0, Cause::BadValue, "{rest}");
    }
}

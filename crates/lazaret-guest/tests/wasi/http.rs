//! Requests, from a real program and from hand-written ones.

use lazaret_gate::effect::{Header, Request};
use lazaret_gate::{Budget, Effect, Grants, Outcome};

use crate::support::command::{Fake, Played, admit, fake, played, take};
use crate::support::wasi::command;
use crate::support::world::Memory;
use crate::{build_http, failed, kinds, outside, run};

/// At 4096: "example.com" (11), "/a?b" (4), "X-Name" (6), "body" (4).
pub(crate) const URL: &str = "example.com/a?bX-Namebody";

/// `$a`: a request.
pub(crate) const REQUEST: &str = "
    (local.set $a (call $http:new-fields))
    (call $http:fields.append (local.get $a) (i32.const 4111) (i32.const 6) (i32.const 4117) (i32.const 4) (i32.const 0))
    (local.set $a (call $http:new-outgoing-request (local.get $a)))
    (drop (call $http:outgoing-request.set-method (local.get $a) (i32.const 2) (i32.const 0) (i32.const 0)))
    (drop (call $http:outgoing-request.set-authority (local.get $a) (i32.const 1) (i32.const 4096) (i32.const 11)))
    (drop (call $http:outgoing-request.set-path-with-query (local.get $a) (i32.const 1) (i32.const 4107) (i32.const 4)))";
/// `$b`: its body, `$c`: the body's stream.
pub(crate) const BODY: &str = "
    (call $http:outgoing-request.body (local.get $a) (i32.const 0)) (local.set $b (i32.load (i32.const 4)))
    (call $http:outgoing-body.write (local.get $b) (i32.const 0)) (local.set $c (i32.load (i32.const 4)))";
pub(crate) const WRITE: &str =
    "(call $streams:output-stream.write (local.get $c) (i32.const 4117) (i32.const 4) (i32.const 0))";
pub(crate) const FINISH: &str =
    "(call $http:outgoing-body.finish (local.get $b) (i32.const 0) (i32.const 0) (i32.const 0))";
/// `$d`: the future.
pub(crate) const HANDLE: &str = "
    (call $handler:handle (local.get $a) (i32.const 0) (i32.const 0) (i32.const 0))
    (if (i32.load8_u (i32.const 0)) (then unreachable))
    (local.set $d (i32.load (i32.const 8)))";
/// Waits, and writes the body to stdout.
pub(crate) const ANSWER: &str = "
    (call $poll:pollable.block (call $http:future-incoming-response.subscribe (local.get $d)))
    (call $http:future-incoming-response.get (local.get $d) (i32.const 0))
    (if (i32.eqz (i32.load8_u (i32.const 0))) (then unreachable))
    (if (i32.load8_u (i32.const 8)) (then unreachable))
    (if (i32.load8_u (i32.const 16)) (then unreachable))
    (call $http:incoming-response.consume (i32.load (i32.const 24)) (i32.const 0))
    (call $http:incoming-body.stream (i32.load (i32.const 4)) (i32.const 0))
    (call $streams:output-stream.splice (call $stdout:get-stdout) (i32.load (i32.const 4)) (i64.const 1000) (i32.const 0))";
/// Waits, and exits with the number of the error code.
pub(crate) const ERROR: &str = "
    (call $http:future-incoming-response.get (local.get $d) (i32.const 0))
    (if (i32.eqz (i32.load8_u (i32.const 0))) (then unreachable))
    (if (i32.eqz (i32.load8_u (i32.const 16))) (then unreachable))
    (call $exit:exit-with-code (i32.load8_u (i32.const 24)))";

fn posted(body: &str) -> Effect {
    Effect::HttpFetch(Request {
        method: "POST".into(),
        url: "https://example.com/a?b".into(),
        headers: vec![Header { name: "x-name".into(), value: "body".into() }],
        body: body.as_bytes().to_vec().into(),
    })
}

#[test]
fn a_rust_program_posts_by_the_standard_bindings() {
    let program = admit(&build_http());
    let budget = Budget::default();
    let took = take(&program, "example.com", &budget, fake(outside));
    assert_eq!(took.reply(), "201\nx-from: outside\nhello f\nrom out\nside\ntrailers: false\n");
    let (fuel, tape) = (took.fuel, took.world::<Fake>().tape);
    let request = Effect::HttpFetch(Request {
        method: "POST".into(),
        url: "https://example.com/in?n=1".into(),
        headers: vec![Header { name: "x-kind".into(), value: "test".into() }],
        body: b"payload".to_vec().into(),
    });
    assert_eq!(tape.iter().map(|entry| &entry.effect).collect::<Vec<_>>(), [&request]);
    let again = take(&program, "example.com", &budget, played(tape));
    assert_eq!((again.fuel, again.world::<Played>().left()), (fuel, 0));

    let refused = take(&program, "example.com", &budget, Memory::new(Grants::basic(), budget.clone()));
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
        assert_eq!(tape.into_iter().map(|entry| entry.effect).collect::<Vec<_>>(), [posted(body)], "{code}");
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
    let granted = Memory::new(Grants::new(vec!["http:example.com".parse().expect("a grant")]), budget.clone());
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
    assert_eq!(kinds(&took.world::<Fake>().tape), [""; 0], "nobody wants the response any more");
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
    let kept = run(&command(&format!("{promise} {BODY} {WRITE} {finish} {HANDLE} {ANSWER}"), &data), "");
    assert_eq!(kept.reply(), "hello from outside");
    let broken = run(&command(&format!("{promise} {BODY} {WRITE} {WRITE} {finish}"), &data), "");
    assert_eq!(failed(&broken), "exit code 17", "HTTP-request-body-size");

    let trailers = "
        (local.set $e (call $http:new-fields))
        (call $http:fields.append (local.get $e) (i32.const 4111) (i32.const 6) (i32.const 4117) (i32.const 4) (i32.const 0))
        (call $http:outgoing-body.finish (local.get $b) (i32.const 1) (local.get $e) (i32.const 0))
        (call $exit:exit-with-code (i32.load8_u (i32.const 8)))";
    let took = run(&command(&format!("{REQUEST} {BODY} {trailers}"), URL), "");
    assert_eq!(failed(&took), "exit code 38", "internal-error");
}

/// At 4121: "Authorization" (13), "Bearer lazaret-secret:token" (27), "/?k=lazaret-secret%3Aother" (26).
const HANDLES: &str = "
    (local.set $a (call $http:new-fields))
    (call $http:fields.append (local.get $a) (i32.const 4121) (i32.const 13) (i32.const 4134) (i32.const 27) (i32.const 0))
    (local.set $a (call $http:new-outgoing-request (local.get $a)))
    (drop (call $http:outgoing-request.set-authority (local.get $a) (i32.const 1) (i32.const 4096) (i32.const 11)))
    (drop (call $http:outgoing-request.set-path-with-query (local.get $a) (i32.const 1) (i32.const 4161) (i32.const 26)))";

#[test]
fn the_use_of_each_secret_is_asked_before_the_request() {
    let data = format!("{URL}AuthorizationBearer lazaret-secret:token/?k=lazaret-secret%3Aother");
    let using = |slot: &str| Effect::SecretUse {
        slot: slot.into(),
        method: "GET".into(),
        url: "https://example.com/?k=lazaret-secret%3Aother".into(),
    };
    let budget = Budget::default();
    let grants = |names: &[&str]| Grants::new(names.iter().map(|name| name.parse().expect("a grant")).collect());
    let asked = |names: &[&str], code: &str| {
        let program = admit(&command(&format!("{HANDLES} {HANDLE} {code}"), &data));
        take(&program, "", &budget, Memory::new(grants(names), budget.clone()))
    };
    let took = asked(&["http:example.com", "secret:other", "secret:token"], ANSWER);
    assert_eq!(took.reply(), "hello");
    let tape = took.world::<Memory>().journal.entries;
    assert_eq!(kinds(&tape), ["secret.use", "secret.use", "http.fetch"]);
    assert_eq!([&tape[0].effect, &tape[1].effect], [&using("token"), &using("other")]);

    let took = asked(&["http:example.com", "secret:token"], ERROR);
    assert_eq!(failed(&took), "exit code 15", "HTTP-request-denied");
    let tape = took.world::<Memory>().journal.entries;
    assert_eq!(kinds(&tape), ["secret.use", "secret.use"], "the request itself is not asked for");
    assert!(matches!(tape[1].outcome, Outcome::Refused(_)));
}

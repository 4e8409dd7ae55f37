//! Every import of both worlds, one by one: it is charged, what it asks reaches the gate and the tape, and it does nothing
//! unpaid. An import that no test here calls fails the first test of its world.

#![expect(clippy::disallowed_methods, reason = "a test reads its data files")]
#![expect(clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

#[expect(dead_code, unreachable_pub, reason = "shared with other tests, which use the rest")]
mod support {
    pub mod command;
    pub mod wasi;
    pub mod world;
    pub mod wrap;
}

use std::collections::BTreeSet;

use lazaret_gate::record::{Cause, Ending, Stop};
use lazaret_gate::{Budget, Grant, Grants, Outcome, TapeEntry};
use lazaret_guest::limits::{FUEL_PER_ASK, FUEL_PER_CALL};
use lazaret_guest::wasi::{self, Kind};
use lazaret_guest::{Engine, Program, State, Terms, imports, turn};

use support::command::{Took, admit, root, take};
use support::world::Memory;

fn engine() -> Engine {
    Engine::new().expect("the engine starts")
}

fn everything() -> Grants {
    let names = ["storage", "log", "clock", "random", "environment", "model:rehearsal/echo", "tool:mail.list"];
    let rest = ["http:example.com", "agent:other", "secret:token"];
    let grants = names.iter().chain(&rest).map(|name| name.parse::<Grant>().expect("a grant"));
    Grants::new(grants.collect())
}

fn kinds(tape: &[TapeEntry]) -> Vec<&'static str> {
    tape.iter().map(|entry| entry.effect.kind()).collect()
}

fn ran_dry(ending: &Result<Ending, lazaret_gate::Halt>) -> bool {
    matches!(ending, Ok(Ending::Stopped(Stop { cause: Cause::Fuel, .. })))
}

// ---- the durable world ----

/// `interface.function` for each function in `wit/host.wit`.
fn functions_of_wit() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("wit/host.wit")).expect("wit/host.wit can be read");
    let mut functions = BTreeSet::new();
    let mut interface = "";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("interface ") {
            interface = name.trim_end_matches(" {");
        }
        if let Some((name, _)) = line.split_once(": func(").filter(|_| !line.starts_with("export")) {
            functions.insert(format!("{interface}.{}", name.trim_start_matches('%')));
        }
    }
    functions
}

/// One call of each import. Text is at 256: "rehearsal/echo" (14), "mail.list" (9), "other" (5), "GET" (3),
/// "https://example.com/" (20), "{}" (2), "token" (5).
const DURABLE: [(&str, &str); 13] = [
    ("storage.get", "(i32.const 256) (i32.const 4) (i32.const 64)"),
    ("storage.set", "(i32.const 256) (i32.const 4) (i32.const 256) (i32.const 9) (i32.const 64)"),
    ("storage.delete", "(i32.const 256) (i32.const 4) (i32.const 64)"),
    (
        "storage.list",
        "(i32.const 256) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 9) (i32.const 64)",
    ),
    ("log.write", "(i32.const 1) (i32.const 256) (i32.const 9) (i32.const 64)"),
    ("clock.now", "(i32.const 64)"),
    ("random.bytes", "(i32.const 9) (i32.const 64)"),
    ("model.generate", "(i32.const 256) (i32.const 14) (i32.const 0) (i32.const 0) (i32.const 9) (i32.const 64)"),
    ("tools.list", "(i32.const 64)"),
    ("tools.call", "(i32.const 270) (i32.const 9) (i32.const 307) (i32.const 2) (i32.const 64)"),
    (
        "http.fetch",
        "(i32.const 284) (i32.const 3) (i32.const 287) (i32.const 20) (i32.const 0) (i32.const 0) (i32.const 0) \
         (i32.const 0) (i32.const 64)",
    ),
    (
        "agents.send",
        "(i32.const 279) (i32.const 5) (i32.const 256) (i32.const 4) (i32.const 256) (i32.const 4) (i32.const 64)",
    ),
    ("secrets.handle", "(i32.const 309) (i32.const 5) (i32.const 64)"),
];

fn durable(call: &str) -> (Program, State) {
    let fields = format!(
        "{}\n(data (i32.const 256) \"rehearsal/echomail.listotherGEThttps://example.com/{{}}token\")
         (func (export \"handle\") (param i32 i32 i32 i32 i32 i32 i32) (result i32) {call} (call $done))",
        include_str!("support/prelude.wat")
    );
    let text = support::wrap::component(&fields, "utf8", "", "$main");
    let bytes = wat::parse_str(&text).unwrap_or_else(|why| panic!("{why}"));
    let admitted = engine().admit(&bytes).unwrap_or_else(|why| panic!("{call}: {why}"));
    let mut state = State::default();
    state.advance(&admitted.birth);
    state.settle(admitted.birth).expect("there is room for a newborn");
    (admitted.program, state)
}

fn take_durable(program: &Program, state: &State, grants: Grants, fuel: u64) -> (turn::Ran, u64) {
    let budget = Budget { fuel, ..Budget::default() };
    let input = lazaret_gate::record::Message::outside("text/plain", Vec::new());
    let world = Memory::new(grants, budget.clone());
    let ran = turn::run(program, state, &Terms { input: &input, budget: &budget }, Box::new(world));
    let fuel = ran.fuel;
    (ran, fuel)
}

#[test]
fn the_durable_imports_are_those_of_wit_and_all_are_tested() {
    let catalogue = imports::catalogue(&engine()).expect("everything can be defined");
    let defined: BTreeSet<_> =
        catalogue.iter().map(|import| format!("{}.{}", import.interface, import.function)).collect();
    assert_eq!(defined.len(), catalogue.len(), "nothing is defined twice");
    assert_eq!(defined, functions_of_wit());
    assert_eq!(defined, DURABLE.iter().map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn every_durable_import_is_charged_gated_and_recorded() {
    let (idle, state) = durable("");
    let (ran, idle) = take_durable(&idle, &state, everything(), Budget::default().fuel);
    assert_eq!(kinds(&Memory::tape(ran.world)), [""; 0]);
    for (name, arguments) in DURABLE {
        let (program, state) = durable(&format!("(call ${name} {arguments})"));
        // Whoever asks for a handle asks whether the secret may be used.
        let kind = if name == "secrets.handle" { "secret.use" } else { name };

        let (ran, fuel) = take_durable(&program, &state, everything(), Budget::default().fuel);
        assert!(matches!(ran.ending, Ok(Ending::Replied(_))), "{name}: {:?}", ran.ending);
        let tape = Memory::tape(ran.world);
        assert_eq!(kinds(&tape), [kind], "one ask, of its kind");
        assert!(matches!(tape[0].outcome, Outcome::Done(_)), "{name}: {:?}", tape[0].outcome);
        assert!(fuel >= idle + FUEL_PER_ASK, "{name} costs {fuel}");

        let (ran, fuel) = take_durable(&program, &state, Grants::default(), Budget::default().fuel);
        assert!(matches!(ran.ending, Ok(Ending::Replied(_))), "{name}: {:?}", ran.ending);
        let tape = Memory::tape(ran.world);
        assert_eq!(kinds(&tape), [kind], "a refused ask is on the tape, too");
        // Naming the tools that were granted is always granted.
        assert_eq!(matches!(tape[0].outcome, Outcome::Refused(_)), name != "tools.list", "{name}");
        assert!(fuel >= idle + FUEL_PER_ASK, "{name} refused costs {fuel}");

        let (ran, _) = take_durable(&program, &state, everything(), FUEL_PER_ASK);
        assert!(ran_dry(&ran.ending), "{name}: {:?}", ran.ending);
        assert_eq!(kinds(&Memory::tape(ran.world)), [""; 0], "{name} was asked unpaid");
    }
}

// ---- WASI ----

/// Functions on things that nobody can get: files, terminals and what servers have.
fn is_unreachable(function: &str) -> bool {
    let of = function.rsplit(']').next().and_then(|rest| rest.split('.').next()).unwrap_or_default();
    let never = ["descriptor", "directory-entry-stream", "terminal-input", "terminal-output"];
    let of_servers = ["incoming-request", "response-outparam", "outgoing-response"];
    function.starts_with('[') && never.iter().chain(&of_servers).any(|thing| *thing == of)
}

/// Code that calls WASI functions, and the asks it must come to. At 4096: "line\n" (5), "example.com" (11), "/a?b" (4),
/// "x-name" (6).
const WASI: [(&str, &[&str]); 21] = [
    ("(drop (call $monotonic:now))", &["clock.monotonic"]),
    ("(drop (call $monotonic:subscribe-duration (i64.const 5)))", &["clock.monotonic"]),
    ("(call $wall:now (i32.const 0))", &["clock.now"]),
    ("(call $random:get-random-bytes (i64.const 9) (i32.const 0))", &["random.bytes"]),
    ("(drop (call $random:get-random-u64))", &["random.bytes"]),
    ("(call $insecure:get-insecure-random-bytes (i64.const 9) (i32.const 0))", &["random.bytes"]),
    ("(drop (call $insecure:get-insecure-random-u64))", &["random.bytes"]),
    ("(call $seed:insecure-seed (i32.const 0))", &["random.bytes"]),
    ("(call $environment:get-environment (i32.const 0))", &["environment.read"]),
    ("(call $exit:exit (i32.const 0))", &[]),
    ("(call $exit:exit-with-code (i32.const 0))", &[]),
    (
        "(drop (call $monotonic:resolution)) (call $wall:resolution (i32.const 0))
         (call $environment:get-arguments (i32.const 0)) (call $environment:initial-cwd (i32.const 0))
         (call $terminal-stdin:get-terminal-stdin (i32.const 0)) (call $terminal-stdout:get-terminal-stdout (i32.const 0))
         (call $terminal-stderr:get-terminal-stderr (i32.const 0)) (call $preopens:get-directories (i32.const 0))",
        &[],
    ),
    (
        "(local.set $a (call $stdin:get-stdin))
         (call $streams:input-stream.read (local.get $a) (i64.const 2) (i32.const 0))
         (call $streams:input-stream.blocking-read (local.get $a) (i64.const 2) (i32.const 0))
         (call $streams:input-stream.skip (local.get $a) (i64.const 2) (i32.const 0))
         (call $streams:input-stream.blocking-skip (local.get $a) (i64.const 2) (i32.const 0))
         (local.set $b (call $streams:input-stream.subscribe (local.get $a)))
         (drop (call $poll:pollable.ready (local.get $b))) (call $poll:pollable.block (local.get $b))
         (i32.store (i32.const 64) (local.get $b)) (call $poll:poll (i32.const 64) (i32.const 1) (i32.const 0))
         (call $streams:drop-input-stream (local.get $a)) (call $poll:drop-pollable (local.get $b))",
        &[],
    ),
    (
        "(local.set $a (call $stdout:get-stdout)) (local.set $b (call $stdin:get-stdin))
         (call $streams:output-stream.check-write (local.get $a) (i32.const 0))
         (call $streams:output-stream.write (local.get $a) (i32.const 4096) (i32.const 5) (i32.const 0))
         (call $streams:output-stream.blocking-write-and-flush (local.get $a) (i32.const 4096) (i32.const 5) (i32.const 0))
         (call $streams:output-stream.flush (local.get $a) (i32.const 0))
         (call $streams:output-stream.blocking-flush (local.get $a) (i32.const 0))
         (call $poll:drop-pollable (call $streams:output-stream.subscribe (local.get $a)))
         (call $streams:output-stream.write-zeroes (local.get $a) (i64.const 2) (i32.const 0))
         (call $streams:output-stream.blocking-write-zeroes-and-flush (local.get $a) (i64.const 2) (i32.const 0))
         (call $streams:output-stream.splice (local.get $a) (local.get $b) (i64.const 2) (i32.const 0))
         (call $streams:output-stream.blocking-splice (local.get $a) (local.get $b) (i64.const 2) (i32.const 0))
         (call $streams:drop-output-stream (local.get $a))",
        &[],
    ),
    (
        "(local.set $a (call $stderr:get-stderr))
         (call $streams:output-stream.write (local.get $a) (i32.const 4096) (i32.const 5) (i32.const 0))",
        &["log.write"],
    ),
    (
        "(local.set $a (call $monotonic:subscribe-instant (i64.const 2000000000)))
         (drop (call $poll:pollable.ready (local.get $a))) (call $poll:pollable.block (local.get $a))",
        &["clock.monotonic", "clock.sleep"],
    ),
    (
        "(local.set $a (call $http:new-fields)) (call $http:fields.from-list (i32.const 0) (i32.const 0) (i32.const 0))
         (local.set $b (call $http:fields.clone (local.get $a)))
         (call $http:fields.append (local.get $b) (i32.const 4116) (i32.const 6) (i32.const 4096) (i32.const 4) (i32.const 0))
         (call $http:fields.get (local.get $b) (i32.const 4116) (i32.const 6) (i32.const 0))
         (drop (call $http:fields.has (local.get $b) (i32.const 4116) (i32.const 6)))
         (call $http:fields.set (local.get $b) (i32.const 4116) (i32.const 6) (i32.const 0) (i32.const 0) (i32.const 0))
         (call $http:fields.delete (local.get $b) (i32.const 4116) (i32.const 6) (i32.const 0))
         (call $http:fields.entries (local.get $b) (i32.const 0)) (call $http:drop-fields (local.get $a))",
        &[],
    ),
    (
        "(local.set $a (call $http:new-request-options))
         (call $http:request-options.connect-timeout (local.get $a) (i32.const 0))
         (drop (call $http:request-options.set-connect-timeout (local.get $a) (i32.const 0) (i64.const 0)))
         (call $http:request-options.first-byte-timeout (local.get $a) (i32.const 0))
         (drop (call $http:request-options.set-first-byte-timeout (local.get $a) (i32.const 0) (i64.const 0)))
         (call $http:request-options.between-bytes-timeout (local.get $a) (i32.const 0))
         (drop (call $http:request-options.set-between-bytes-timeout (local.get $a) (i32.const 0) (i64.const 0)))
         (call $http:drop-request-options (local.get $a))",
        &[],
    ),
    (
        "(local.set $a (call $http:new-outgoing-request (call $http:new-fields)))
         (drop (call $http:outgoing-request.set-method (local.get $a) (i32.const 2) (i32.const 0) (i32.const 0)))
         (call $http:outgoing-request.method (local.get $a) (i32.const 0))
         (drop (call $http:outgoing-request.set-authority (local.get $a) (i32.const 1) (i32.const 4101) (i32.const 11)))
         (call $http:outgoing-request.authority (local.get $a) (i32.const 0))
         (drop (call $http:outgoing-request.set-path-with-query (local.get $a) (i32.const 1) (i32.const 4112) (i32.const 4)))
         (call $http:outgoing-request.path-with-query (local.get $a) (i32.const 0))
         (drop (call $http:outgoing-request.set-scheme (local.get $a) (i32.const 1) (i32.const 1) (i32.const 0) (i32.const 0)))
         (call $http:outgoing-request.scheme (local.get $a) (i32.const 0))
         (call $http:drop-fields (call $http:outgoing-request.headers (local.get $a)))
         (call $http:outgoing-request.body (local.get $a) (i32.const 0)) (local.set $b (i32.load (i32.const 4)))
         (call $http:outgoing-body.write (local.get $b) (i32.const 0)) (local.set $c (i32.load (i32.const 4)))
         (call $streams:output-stream.write (local.get $c) (i32.const 4096) (i32.const 5) (i32.const 0))
         (call $streams:drop-output-stream (local.get $c))
         (call $http:outgoing-body.finish (local.get $b) (i32.const 0) (i32.const 0) (i32.const 0))
         (call $handler:handle (local.get $a) (i32.const 0) (i32.const 0) (i32.const 0)) (local.set $a (i32.load (i32.const 8)))
         (local.set $b (call $http:future-incoming-response.subscribe (local.get $a)))
         (call $poll:pollable.block (local.get $b))
         (call $http:future-incoming-response.get (local.get $a) (i32.const 0)) (local.set $c (i32.load (i32.const 24)))
         (call $http:drop-future-incoming-response (local.get $a))
         (drop (call $http:incoming-response.status (local.get $c)))
         (call $http:drop-fields (call $http:incoming-response.headers (local.get $c)))
         (call $http:incoming-response.consume (local.get $c) (i32.const 0)) (local.set $d (i32.load (i32.const 4)))
         (call $http:drop-incoming-response (local.get $c))
         (call $http:incoming-body.stream (local.get $d) (i32.const 0))
         (local.set $d (call $http:incoming-body.finish (local.get $d)))
         (call $poll:drop-pollable (call $http:future-trailers.subscribe (local.get $d)))
         (call $http:future-trailers.get (local.get $d) (i32.const 0)) (call $http:drop-future-trailers (local.get $d))",
        &["http.fetch"],
    ),
    (
        "(local.set $a (call $http:new-outgoing-request (call $http:new-fields)))
         (call $http:outgoing-request.body (local.get $a) (i32.const 0)) (local.set $b (i32.load (i32.const 4)))
         (call $http:drop-outgoing-request (local.get $a))
         (call $http:outgoing-body.write (local.get $b) (i32.const 0)) (local.set $c (i32.load (i32.const 4)))
         (loop $more (call $streams:output-stream.write-zeroes (local.get $c) (i64.const 65536) (i32.const 0))
           (br_if $more (i32.eqz (i32.load8_u (i32.const 0)))))
         (local.set $d (i32.load (i32.const 8))) (call $error:error.to-debug-string (local.get $d) (i32.const 0))
         (call $http:http-error-code (local.get $d) (i32.const 0))
         (call $filesystem:filesystem-error-code (local.get $d) (i32.const 0))
         (call $error:drop-error (local.get $d)) (call $http:drop-outgoing-body (local.get $b))",
        &[],
    ),
    (
        "(local.set $a (call $http:new-outgoing-request (call $http:new-fields)))
         (drop (call $http:outgoing-request.set-authority (local.get $a) (i32.const 1) (i32.const 4101) (i32.const 11)))
         (call $handler:handle (local.get $a) (i32.const 0) (i32.const 0) (i32.const 0))
         (call $http:future-incoming-response.get (i32.load (i32.const 8)) (i32.const 0))
         (call $http:incoming-response.consume (i32.load (i32.const 24)) (i32.const 0))
         (call $http:drop-incoming-body (i32.load (i32.const 4)))",
        &["http.fetch"],
    ),
];

const DATA: &str = "line\\nexample.com/a?bx-name";

fn take_wasi(program: &Program, grants: Grants, fuel: u64) -> Took {
    let budget = Budget { fuel, ..Budget::default() };
    take(program, "0123456789abcdef", &budget, Memory::new(grants, budget.clone()))
}

#[test]
fn the_wasi_imports_are_those_of_wasi_and_all_are_tested() {
    let catalogue = wasi::catalogue(&engine()).expect("everything can be defined");
    let defined: BTreeSet<_> = catalogue.iter().map(|i| (i.interface.to_owned(), i.function.clone())).collect();
    assert_eq!(defined.len(), catalogue.len(), "nothing is defined twice");
    let declared = support::wasi::declared();
    assert_eq!(defined, declared.iter().map(|d| (d.interface.to_owned(), d.function.clone())).collect());
    // That they have the right types is shown by each command below: all of them import everything.
    for function in declared {
        let is_called = WASI.iter().any(|(code, _)| support::wasi::calls(code, &function.name) > 0);
        assert_ne!(is_called, is_unreachable(&function.function), "{} {}", function.interface, function.function);
    }
}

#[test]
fn every_wasi_import_is_charged_and_asks_what_it_says() {
    let idle = take_wasi(&admit(&support::wasi::command("", DATA)), everything(), Budget::default().fuel).fuel;
    for (code, asks) in WASI {
        let program = admit(&support::wasi::command(code, DATA));
        let took = take_wasi(&program, everything(), Budget::default().fuel);
        assert!(matches!(took.ending, Ok(Ending::Replied(_))), "{code}: {:?}", took.ending);
        let calls = code.matches("(call $").count() as u64;
        let least = idle + calls * FUEL_PER_CALL + asks.len() as u64 * FUEL_PER_ASK;
        assert!(took.fuel >= least, "{code}: {calls} calls and {asks:?} cost {} and not {least}", took.fuel);
        assert_eq!(kinds(&took.world::<Memory>().journal.entries), asks, "{code}");

        let took = take_wasi(&program, everything(), idle + FUEL_PER_CALL / 2);
        assert!(ran_dry(&took.ending), "{code}: {:?}", took.ending);
        assert_eq!(kinds(&took.world::<Memory>().journal.entries), [""; 0], "{code}: asked unpaid");
    }
}

#[test]
fn every_wasi_ask_is_of_a_declared_kind() {
    for import in wasi::catalogue(&engine()).expect("everything can be defined") {
        let is_it = |d: &support::wasi::Declared| (d.interface, &d.function) == (import.interface, &import.function);
        let declared = support::wasi::declared().into_iter().find(is_it);
        let name = declared.expect("the catalogue and the declarations agree").name;
        for (code, asks) in WASI.iter().filter(|(code, _)| support::wasi::calls(code, &name) > 0) {
            let is_alone = code.matches("(call $").count() == 1;
            match import.kind {
                Kind::Local => assert!(!is_alone || asks.is_empty(), "{name} is said not to ask"),
                Kind::Asks(kind) => assert_eq!(*asks, [kind], "{name}"),
                Kind::MayAsk(kinds) => {
                    assert!(asks.iter().all(|asked| kinds.contains(asked)) || !is_alone, "{name} asks {asks:?}");
                }
            }
        }
    }
}

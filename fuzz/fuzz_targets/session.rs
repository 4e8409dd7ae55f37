//! Whatever comes over the local socket: nothing panics, a stranger is answered nothing but pings and health, and whoever may
//! ask is told of nonsense in one line.

#![no_main]

use lazaret_link::{Fault, Session, Step, Token};
use libfuzzer_sys::fuzz_target;

/// No seed has it, and a fuzzer won't guess it.
const TOKEN: &str = "b5a1c3f08e1d4f7793a6c0de5517aa42b5a1c3f08e1d4f7793a6c0de5517aa42";

/// What both are told, for bytes that are cut in some way.
fn feed(session: &mut Session, bytes: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    for piece in bytes.chunks(1 + bytes.len() % 64) {
        steps.extend(session.take(piece, 0));
    }
    steps.extend(session.end(false));
    steps
}

fn is_line(said: &[u8]) -> bool {
    said.iter().position(|byte| *byte == b'\n') == Some(said.len() - 1)
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(token) = Token::parse(TOKEN) else { return };
    let mut stranger = Session::new(token);
    let steps = feed(&mut stranger, bytes);
    assert!(!stranger.is_known());
    for step in steps {
        match step {
            Step::Ask(ask) => assert!(ask.request.is_open(), "{:?}", ask.request),
            Step::Say(line) => {
                let text = String::from_utf8_lossy(&line);
                assert!(is_line(&line) && (text.starts_with("ERROR ") || text.contains("\"error\":{")), "{text}");
            }
            Step::Close => {}
        }
    }
    let Ok(token) = Token::parse(TOKEN) else { return };
    let mut known = Session::new(token);
    known.take(format!("{{\"id\":0,\"hello\":{{\"versions\":[1],\"token\":\"{TOKEN}\"}}}}\n").as_bytes(), 0);
    assert!(known.is_known());
    for step in feed(&mut known, bytes) {
        match step {
            Step::Ask(ask) => assert!(is_line(&ask.ticket.say(Err(Fault::new("no", ask.request.name(), 1))))),
            Step::Say(line) => assert!(is_line(&line), "{}", String::from_utf8_lossy(&line)),
            Step::Close => {}
        }
    }
});

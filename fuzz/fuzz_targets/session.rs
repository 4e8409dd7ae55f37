//! Whatever comes over the local socket: nothing panics, and a stranger is answered nothing but pings and health.

#![no_main]

use lazaret_link::{Session, Step, Token};
use libfuzzer_sys::fuzz_target;

/// No seed has it, and a fuzzer won't guess it.
const TOKEN: &str = "b5a1c3f08e1d4f7793a6c0de5517aa42b5a1c3f08e1d4f7793a6c0de5517aa42";

fuzz_target!(|bytes: &[u8]| {
    let Ok(token) = Token::parse(TOKEN) else { return };
    let mut session = Session::new(token);
    let mut steps = Vec::new();
    for piece in bytes.chunks(1 + bytes.len() % 64) {
        steps.extend(session.take(piece, 0));
    }
    steps.extend(session.end(false));
    assert!(!session.is_known());
    for step in steps {
        match step {
            Step::Ask(ask) => assert!(ask.request.is_open(), "{:?}", ask.request),
            Step::Say(line) => {
                let text = String::from_utf8_lossy(&line);
                assert!(text.starts_with("ERROR ") || text.contains("\"error\":{"), "{text}");
            }
            Step::Close => {}
        }
    }
});

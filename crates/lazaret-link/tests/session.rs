//! What a connection can say, and what follows: calls, commands, tokens, versions, and everything that is none of these.

#![expect(clippy::expect_used, clippy::panic, reason = "a test says what it expects")]

use lazaret_link::limits::{MAX_LINE, MAX_STRANGER_LINE, RATE, STRANGER_RATE};
use lazaret_link::{AgentRequest, BadFrame, Fault, Health, KillRequest, Reply, Request, Said, Session, Step, Token};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn session() -> Session {
    Session::new(Token::parse(TOKEN).expect("a token"))
}

fn known() -> Session {
    let mut session = session();
    let hello = format!("{{\"id\":0,\"hello\":{{\"versions\":[9,1],\"token\":\"{TOKEN}\"}}}}\n");
    let steps = session.take(hello.as_bytes(), 0);
    let said = said(&steps);
    assert!(matches!(said[0].ok, Some(Reply::Hello { version: 1, .. })), "{said:?}");
    assert!(session.is_known());
    session
}

/// What was said, as far as it is JSON.
fn said(steps: &[Step]) -> Vec<Said> {
    let lines = steps.iter().filter_map(|step| match step {
        Step::Say(bytes) => Some(serde_json::from_slice(bytes).expect("a line of JSON")),
        _ => None,
    });
    lines.collect()
}

fn text(steps: &[Step]) -> String {
    let bytes = steps.iter().filter_map(|step| if let Step::Say(bytes) = step { Some(bytes.as_slice()) } else { None });
    String::from_utf8(bytes.collect::<Vec<_>>().concat()).expect("text")
}

fn asks(steps: &[Step]) -> Vec<Request> {
    let asks = steps.iter().filter_map(|step| if let Step::Ask(ask) = step { Some(ask.request.clone()) } else { None });
    asks.collect()
}

#[track_caller]
fn fault(steps: &[Step], code: &str) -> Fault {
    let said = said(steps);
    let fault = said.first().and_then(|said| said.error.clone()).unwrap_or_else(|| panic!("no fault in {steps:?}"));
    assert_eq!(fault.code, code, "{fault:?}");
    fault
}

#[test]
fn ping_and_health_need_no_token_and_all_else_does() {
    for (line, request) in [("PING", Request::Ping), ("HEALTH", Request::Health)] {
        assert_eq!(asks(&session().take(format!("{line}\n").as_bytes(), 0)), std::slice::from_ref(&request));
        let name = line.to_lowercase();
        assert_eq!(asks(&session().take(format!("{{\"id\":1,\"ask\":\"{name}\"}}\r\n").as_bytes(), 0)), [request]);
    }
    for line in ["STATUS", "AGENTS", "REVOKE bo", "KILL all", "KILL spend"] {
        let steps = session().take(format!("{line}\n").as_bytes(), 0);
        assert!(asks(&steps).is_empty() && text(&steps).starts_with("ERROR token-needed "), "{line}: {steps:?}");
        let wrong = session().take(format!("{line} {}\nPING\n", "0".repeat(32)).as_bytes(), 0);
        assert!(asks(&wrong).is_empty() && text(&wrong).starts_with("ERROR wrong-token "), "{line}: {wrong:?}");
        assert_eq!(wrong.last(), Some(&Step::Close), "a wrong token ends the connection");
        assert_eq!(asks(&session().take(format!("{line} {TOKEN}\n").as_bytes(), 0)).len(), 1, "{line}");
        assert_eq!(asks(&known().take(format!("{line}\n").as_bytes(), 0)).len(), 1, "{line}");
    }
    fault(&session().take(b"{\"id\":1,\"ask\":\"status\"}\n", 0), "hello-first");
    let hello = "{\"id\":0,\"hello\":{\"versions\":[1],\"token\":\"nope\"}}\n{\"id\":1,\"ask\":\"status\"}\n";
    let steps = session().take(hello.as_bytes(), 0);
    fault(&steps, "wrong-token");
    assert!(asks(&steps).is_empty() && steps.last() == Some(&Step::Close));
}

#[test]
fn versions_are_agreed_on_or_the_connection_ends() {
    let hello = format!("{{\"id\":0,\"hello\":{{\"versions\":[2,3],\"token\":\"{TOKEN}\"}}}}\n");
    let mut session = session();
    let steps = session.take(hello.as_bytes(), 0);
    let fault = fault(&steps, "version");
    assert!(fault.text().contains("this keeper speaks 1"), "{fault}");
    assert_eq!(steps.last(), Some(&Step::Close));
    assert!(session.take(b"PING\n", 0).is_empty(), "nothing is read after the end");
}

#[test]
fn commands_say_what_they_take() {
    let plain = |line: &str| text(&known().take(format!("{line}\n").as_bytes(), 0));
    for (line, code) in [
        ("ping", "unknown-command"),
        ("PING PING", "usage"),
        ("STATUS a b", "usage"),
        ("REVOKE", "usage"),
        ("REVOKE Bo!", "usage"),
        ("KILL", "usage"),
        ("KILL everything", "usage"),
        ("GET / HTTP/1.1", "unknown-command"),
    ] {
        assert!(plain(line).starts_with(&format!("ERROR {code} ")), "{line}: {}", plain(line));
    }
    let kill = asks(&known().take(b"KILL all\n", 0));
    assert!(matches!(&kill[..], [Request::Kill(KillRequest { lift: false, .. })]));
    assert!(matches!(asks(&known().take(b"AGENTS\n", 0))[..], [Request::Agent(AgentRequest::List { all: false })]));
}

#[test]
fn answers_are_one_line_each_whatever_is_in_them() {
    let mut known = known();
    let asked = known.take(b"{\"id\":7,\"ask\":\"health\"}\nHEALTH\nSTATUS\n", 0);
    let tickets: Vec<_> =
        asked.iter().filter_map(|step| if let Step::Ask(ask) = step { Some(ask.ticket) } else { None }).collect();
    assert_eq!(tickets[0].say(Ok(Reply::Health(Health::Ok))), b"{\"id\":7,\"ok\":{\"health\":\"ok\"}}\n");
    assert_eq!(tickets[1].say(Ok(Reply::Health(Health::Stopping))), b"STOPPING\n");
    let nasty = Fault::new("x", "two\nlines\r\u{1b}[31m\u{202e}; and\na hint", 1);
    let line = String::from_utf8(tickets[2].say(Err(nasty.clone()))).expect("text");
    assert_eq!(line.matches('\n').count(), 1, "{line:?}");
    assert!(!line.contains(['\u{1b}', '\u{202e}', '\r']), "{line:?}");
    let json = String::from_utf8(tickets[0].say(Err(nasty))).expect("text");
    assert_eq!(json.matches('\n').count(), 1, "{json:?}");
}

#[test]
fn lines_that_are_none_are_told_by_kind() {
    let one = |bytes: &[u8]| known().take(bytes, 0);
    assert!(text(&one(b"\xff\xfe\n")).starts_with("ERROR not-text"));
    fault(&one(b"{\"id\":\xff}\n"), "not-text");
    fault(&one(b"{\"id\":1,\"ask\":\"pi\0ng\"}\n"), "zero-byte");
    fault(&one(format!("{{\"id\":{}\n", "[".repeat(10_000)).as_bytes()), "too-deep");
    for bad in ["{", "{}", "{\"id\":1}", "{\"id\":-1,\"ask\":\"ping\"}", "{\"id\":1,\"ask\":\"pong\"}"] {
        fault(&one(format!("{bad}\n").as_bytes()), "not-a-call");
    }
    fault(&one(b"{\"id\":1,\"ask\":\"ping\",\"more\":1}\n"), "not-a-call");
    let token = format!("{{\"id\":1,\"hello\":{{\"versions\":[1],\"token\":\"{TOKEN}\",\"x\":1}}}}\n");
    assert!(!fault(&one(token.as_bytes()), "not-a-call").text().contains(TOKEN));
    // Too long, before and after the token was shown.
    let long = vec![b'{'; MAX_STRANGER_LINE + 1];
    let mut stranger = session();
    fault(&stranger.take(&long, 0), "too-large");
    assert!(stranger.take(b"\nPING\n", 0).is_empty());
    let mut known = known();
    assert!(known.take(&long, 0).is_empty() && known.is_partial());
    fault(&known.take(&vec![b'x'; MAX_LINE], 0), "too-large");
    // Cut off, and slow.
    let mut cut = session();
    assert!(cut.take(b"PI", 0).is_empty());
    assert!(text(&cut.end(false)).starts_with("ERROR truncated "), "in the language that was begun with");
    let mut cut = session();
    cut.take(b"PING\n{\"id\"", 0);
    fault(&cut.end(false), BadFrame::Truncated.code());
    let mut slow = session();
    slow.take(b"{\"id\"", 0);
    fault(&slow.end(true), BadFrame::Slow.code());
    assert!(session().end(false).is_empty());
}

#[test]
fn calls_are_counted() {
    let mut stranger = session();
    let pings = "PING\n".repeat(STRANGER_RATE as usize + 2);
    let steps = stranger.take(pings.as_bytes(), 0);
    assert_eq!(asks(&steps).len() as u64, STRANGER_RATE);
    assert!(text(&steps).starts_with("ERROR too-fast ") && steps.last() == Some(&Step::Close));
    let mut known = known();
    let pings = "PING\n".repeat(RATE as usize + 5);
    let steps = known.take(pings.as_bytes(), 0);
    assert_eq!(asks(&steps).len() as u64, RATE);
    assert!(!steps.contains(&Step::Close));
    assert_eq!(asks(&known.take(b"PING\n", 0)).len(), 0);
    assert_eq!(asks(&known.take(b"PING\n", 100)).len(), 1, "time brings more");
}

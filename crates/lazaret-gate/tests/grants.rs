//! Grants and what they cover, as tables: a new case is a new line.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use lazaret_gate::effect::{Prompt, Request};
use lazaret_gate::stages::{declared, form};
use lazaret_gate::{Bytes, Effect, Grant, Grants};

/// What is written, and how it is written back.
const LAWFUL: &[(&str, &str)] = &[
    ("storage", "storage"),
    ("log", "log"),
    ("clock", "clock"),
    ("random", "random"),
    ("environment", "environment"),
    ("model:rehearsal/small", "model:rehearsal/small"),
    ("model:rehearsal/*", "model:rehearsal/*"),
    ("tool:mail.list", "tool:mail.list"),
    ("tool:a-b_c.D/9*", "tool:a-b_c.D/9*"),
    ("http:example.com", "http:example.com"),
    ("http:https://example.com", "http:example.com"),
    ("http:https://example.com:443", "http:example.com"),
    ("http:example.com:443", "http:example.com"),
    ("http:example.com:80", "http:example.com:80"),
    ("http:http://example.com", "http:http://example.com"),
    ("http:http://example.com:80", "http:http://example.com"),
    ("http:http://example.com:443", "http:http://example.com:443"),
    ("http:[::1]", "http:[::1]"),
    ("http:http://[::1]:8080", "http:http://[::1]:8080"),
    ("agent:clerk-2", "agent:clerk-2"),
];

const UNLAWFUL: &[&str] = &[
    "",
    "Storage",
    "storage ",
    "storage:x",
    "files",
    "tool",
    "tool:",
    "tool:*",
    "tool:a b",
    "tool:a**",
    "tool:é",
    "model:",
    "model:*",
    "http",
    "http:",
    "http:http://",
    "http:*",
    "http:*.example.com",
    "http:EXAMPLE.com",
    "http:example.com/",
    "http:example.com:",
    "http:example.com:0",
    "http:example.com:080",
    "http:example.com:65536",
    "http:example.com:+80",
    "http:user@example.com",
    "http:ftp://example.com",
    "http:example..com",
    "http:.example.com",
    "http:example.com.",
    "http:[::1",
    "http:::1",
    "http:[example.com]",
    "http:[::1%1]",
    "http:exa_mple.com",
    "http:exam%70le.com",
    "agent",
    "agent:",
    "agent:Clerk",
    "agent:1",
    "agent:a b",
];

#[test]
fn grants_have_one_spelling() {
    for (written, back) in LAWFUL {
        assert_eq!(written.parse::<Grant>().map(|grant| grant.to_string()).as_deref(), Ok(*back), "{written}");
    }
    for written in UNLAWFUL {
        let why = written.parse::<Grant>().expect_err(written).to_string();
        assert!(why.starts_with(&format!("`{written}` is not a grant: ")), "{why}");
    }
    let long = format!("tool:{}", "a".repeat(129));
    assert!(long.parse::<Grant>().is_err());
    assert!(long[1..].parse::<Grant>().is_err());
    assert!(format!("http:{}.com", "a".repeat(64)).parse::<Grant>().is_err());
    assert!(format!("agent:{}", "a".repeat(65)).parse::<Grant>().is_err());
}

#[test]
fn what_is_wrong_with_a_grant_is_said() {
    let says = |text: &str| text.parse::<Grant>().unwrap_err().to_string();
    assert_eq!(
        says("tool:*"),
        "`tool:*` is not a grant: write storage, log, clock, random, environment, model:PROVIDER/NAME, tool:NAME, \
         http:HOST[:PORT] (https), http:http://HOST[:PORT] (plain), or agent:NAME"
    );
    assert_eq!(says("http:a:0"), "`http:a:0` is not a grant: the port must be 1 to 65535 without leading zeros");
    assert_eq!(
        says("http:u@a"),
        "`http:u@a` is not a grant: the host must be lower-case letters, digits, `-` and `.`, or an address in `[…]`, \
         and no user information"
    );
    assert_eq!(
        says("agent:A"),
        "`agent:A` is not a grant: `A` can't name an agent: use 1 to 64 lower-case letters, digits and `-`, starting with \
         a letter"
    );
}

#[test]
fn grants_are_sorted_and_each_once() {
    let grants = |texts: &[&str]| Grants::new(texts.iter().map(|text| text.parse().unwrap()).collect());
    let all = grants(&[
        "agent:a",
        "http:b",
        "http:http://a",
        "http:b:1",
        "tool:b",
        "tool:a*",
        "tool:a",
        "log",
        "storage",
        "log",
    ]);
    let sorted: Vec<String> = all.iter().map(ToString::to_string).collect();
    let expected = ["storage", "log", "tool:a", "tool:a*", "tool:b", "http:b:1", "http:b", "http:http://a", "agent:a"];
    assert_eq!(sorted, expected);
    let json = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<Grants>(&json).unwrap(), all);
    assert!(serde_json::from_str::<Grants>("[\"tool:*\"]").is_err());
}

fn fetch(url: &str) -> Effect {
    Effect::HttpFetch(Request { method: "GET".into(), url: url.into(), headers: Vec::new(), body: Bytes::default() })
}

fn tool(name: &str) -> Effect {
    Effect::ToolsCall { name: name.into(), arguments: "{}".into() }
}

fn model(name: &str) -> Effect {
    Effect::ModelGenerate(Prompt { model: name.into(), utterances: Vec::new(), max_tokens: 1 })
}

fn send(to: &str) -> Effect {
    Effect::AgentsSend { to: to.into(), content_type: String::new(), body: Bytes::default() }
}

/// `Ok` if granted, else the refusal's text.
fn ask(grants: &[&str], effect: Effect) -> Result<(), String> {
    let grants = Grants::new(grants.iter().map(|grant| grant.parse().unwrap()).collect());
    let formed = form(effect).map_err(|refusal| refusal.to_string())?;
    declared(formed, &grants).map(|_| ()).map_err(|refusal| refusal.to_string())
}

#[test]
fn urls_that_a_grant_covers() {
    for (grant, url) in [
        ("http:example.com", "https://example.com"),
        ("http:example.com", "https://example.com/"),
        ("http:example.com", "https://example.com/a/b?c=d&e=%20"),
        ("http:example.com", "https://example.com?q"),
        ("http:example.com", "https://example.com:443/"),
        ("http:example.com:8443", "https://example.com:8443/"),
        ("http:http://localhost:8080", "http://localhost:8080/x"),
        ("http:http://localhost", "http://localhost:80/x"),
        ("http:[::1]", "https://[::1]/"),
        ("http:[::1]:8443", "https://[::1]:8443/"),
    ] {
        assert_eq!(ask(&[grant], fetch(url)), Ok(()), "{grant} {url}");
    }
}

#[test]
fn urls_that_it_does_not() {
    let nearest = "the nearest grant is `http:example.com`";
    for (url, wanted, clause) in [
        ("https://example.org/", "http:example.org", "the host differs"),
        ("https://www.example.com/", "http:www.example.com", "the host differs"),
        ("https://example.com.evil.org/", "http:example.com.evil.org", "the host differs"),
        ("https://evil.org/example.com", "http:evil.org", "the host differs"),
        ("https://evil.org?example.com", "http:evil.org", "the host differs"),
        ("http://example.com/", "http:http://example.com", "the scheme differs"),
        ("https://example.com:8443/", "http:example.com:8443", "the port differs"),
        ("https://example.com:80/", "http:example.com:80", "the port differs"),
        ("http://example.com:443/", "http:http://example.com:443", "the scheme differs"),
        ("https://[::1]/", "http:[::1]", "the host differs"),
    ] {
        let expected = format!(
            "refused (not-granted, declared): `http.fetch` needs `{wanted}`; {nearest}: {clause}; an operator can allow it \
             with `--grant {wanted}`"
        );
        assert_eq!(ask(&["http:example.com"], fetch(url)), Err(expected), "{url}");
    }
}

#[test]
fn urls_that_parsers_could_disagree_on() {
    let scheme = "a URL starts with `https://` or `http://`";
    let host =
        "the host must be lower-case letters, digits, `-` and `.`, or an address in `[…]`, and no user information";
    let port = "the port must be 1 to 65535 without leading zeros";
    let path = "the path has a character that must be percent-encoded";
    for (url, why) in [
        ("", scheme),
        ("example.com", scheme),
        ("//example.com", scheme),
        ("ftp://example.com", scheme),
        ("HTTPS://example.com", scheme),
        (" https://example.com", scheme),
        ("https:example.com", scheme),
        ("https:///", host),
        ("https://user@example.com/", host),
        ("https://user:pass@example.com/", port),
        ("https://example.com@evil.org/", host),
        ("https://evil.org\\@example.com/", host),
        ("https://Example.com/", host),
        ("https://exam%70le.com/", host),
        ("https://exämple.com/", host),
        ("https://example.com./", host),
        ("https://example..com/", host),
        ("https://[::1/", host),
        ("https://[::1%25lo]/", host),
        ("https://example.com\t/", host),
        ("https://example.com:/", port),
        ("https://example.com:0443/", port),
        ("https://example.com:65536/", port),
        ("https://example.com:99999999999999999999/", port),
        ("https://example.com/#part", path),
        ("https://example.com#part", path),
        ("https://example.com/a b", path),
        ("https://example.com/\\evil", path),
        ("https://example.com/\r\nHost: evil", path),
        ("https://example.com/é", path),
        ("https://example.com/<a>", path),
    ] {
        let remedy = "the agent has to ask differently; no grant changes this";
        let expected = format!("refused (bad-ask, form): `http.fetch`: {why}; {remedy}");
        assert_eq!(ask(&["http:example.com"], fetch(url)), Err(expected), "{url:?}");
    }
}

#[test]
fn names_that_a_grant_covers() {
    for (grant, effect) in [
        ("tool:mail.list", tool("mail.list")),
        ("tool:mail.*", tool("mail.list")),
        ("tool:mail.*", tool("mail.")),
        ("model:rehearsal/small", model("rehearsal/small")),
        ("model:rehearsal/*", model("rehearsal/large")),
        ("agent:clerk", send("clerk")),
        ("storage", Effect::StorageGet { key: "k".into() }),
        ("clock", Effect::ClockNow {}),
        ("environment", Effect::EnvironmentRead {}),
        // Naming what was granted needs no grant of its own.
        ("log", Effect::ToolsList {}),
    ] {
        assert_eq!(ask(&[grant], effect.clone()), Ok(()), "{grant} {effect:?}");
    }
}

#[test]
fn names_that_it_does_not() {
    let no = |needs: &str, wanted: &str, nearest: &str| {
        let remedy = format!("an operator can allow it with `--grant {wanted}`");
        Err(format!("refused (not-granted, declared): `{needs}` needs `{wanted}`; {nearest}; {remedy}"))
    };
    let granted = &["storage", "tool:mail.list", "tool:file.*", "model:rehearsal/*", "agent:clerk"];
    let mail = "the nearest grant is `tool:mail.list`: the name differs";
    assert_eq!(ask(granted, tool("mail.send")), no("tools.call", "tool:mail.send", mail));
    assert_eq!(ask(granted, tool("mail.list2")), no("tools.call", "tool:mail.list2", mail));
    assert_eq!(ask(granted, tool("mail.lis")), no("tools.call", "tool:mail.lis", mail));
    let file = "the nearest grant is `tool:file.*`: the name differs";
    assert_eq!(ask(granted, tool("file")), no("tools.call", "tool:file", file));
    let model_near = "the nearest grant is `model:rehearsal/*`: the name differs";
    assert_eq!(ask(granted, model("other/x")), no("model.generate", "model:other/x", model_near));
    assert_eq!(ask(granted, send("boss")), no("agents.send", "agent:boss", "nothing of `agent` was granted"));
    assert_eq!(ask(&[], tool("x")), no("tools.call", "tool:x", "nothing of `tool` was granted"));
    assert_eq!(ask(&[], Effect::ClockNow {}), no("clock.now", "clock", "nothing of `clock` was granted"));
    // A name that reads as a pattern must not come back as the advice to grant that pattern.
    for name in ["mail.*", "*", "", "mail list", "mail.list\u{202e}"] {
        let bad = ask(&["tool:mail.*"], tool(name)).unwrap_err();
        let why = "use up to 128 letters, digits, `.`, `-`, `_` and `/`; the agent has to ask differently; no grant changes this";
        assert_eq!(bad, format!("refused (bad-ask, form): `tools.call`: `{name}` is not a tool's name: {why}"));
    }
    let bad = ask(&["agent:clerk"], send("Clerk")).unwrap_err();
    assert!(bad.starts_with("refused (bad-ask, form): `agents.send`: `Clerk` can't name an agent"), "{bad}");
}

#[test]
fn covers_tool_is_what_the_list_shows() {
    let grants = Grants::new(vec!["tool:mail.*".parse().unwrap(), "tool:clock".parse().unwrap()]);
    assert!(grants.covers_tool("mail.list") && grants.covers_tool("clock"));
    assert!(!grants.covers_tool("clocks") && !grants.covers_tool("mail"));
    assert!(!Grants::basic().covers_tool("mail.list"));
}

//! Grants and what they cover, as tables: a new case is a new line.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use lazaret_gate::effect::{Prompt, Request};
use lazaret_gate::grant::EgressMode;
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
    ("http:xn--bcher-kva.example", "http:xn--bcher-kva.example"),
    ("http:http://10.0.0.7:8080", "http:http://10.0.0.7:8080"),
    ("net:10.0.0.0/8", "net:10.0.0.0/8"),
    ("net:192.0.2.7", "net:192.0.2.7"),
    ("net:192.0.2.7/32", "net:192.0.2.7"),
    ("net:fd00::/8", "net:fd00::/8"),
    ("net:::1", "net:::1"),
    ("egress:preflight", "egress:preflight"),
    ("egress:none", "egress:none"),
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
    "http:127.1",
    "http:0x7f.0.0.1",
    "http:2130706433",
    "http:[0:0:0:0:0:0:0:1]",
    "http:-a.example",
    "http:xn--a",
    "http:bücher.example",
    "http:a.example?x",
    "http:HTTPS://a.example",
    "net",
    "net:",
    "net:10.0.0.1/8",
    "net:10.0.0.0/33",
    "net:10.0.0.0/08",
    "net:10.0.0",
    "net:[::1]",
    "net:a.example",
    "egress",
    "egress:",
    "egress:strict",
    "egress:None",
    "egress:none ",
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
         http:HOST[:PORT] (https), http:http://HOST[:PORT] (plain), agent:NAME, net:ADDRESS[/LENGTH], egress:preflight, \
         egress:none, secret:SLOT, trusted:HOST[:PORT] or private:HOST[:PORT]"
    );
    assert_eq!(says("http:a:0"), "`http:a:0` is not a grant: `0`: a port is 1 to 65535 without leading zeros");
    assert_eq!(
        says("http:u@a"),
        "`http:u@a` is not a grant: the URL has user information before `@`: leave it out, and send credentials in a header"
    );
    assert_eq!(
        says("http:a/b"),
        "`http:a/b` is not a grant: a grant names a host, perhaps with scheme and port, and no path: leave out what follows"
    );
    assert_eq!(
        says("net:10.0.0.1/8"),
        "`net:10.0.0.1/8` is not a grant: `10.0.0.1/8` has bits behind its length: write `10.0.0.0/8`, or the address alone"
    );
    assert_eq!(
        says("egress:strict"),
        "`egress:strict` is not a grant: strict is what holds without a grant: leave it out"
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
        "egress:none",
        "net:fd00::/8",
        "net:10.0.0.0/8",
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
    let expected = [
        "storage",
        "log",
        "tool:a",
        "tool:a*",
        "tool:b",
        "http:b:1",
        "http:b",
        "http:http://a",
        "agent:a",
        "net:10.0.0.0/8",
        "net:fd00::/8",
        "egress:none",
    ];
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
        ("http:example.com:8443", "https://example.com:8443/"),
        ("http:http://localhost:8080", "http://localhost:8080/x"),
        ("http:http://localhost:80", "http://localhost/x"),
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
            "refused (egress-denied, declared): `http.fetch` needs `{wanted}`; {nearest}: {clause}; an operator can allow it \
             with `--grant {wanted}`"
        );
        assert_eq!(ask(&["http:example.com"], fetch(url)), Err(expected), "{url}");
    }
}

#[test]
fn urls_that_parsers_could_disagree_on() {
    let scheme = "a URL starts with `https://` or `http://`";
    let user = "the URL has user information before `@`: leave it out, and send credentials in a header";
    let port = "a port is 1 to 65535 without leading zeros";
    let address = "not an IPv6 address as URLs write it";
    for (url, why) in [
        ("", scheme),
        ("example.com", scheme),
        ("//example.com", scheme),
        ("ftp://example.com", scheme),
        ("HTTPS://example.com", scheme),
        ("https:example.com", scheme),
        ("https:///", "the URL has no host after `https://`"),
        ("https://user@example.com/", user),
        ("https://user:pass@example.com/", user),
        ("https://example.com@evil.org/", user),
        ("https://evil.org\\@example.com/", "the URL has a backslash: write `/`, or `%5C` in the path or query"),
        ("https://Example.com/", "`Example.com`: a host is written in lower case"),
        ("https://exam%70le.com/", "a host has no percent-encoding or zone: write its characters"),
        ("https://exämple.com/", "a host is written in ASCII: `xn--exmple-cua.com`"),
        ("https://example.com./", "leave out the dot at the host's end"),
        ("https://example..com/", "between the host's dots stands at least one character"),
        ("https://[::1/", address),
        ("https://[::1%25lo]/", "a host has no percent-encoding or zone: write its characters"),
        ("https://127.1/", "an IPv4 address is written as four decimal numbers without leading zeros"),
        ("https://example.com\t/", "the URL has a space or tab"),
        (" https://example.com", "the URL has a space or tab"),
        ("https://example.com:/", port),
        ("https://example.com:0443/", port),
        ("https://example.com:65536/", port),
        ("https://example.com:99999999999999999999/", port),
        ("https://example.com:443/", "leave out `:443`: it is the scheme's own port"),
        ("https://example.com/#part", "the URL has a fragment"),
        ("https://example.com#part", "the URL has a fragment"),
        ("https://example.com/a b", "the URL has a space or tab"),
        ("https://example.com/\\evil", "the URL has a backslash"),
        ("https://example.com/\r\nHost: evil", "the URL has a line break"),
        ("https://example.com/é", "the path or query has 'é': percent-encode it"),
        ("https://example.com/<a>", "a URL is written in one way only"),
        ("https://example.com/a/../b", "the path has a `.` or `..` segment: write where it leads"),
    ] {
        let remedy = "the agent has to ask differently; no grant changes this";
        let refusal = ask(&["http:example.com"], fetch(url)).expect_err(url);
        let lawful = refusal.starts_with("refused (bad-ask, form): `http.fetch`: ") && refusal.ends_with(remedy);
        assert!(lawful && refusal.contains(why), "{url:?}: {refusal}");
    }
}

#[test]
fn what_is_not_enforced_covers_every_url() {
    for mode in ["egress:none", "egress:preflight"] {
        for url in ["https://example.org/", "http://10.0.0.1:8080/x", "https://[::1]/"] {
            assert_eq!(ask(&[mode], fetch(url)), Ok(()), "{mode} {url}");
        }
        assert!(ask(&[mode], fetch("https://example.org:443/")).is_err(), "what is no URL stays none");
        assert!(ask(&[mode], tool("mail.list")).is_err(), "it is about requests only");
    }
    let grants = |texts: &[&str]| Grants::new(texts.iter().map(|text| text.parse().unwrap()).collect());
    assert_eq!(grants(&["http:a.example"]).egress(), EgressMode::Strict);
    assert_eq!(grants(&["egress:preflight"]).egress(), EgressMode::Preflight);
    assert_eq!(grants(&["egress:none", "egress:preflight"]).egress(), EgressMode::None);
    for mode in [EgressMode::Strict, EgressMode::Preflight, EgressMode::None] {
        assert_eq!(mode.name().parse(), Ok(mode));
        let told = mode.warning().is_some_and(|warning| warning.starts_with("egress is not enforced"));
        assert_eq!(told, mode != EgressMode::Strict);
    }
    assert_eq!(
        "off".parse::<EgressMode>().unwrap_err().to_string(),
        "`off` is not a mode: write strict, preflight or none"
    );
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

//! Bindings: what may be said in one, and which requests it admits.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests touch the disk, and one that can't go on has failed"
)]

mod common;
mod vaults;

use common::dir;
use lazaret_gate::grant::Origin;
use lazaret_store::vault::{
    BadBinding, Binding, Form, Holder, Host, Method, Mismatch, Name, PathPrefix, Scope, VaultError,
};
use proptest::prelude::*;
use vaults::*;

#[test]
fn hosts_are_names_over_tls() {
    for good in [
        "api.example.org",
        "api.example.org:8443",
        "localhost",
        "10.0.0.1",
        "[2001:db8::1]:444",
        "http://127.0.0.1:8080",
        "http://[::1]:9",
        "http://localhost:1",
    ] {
        assert_eq!(good.parse::<Host>().unwrap().to_string(), good);
    }
    assert_eq!("api.example.org:443".parse::<Host>().unwrap().to_string(), "api.example.org", "one spelling");
    for plain in [
        "http://api.example.org",
        "http://10.0.0.1",
        "http://[2001:db8::1]",
        "http://localhost.example.org",
        "http://[::ffff:127.0.0.1]",
    ] {
        let refused = plain.parse::<Host>();
        assert!(matches!(refused, Err(BadBinding::Plain { .. } | BadBinding::Host { .. })), "{plain}: {refused:?}");
    }
    for bad in [
        "",
        "*",
        "*.example.org",
        "API.example.org",
        "api.example.org.",
        "api..example.org",
        "a@b",
        "a/b",
        "a:0",
        "a:0443",
        "a:",
        "a b",
        "https://u:p@a",
        "0x7f.0.0.1",
        "127.1",
        "0177.0.0.1",
        "127.0.0.0x1",
        "2130706433",
        "256.0.0.1",
        "[::01]",
        "[::1",
        "ä.example",
        "a\r\nb",
    ] {
        assert!(matches!(bad.parse::<Host>(), Err(BadBinding::Host { .. })), "{bad:?}");
    }
}

#[test]
fn forms_that_would_give_the_value_away_are_refused() {
    let dir = dir();
    let vault = init(dir.path());
    set(&vault, "a", "a good value");
    let try_form = |form| vault.bind(&Binding { form, ..binding("agent:clerk", "key", "a") }).map(drop);
    let header = |name: &str, prefix: &str| try_form(Form::Header { name: name.into(), prefix: prefix.into() });
    for (name, prefix) in
        [("authorization", "Bearer "), ("x-api-key", ""), ("cookie", "session="), ("private-token", "")]
    {
        assert_eq!(header(name, prefix), Ok(()), "{name}");
    }
    for (name, prefix) in [
        ("", ""),
        ("Authorization", ""),
        ("x key", ""),
        ("x\r\ny", ""),
        ("host", ""),
        ("content-length", ""),
        ("transfer-encoding", ""),
        ("connection", ""),
        ("proxy-authorization", ""),
        ("referer", ""),
        ("x", "a\r\nb"),
        ("x", " a"),
        ("x", "ä"),
        (&"x".repeat(129), ""),
    ] {
        assert!(
            matches!(header(name, prefix), Err(VaultError::Binding(BadBinding::Header { .. }))),
            "{name:?} {prefix:?}"
        );
    }
    let query = |name: &str| try_form(Form::Query { name: name.into() });
    assert_eq!(query("api_key"), Ok(()));
    for bad in ["", "a&b", "a=b", "a b", "a#", "ä"] {
        assert!(matches!(query(bad), Err(VaultError::Binding(BadBinding::Query { .. }))), "{bad}");
    }
    let basic = |user: &str| try_form(Form::Basic { user: user.into() });
    assert_eq!((basic(""), basic("clerk@example.org")), (Ok(()), Ok(())));
    for bad in ["a:b", "a\nb", "ä"] {
        assert!(matches!(basic(bad), Err(VaultError::Binding(BadBinding::User { .. }))), "{bad}");
    }
}

#[test]
fn lists_are_short_and_say_nothing_twice() {
    let dir = dir();
    let vault = init(dir.path());
    set(&vault, "a", "a good value");
    let mut bound = binding("agent:clerk", "key", "a");
    bound.hosts.clear();
    assert_eq!(vault.bind(&bound), Err(BadBinding::NoHost.into()));
    bound.hosts = vec!["a.example".parse().unwrap(), "a.example:443".parse().unwrap()];
    assert_eq!(vault.bind(&bound), Err(BadBinding::Twice { text: "a.example".into() }.into()));
    bound.hosts = (0..33).map(|n| format!("h{n}.example").parse().unwrap()).collect();
    assert_eq!(vault.bind(&bound), Err(BadBinding::Many { what: "hosts" }.into()));
    for bad in ["", "get", "GET ", "GÉT", &"X".repeat(33)] {
        assert!(bad.parse::<Method>().is_err(), "{bad:?}");
    }
    for bad in [
        "",
        "v1",
        "/v1?",
        "/v1#",
        "/..",
        "/./x",
        "/a/../b",
        "/a//b",
        "/%2e%2e/",
        "/a%2Fb",
        "/a\\b",
        "/..;x/",
        "/a b",
        "/ä",
        &format!("/{}", "x".repeat(512)),
    ] {
        assert!(bad.parse::<PathPrefix>().is_err(), "{bad:?}");
    }
}

#[test]
fn a_request_is_admitted_by_host_method_and_whole_segments() {
    let bound = binding("agent:clerk", "key", "a");
    let ask = |url: &str, method: &str, path: &str| bound.admits(&Origin::of_url(url).unwrap(), method, path);
    let good = "https://api.example.org/";
    for path in ["/v1", "/v1/", "/v1/users", "/v1/a.b/..c"] {
        assert_eq!(ask(good, "GET", path), Ok(()), "{path}");
    }
    for path in ["/", "/v10", "/v", "/V1", "/x/v1"] {
        assert_eq!(ask(good, "GET", path), Err(Mismatch::Path), "{path}");
    }
    for path in ["/v1/../admin", "/v1/%2e%2E/admin", "/v1/..;/admin", "/v1//x", "/v1/%2fx", "/v1\\x", "v1", ""] {
        assert_eq!(ask(good, "GET", path), Err(Mismatch::UnclearPath), "{path}");
    }
    assert_eq!(ask(good, "POST", "/v1"), Err(Mismatch::Method));
    assert_eq!(ask(good, "get", "/v1"), Err(Mismatch::Method));
    for elsewhere in [
        "https://example.org/",
        "https://api.example.org:444/",
        "http://api.example.org/",
        "http://api.example.org:443/",
        "https://xapi.example.org/",
        "https://api.example.org.evil.example/",
    ] {
        assert_eq!(ask(elsewhere, "GET", "/v1"), Err(Mismatch::Host), "{elsewhere}");
    }
    let any = Binding { methods: Vec::new(), paths: Vec::new(), ..bound.clone() };
    assert_eq!(any.admits(&Origin::of_url(good).unwrap(), "PURGE", "/a/../b"), Ok(()), "nothing was said about paths");
}

#[test]
fn scopes_and_holders_have_one_spelling() {
    for text in ["global", "app:mailer", "agent:clerk", "device:laptop.1"] {
        assert_eq!(text.parse::<Scope>().unwrap().to_string(), text);
    }
    for bad in ["", "Global", "global:", "app:", "app", "agent:Clerk", "peer:x", "app:a:b", "app: a"] {
        assert!(bad.parse::<Scope>().is_err(), "{bad}");
        assert!(bad.parse::<Holder>().is_err(), "{bad}");
    }
    let admits = |scope: &str, whose: &str| scope.parse::<Scope>().unwrap().admits(&holder(whose));
    assert!(admits("global", "agent:a") && admits("global", "app:a") && admits("device:d", "agent:a"));
    assert!(admits("app:a", "app:a") && admits("agent:a", "agent:a"));
    assert!(
        !admits("app:a", "app:b")
            && !admits("app:a", "agent:a")
            && !admits("agent:a", "app:a")
            && !admits("agent:a", "agent:b")
    );
    // In two parts, so that nothing here looks like a credential.
    let token = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345");
    for bad in ["", "-a", "1a", "A", "a b", "a/b", "a\n", &"a".repeat(65), &token] {
        let said = bad.parse::<Name>().unwrap_err().to_string();
        assert!(!said.contains("fghijABCDEF"), "whoever pastes a value finds it in no log: {said}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_binding_or_an_error(text in ".{0,80}") {
        if let Ok(host) = text.parse::<Host>() {
            prop_assert_eq!(host.to_string().parse::<Host>(), Ok(host.clone()));
            prop_assert!(!host.is_plain() || text.starts_with("http://"));
        }
        let _ = (text.parse::<Method>(), text.parse::<PathPrefix>(), text.parse::<Name>(), text.parse::<Scope>(), text.parse::<Holder>());
    }

    #[test]
    fn no_path_that_is_admitted_leaves_its_prefix(tail in "[./;%2eEfF5cCa\\\\?]{0,16}") {
        let bound = binding("agent:clerk", "key", "a");
        let path = format!("/v1/{tail}");
        if bound.admits(&Origin::of_url("https://api.example.org").unwrap(), "GET", &path).is_ok() {
            let read = path.split('?').next().unwrap().replace("%2e", ".").replace("%2E", ".").replace("%2f", "/").replace("%2F", "/").replace('\\', "/");
            let mut kept: Vec<&str> = Vec::new();
            for segment in read.split('/').skip(1) {
                match segment.split(';').next().unwrap() {
                    "." => {}
                    ".." => drop(kept.pop()),
                    _ => kept.push(segment),
                }
            }
            prop_assert_eq!(kept.first(), Some(&"v1"), "{}", path);
        }
    }
}

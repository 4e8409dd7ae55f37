//! What grants mean once a name has addresses: strict, with ranges, and not enforced.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test listens on a socket, and says what is wrong by failing"
)]

mod gate;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gate::{Gate, request};
use lazaret_exec::egress::{Resolver, Settings};
use lazaret_exec::{Egress, Outside, Web};
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::{Answer, Effect, Outcome, Target};

/// Answers each connection once, and counts them.
fn server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi");
        }
    });
    (port, count)
}

/// `inner.example` is this machine.
fn egress() -> Egress {
    let names = [("inner.example".to_owned(), vec![IpAddr::from([127, 0, 0, 1])])];
    Egress::new(Settings { resolver: Resolver::fixed(names.into()), ..Settings::default() })
}

fn fetch(grants: &[&str], url: &str) -> Outcome {
    let mut gate = Gate::new(grants);
    let web = Web::new(egress(), gate.grants.clone());
    let mut outside = Outside::new(std::env::temp_dir(), web);
    gate.ask(Effect::HttpFetch(request("GET", url)), &mut outside, || {})
}

fn refused(outcome: Outcome) -> (Code, Layer, String) {
    let Outcome::Refused(refusal) = outcome else { panic!("it was let pass: {outcome:?}") };
    (refusal.code, refusal.layer, refusal.to_string())
}

#[test]
fn addresses_are_granted_by_name() {
    let (port, count) = server();
    let literal = format!("http://127.0.0.1:{port}");
    let name = format!("http://inner.example:{port}");
    let (by_literal, by_name) = (format!("http:{literal}"), format!("http:{name}"));
    let done = |outcome: Outcome| {
        let Outcome::Done(Answer::Response(response)) = outcome else { panic!("{outcome:?}") };
        assert_eq!((response.status, response.body.0.as_slice()), (200, b"hi".as_slice()));
    };
    // The very address, and nothing but it.
    done(fetch(&[&by_literal], &format!("{literal}/")));
    let other = refused(fetch(&[&by_literal], &format!("http://127.0.0.2:{port}/")));
    assert_eq!((other.0, other.1), (Code::EgressDenied, Layer::Declared), "{}", other.2);
    // A granted name that leads there was not meant, whoever was granted the address too.
    for grants in
        [vec![by_name.as_str()], vec![&by_name, &by_literal], vec![&by_name, "net:127.0.0.2", "net:10.0.0.0/8"]]
    {
        let (code, layer, text) = refused(fetch(&grants, &format!("{name}/")));
        assert_eq!((code, layer), (Code::EgressDenied, Layer::Executor), "{text}");
        assert!(text.contains("127.0.0.1 is not a public address (loopback)"), "{text}");
        assert!(text.ends_with("an operator can allow it with `--grant net:127.0.0.1`"), "{text}");
    }
    let near = refused(fetch(&[&by_name, "net:127.0.0.2", "net:10.0.0.0/8"], &format!("{name}/"))).2;
    assert!(near.contains("the nearest grant is `net:127.0.0.2`: the address is not in it"), "{near}");
    assert_eq!(count.load(Ordering::SeqCst), 1, "nobody else was dialled");
    // Unless a range says so.
    done(fetch(&[&by_name, "net:127.0.0.0/8"], &format!("{name}/")));
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn what_is_not_enforced_goes_anywhere() {
    let (port, count) = server();
    for mode in ["egress:none", "egress:preflight"] {
        for url in [format!("http://127.0.0.1:{port}/"), format!("http://inner.example:{port}/")] {
            let outcome = fetch(&[mode], &url);
            assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        }
        // What isn't a URL still isn't one.
        assert_eq!(refused(fetch(&[mode], "http://127.1/")).0, Code::BadAsk);
    }
    assert_eq!(count.load(Ordering::SeqCst), 4);
}

#[test]
fn a_host_can_be_looked_at_before() {
    let grants = |grants: &[&str]| Gate::new(grants).grants;
    let target = Target::parse("https://inner.example/").unwrap();
    let look = |grants: &lazaret_gate::Grants| egress().look_up(&target, &grants.strict_destinations(&target));
    let denied = look(&grants(&["http:inner.example", "egress:preflight"])).unwrap_err().to_string();
    assert!(denied.contains("127.0.0.1 is not a public address (loopback)"), "{denied}");
    let found = look(&grants(&["http:inner.example", "net:127.0.0.0/8", "egress:preflight"])).unwrap();
    assert_eq!(found, ["127.0.0.1:443".parse().unwrap()]);
    let unknown = Target::parse("https://nowhere.example/").unwrap();
    let lost = egress().look_up(&unknown, &grants(&[]).strict_destinations(&unknown)).unwrap_err().to_string();
    assert_eq!(lost, "`nowhere.example` can't be looked up: no such name");
}

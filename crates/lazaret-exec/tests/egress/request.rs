//! One request, one response, against real servers on 127.0.0.1.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{Authority, NAME, Names4, Server, answering, ask, get, https, local, plain, response, settings};
use lazaret_exec::egress::{BadAsk, CertificateFault, Egress, EgressError, Limits, Resolver, Roots, Settings, Version};
use lazaret_gate::Target;
use lazaret_gate::address::{Class, Destinations, Net};

/// What a server saw of each request.
type Seen = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

fn recording() -> (Server, Seen) {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let server = Server::start(answering(move |head, body| {
        log.lock().unwrap().push((head.to_owned(), body.to_vec()));
        response("200 OK", "x-one: 1\r\nx-two: a\r\nX-Two: b\r\n", b"hello")
    }));
    (server, seen)
}

#[test]
fn what_is_asked_arrives_and_nothing_else() {
    let (server, seen) = recording();
    let egress = plain(Limits::default());
    let reply = get(&egress, &server.url("/a//b?c=%2F&d")).unwrap();
    assert_eq!((reply.status, reply.version, reply.body.as_slice()), (200, Version::Http1, b"hello".as_slice()));
    assert_eq!(reply.address, server.address);
    let headers: Vec<_> = reply.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let expected: [(&str, &[u8]); 4] = [("content-length", b"5"), ("x-one", b"1"), ("x-two", b"a"), ("x-two", b"b")];
    assert_eq!(headers, expected);
    let mut post = ask("POST", &server.url(""));
    post.headers = vec![("X-A".into(), b"1".to_vec()), ("x-a".into(), b"\xff2".to_vec())];
    post.headers.retain(|(_, value)| value.is_ascii());
    post.headers.push(("User-Agent".into(), b"agent".to_vec()));
    post.body = vec![7; 200_000];
    egress.fetch(post, &local(), &mut || false).unwrap().unwrap();
    let seen = seen.lock().unwrap();
    let port = server.address.port();
    assert_eq!(seen[0].0, format!("GET /a//b?c=%2F&d HTTP/1.1\r\nhost: {NAME}:{port}\r\n\r\n"));
    let head = format!(
        "POST / HTTP/1.1\r\nhost: {NAME}:{port}\r\nx-a: 1\r\nuser-agent: agent\r\ncontent-length: 200000\r\n\r\n"
    );
    assert_eq!(seen[1].0, head);
    assert_eq!(seen[1].1, vec![7; 200_000]);
    assert_eq!(server.connections(), 1, "the second request went over the same connection");
}

#[test]
fn an_address_is_not_looked_up() {
    let (server, _) = recording();
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lookups);
    let resolver = Resolver::Given(Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Err("nobody asks".into())
    }));
    let egress = Egress::new(Settings { resolver, ..Settings::default() });
    get(&egress, &format!("http://{}/", server.address)).unwrap();
    assert_eq!(lookups.load(Ordering::SeqCst), 0);
}

#[test]
fn a_redirect_is_an_answer() {
    let server = Server::start(answering(|_, _| {
        response("302 Found", "location: http://169.254.169.254/\r\nset-cookie: a=b\r\n", b"")
    }));
    let egress = plain(Limits::default());
    let reply = get(&egress, &server.url("/")).unwrap();
    assert_eq!(reply.status, 302);
    assert!(reply.headers.contains(&("location".into(), b"http://169.254.169.254/".to_vec())));
    get(&egress, &server.url("/")).unwrap();
    assert_eq!(server.connections(), 1);
}

#[test]
fn headers_that_split_or_smuggle_are_refused() {
    let (server, seen) = recording();
    let egress = plain(Limits::default());
    let send = |name: &str, value: &[u8]| {
        let mut ask = ask("GET", &server.url("/"));
        ask.headers = vec![(name.to_owned(), value.to_vec())];
        egress.fetch(ask, &local(), &mut || false).unwrap()
    };
    for value in
        [b"a\r\nx: y".as_slice(), b"a\nb", b"a\rb", b"a\0b", b"\x7f", b" a", b"a\t", b"a\r\n\r\nGET / HTTP/1.1"]
    {
        assert_eq!(send("x-a", value), Err(BadAsk::HeaderValue("x-a".into()).into()), "{value:?}");
    }
    for name in ["", "a b", "a:", "a\r\nb", ":path", "é", "a\0"] {
        let expected = name.escape_debug().to_string();
        assert_eq!(send(name, b"1"), Err(BadAsk::HeaderName(expected).into()), "{name:?}");
    }
    for name in ["Host", "content-length", "Transfer-Encoding", "connection", "Upgrade", "TE", "trailer", "keep-alive"]
        .into_iter()
        .chain(["Proxy-Authorization", "proxy-connection", "expect", "HTTP2-Settings"])
    {
        assert_eq!(send(name, b"1"), Err(BadAsk::Connection(name.into()).into()));
    }
    for method in ["", "get", "CONNECT", "TRACE", "GET /", "GE\r\nT", "G\u{e9}T", &"A".repeat(25)] {
        let asked = ask(method, &server.url("/"));
        let told = egress.fetch(asked, &local(), &mut || false).unwrap().unwrap_err();
        assert!(matches!(told, EgressError::Ask(BadAsk::Method(_))), "{method:?}: {told}");
    }
    let mut many = ask("GET", &server.url("/"));
    many.headers = (0..129).map(|n| (format!("x-{n}"), b"1".to_vec())).collect();
    let told = egress.fetch(many, &local(), &mut || false).unwrap();
    assert_eq!(told, Err(BadAsk::TooManyHeaders { count: 129, limit: 128 }.into()));
    let told = send("x", &[b'a'; 70_000]);
    assert_eq!(told, Err(BadAsk::HeadTooLarge { bytes: 70_005, limit: 65_536 }.into()));
    let mut large = ask("POST", &server.url("/"));
    large.body = vec![0; (1 << 20) + 1];
    let told = egress.fetch(large, &local(), &mut || false).unwrap();
    assert_eq!(told, Err(BadAsk::BodyTooLarge { bytes: (1 << 20) + 1, limit: 1 << 20 }.into()));
    assert_eq!((server.connections(), seen.lock().unwrap().len()), (0, 0));
}

#[test]
fn one_bad_address_refuses_the_name() {
    let (server, _) = recording();
    for bad in ["127.0.0.2", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "0.0.0.0"] {
        let bad: IpAddr = bad.parse().unwrap();
        for addresses in [vec![bad, Ipv4Addr::LOCALHOST.into()], vec![Ipv4Addr::LOCALHOST.into(), bad], vec![bad]] {
            let resolver = Resolver::Given(Arc::new(move |_| Ok(addresses.clone())));
            let egress = Egress::new(Settings { resolver, ..Settings::default() });
            let Err(EgressError::Forbidden { host, why }) = get(&egress, &server.url("/")) else { panic!("{bad}") };
            assert_eq!((host.as_str(), why.address), (NAME, bad));
        }
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn the_next_address_is_tried() {
    let (server, _) = recording();
    let port = server.address.port();
    // Nobody listens on that port of the others.
    let addresses: Vec<IpAddr> = ["127.0.0.3", "127.0.0.2", "127.0.0.1"].map(|text| text.parse().unwrap()).to_vec();
    let resolver = Resolver::Given(Arc::new(move |_| Ok(addresses.clone())));
    let egress = Egress::new(Settings { resolver, ..Settings::default() });
    let rules = Destinations::naming(["127.0.0.0/8".parse::<Net>().unwrap()]);
    let reply = egress.fetch(ask("GET", &server.url("/")), &rules, &mut || false).unwrap().unwrap();
    assert_eq!(reply.address, server.address);
    let gone = Target::parse(&format!("http://127.0.0.4:{port}/")).unwrap();
    let mut asked = ask("GET", &server.url("/"));
    asked.url = gone;
    let told = egress.fetch(asked, &rules, &mut || false).unwrap();
    assert!(matches!(told, Err(EgressError::Connect { .. })), "{told:?}");
}

#[test]
fn a_connection_is_kept_for_its_name_and_for_rules_that_allow_it() {
    let (server, _) = recording();
    let egress = plain(Limits::default());
    for _ in 0..5 {
        get(&egress, &server.url("/")).unwrap();
    }
    assert_eq!(server.connections(), 1);
    get(&egress, &format!("http://other.example:{}/", server.address.port())).unwrap();
    assert_eq!(server.connections(), 2, "another name, another connection");
    let told = egress.fetch(ask("GET", &server.url("/")), &Destinations::default(), &mut || false).unwrap();
    let Err(EgressError::Forbidden { why, .. }) = told else { panic!("{told:?}") };
    assert_eq!(why.class, Class::Loopback, "the open connection is not for these rules");
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_connection_that_the_server_closed_is_not_used() {
    // Answers once and hangs up, without a word about it before.
    let server = Server::start(|mut stream, _| {
        if crate::support::request(&mut stream).is_some() {
            let _ = std::io::Write::write_all(&mut stream, &response("200 OK", "", b"once"));
        }
    });
    let egress = plain(Limits::default());
    for n in 1..=20 {
        let mut post = ask("POST", &server.url("/"));
        post.body = b"x".to_vec();
        let done = egress.fetch(post, &local(), &mut || false).unwrap();
        assert_eq!(done.map(|reply| reply.body), Ok(b"once".to_vec()));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(server.connections(), n);
    }
}

#[test]
fn a_name_that_changes_its_mind_gets_nowhere() {
    let (server, _) = recording();
    // At first a permitted place, from the second time on others.
    let names = Names4::start(|_, times| {
        Some(match times {
            0 => vec![Ipv4Addr::LOCALHOST],
            1 => vec![Ipv4Addr::new(169, 254, 169, 254)],
            2 => vec![Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 0, 0, 1)],
            _ => vec![Ipv4Addr::new(127, 0, 0, 2)],
        })
    });
    let egress = Egress::new(Settings { resolver: Resolver::Server(names.address), ..Settings::default() });
    get(&egress, &server.url("/")).unwrap();
    assert_eq!(names.asked(), 1, "one question for a check and a dial");
    get(&egress, &server.url("/")).unwrap();
    assert_eq!(names.asked(), 1, "an open connection is pinned");
    // Other origins, so that there is no open connection.
    for (n, expected) in [(1, "169.254.169.254"), (2, "10.0.0.1"), (3, "127.0.0.2")] {
        let url = format!("http://{NAME}:{}/", 1000 + n);
        let Err(EgressError::Forbidden { why, .. }) = get(&egress, &url) else { panic!("{url}") };
        assert_eq!(why.address, expected.parse::<IpAddr>().unwrap());
    }
    assert_eq!((names.asked(), server.connections()), (4, 1));
    let names = names.asked.lock().unwrap();
    assert!(names.iter().all(|name| name == NAME), "the name that was checked, whole: {names:?}");
}

#[test]
fn names_that_are_nothing() {
    let names = Names4::start(|_, _| Some(Vec::new()));
    let egress = Egress::new(Settings { resolver: Resolver::Server(names.address), ..Settings::default() });
    let told = get(&egress, "http://nothing.example/").unwrap_err();
    assert!(matches!(told, EgressError::Lookup { .. }), "{told}");
    let told = egress.fetch(ask("GET", "http://localhost/"), &Destinations::default(), &mut || false).unwrap();
    assert!(matches!(told, Err(EgressError::Forbidden { .. } | EgressError::Lookup { .. })), "{told:?}");
}

#[test]
fn the_name_is_in_the_handshake_and_in_host() {
    let authority = Authority::new();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&heads);
    let (server, names) = https(authority.leaf(&[NAME], |_| {}), move |head, _| {
        log.lock().unwrap().push(head.to_owned());
        response("200 OK", "", b"safe")
    });
    let egress = Egress::new(settings(authority.roots()));
    for _ in 0..3 {
        let reply = get(&egress, &server.https("/x")).unwrap();
        assert_eq!((reply.body.as_slice(), reply.version), (b"safe".as_slice(), Version::Http1));
    }
    assert_eq!(*names.lock().unwrap(), vec![Some(NAME.to_owned()); 3]);
    let port = server.address.port();
    assert_eq!(heads.lock().unwrap()[0], format!("GET /x HTTP/1.1\r\nhost: {NAME}:{port}\r\n\r\n"));
    assert_eq!(server.connections(), 1);
}

#[test]
fn certificates_that_are_not_good() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let expect = |identity, roots: Roots, expected: CertificateFault| {
        let (server, names) = https(identity, |_, _| response("200 OK", "", b"no"));
        let egress = Egress::new(settings(roots));
        let told = get(&egress, &server.https("/"));
        assert_eq!(told, Err(EgressError::Certificate { host: NAME.into(), fault: expected }));
        assert!(names.lock().unwrap().is_empty(), "no request was sent");
    };
    let expired = authority.leaf(&[NAME], |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    expect(expired, authority.roots(), CertificateFault::Expired);
    let early = authority.leaf(&[NAME], |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1));
    expect(early, authority.roots(), CertificateFault::NotYet);
    expect(authority.leaf(&["other.example"], |_| {}), authority.roots(), CertificateFault::WrongName);
    expect(authority.leaf(&["127.0.0.1"], |_| {}), authority.roots(), CertificateFault::WrongName);
    expect(stranger.leaf(&[NAME], |_| {}), authority.roots(), CertificateFault::UnknownIssuer);
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
    let own = (own.der().clone(), rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()));
    expect(own, authority.roots(), CertificateFault::UnknownIssuer);
}

#[test]
fn roots_that_are_none() {
    for pem in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let (server, _) = recording();
        let egress = Egress::new(settings(Roots::Pem(pem.into())));
        let told = get(&egress, &server.https("/")).unwrap_err();
        assert!(matches!(told, EgressError::NoRoots(_)), "{told}");
    }
    // A server that doesn't encrypt, with roots that are fine.
    let server = Server::start(|mut stream, _| {
        let _ = std::io::Write::write_all(&mut stream, &response("400 Bad Request", "", b""));
        crate::support::closes(&mut stream);
    });
    let egress = Egress::new(settings(Roots::Bundled));
    let told = get(&egress, &server.https("/")).unwrap_err();
    assert!(matches!(told, EgressError::Tls { .. }), "{told}");
}

#[test]
fn what_is_read_is_what_is_sent() {
    let (server, seen) = recording();
    let egress = plain(Limits::default());
    let mut sent = Vec::new();
    for c in '!'..='~' {
        for path in [format!("/a{c}b"), format!("/?a{c}b"), format!("/{c}"), format!("/%4{c}")] {
            if Target::parse(&server.url(&path)).is_ok() {
                get(&egress, &server.url(&path)).unwrap();
                sent.push(format!("GET {path} HTTP/1.1"));
            }
        }
    }
    let seen = seen.lock().unwrap();
    let lines: Vec<_> = seen.iter().map(|(head, _)| head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(lines, sent);
    assert!(sent.len() > 200, "{}", sent.len());
}

#[test]
fn many_at_once_get_each_their_own() {
    let server = Server::start(answering(|head, _| {
        let path = head.split(' ').nth(1).unwrap();
        if path.contains("slow") {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        response("200 OK", "", path.as_bytes())
    }));
    let egress = plain(Limits::default());
    let cut = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for caller in 0..32 {
            let (egress, server, cut) = (egress.clone(), &server, &cut);
            scope.spawn(move || {
                for n in 0..25 {
                    // Every fifth is cut off while it waits, beside the others.
                    let slow = n % 5 == 4;
                    let path = format!("/{caller}/{n}{}", if slow { "/slow" } else { "" });
                    match egress.fetch(ask("GET", &server.url(&path)), &local(), &mut || slow) {
                        Some(reply) => assert_eq!(reply.unwrap().body, path.as_bytes()),
                        None => {
                            assert!(slow);
                            cut.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            });
        }
    });
    assert_eq!(cut.load(Ordering::SeqCst), 32 * 5);
    assert!(server.connections() <= 32 * 6, "{} connections for 800 requests", server.connections());
}

#[tokio::test]
async fn it_may_be_dropped_anywhere() {
    let egress = plain(Limits::default());
    let (server, _) = recording();
    let url = server.url("/");
    let used = egress.clone();
    std::thread::spawn(move || get(&used, &url).unwrap()).join().unwrap();
    drop(egress);
}

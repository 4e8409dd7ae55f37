//! Servers that are slow, endless, packed or broken on purpose, and requests that are cut off.

use std::io::Write;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{NAME, Names4, Server, answering, ask, closes, get, local, plain, request, response};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use lazaret_exec::egress::{Egress, EgressError, Limits, Resolver, Settings};

const SHORT: Duration = Duration::from_millis(200);

fn host() -> String {
    NAME.to_owned()
}

/// A server that says this to a request and then waits for the other side to go.
fn saying(bytes: impl Into<Vec<u8>>) -> Server {
    let bytes = bytes.into();
    Server::start(move |mut stream, _| {
        if request(&mut stream).is_some() && stream.write_all(&bytes).is_ok() {
            closes(&mut stream);
        }
    })
}

/// A server that keeps saying something.
fn dripping(first: &'static str, then: &'static str, pause: Duration) -> Server {
    Server::start(move |mut stream, _| {
        if request(&mut stream).is_none() || stream.write_all(first.as_bytes()).is_err() {
            return;
        }
        while stream.write_all(then.as_bytes()).is_ok() {
            std::thread::sleep(pause);
        }
    })
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

#[test]
fn each_phase_has_its_time() {
    // Looking up: a name server that says nothing.
    let silent = Names4::start(|_, _| None);
    let limits = Limits { resolve: SHORT, ..Limits::default() };
    let settings = Settings { resolver: Resolver::Server(silent.address), limits, ..Settings::default() };
    let (told, took) = timed(|| get(&Egress::new(settings), "http://slow.example/"));
    assert_eq!(told, Err(EgressError::ResolveTime { host: "slow.example".into(), limit: SHORT }));
    assert!(took >= SHORT && took < SHORT * 10, "{took:?}");

    // Connecting: a listener whose queue is full.
    let full = full_listener();
    let egress = plain(Limits { connect: SHORT, ..Limits::default() });
    let told = get(&egress, &format!("http://{}/", full.0.local_addr().unwrap()));
    assert_eq!(told, Err(EgressError::ConnectTime { host: "127.0.0.1".into(), limit: SHORT }));

    // Agreeing on keys: a server that takes the connection and says nothing.
    let mute = Server::start(|mut stream, _| {
        closes(&mut stream);
    });
    let settings = Settings { limits: Limits { tls: SHORT, ..Limits::default() }, ..crate::support::settings(roots()) };
    let told = get(&Egress::new(settings), &mute.https("/"));
    assert_eq!(told, Err(EgressError::TlsTime { host: host(), limit: SHORT }));

    // The head: nothing, and a little at a time without end.
    let egress = plain(Limits { head: SHORT, ..Limits::default() });
    for server in [saying(""), dripping("HTTP/1.1 200 OK\r\n", "x: y\r\n", SHORT / 10)] {
        let told = get(&egress, &server.url("/"));
        assert_eq!(told, Err(EgressError::HeadTime { host: host(), limit: SHORT }));
    }
    let continues = dripping("", "HTTP/1.1 100 Continue\r\n\r\n", SHORT / 10);
    assert_eq!(get(&egress, &continues.url("/")), Err(EgressError::HeadTime { host: host(), limit: SHORT }));

    // The body: a stop, and a drip that only the whole time ends.
    let egress = plain(Limits { stall: SHORT, total: SHORT * 4, ..Limits::default() });
    let stops = saying("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc");
    assert_eq!(get(&egress, &stops.url("/")), Err(EgressError::StallTime { host: host(), limit: SHORT }));
    let drips = dripping("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", "x", SHORT / 10);
    let (told, took) = timed(|| get(&egress, &drips.url("/")));
    assert_eq!(told, Err(EgressError::TotalTime { host: host(), limit: SHORT * 4 }));
    assert!(took >= SHORT * 4 && took < SHORT * 20, "{took:?}");
}

#[test]
fn a_request_that_nobody_reads_ends() {
    let server = Server::start(|stream, _| {
        std::thread::sleep(Duration::from_secs(2));
        drop(stream);
    });
    let limits = Limits { head: SHORT, ask_body: 64 << 20, ..Limits::default() };
    let mut post = ask("POST", &server.url("/"));
    post.body = vec![0; 64 << 20];
    let told = plain(limits).fetch(post, &local(), &mut || false).unwrap();
    assert_eq!(told, Err(EgressError::HeadTime { host: host(), limit: SHORT }));
}

#[test]
fn what_is_too_large_is_not_read() {
    let egress = plain(Limits::default());
    let limit = 1 << 20;
    let told = saying("HTTP/1.1 200 OK\r\ncontent-length: 1048577\r\n\r\n");
    assert_eq!(get(&egress, &told.url("/")), Err(EgressError::BodyTooLarge { host: host(), limit }));
    for head in
        ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"]
    {
        let chunked = head.contains("chunked");
        let endless = Server::start(move |mut stream, _| {
            if request(&mut stream).is_none() || stream.write_all(head.as_bytes()).is_err() {
                return;
            }
            let piece = if chunked { b"4\r\nabcd\r\n".repeat(1000) } else { vec![b'x'; 9000] };
            while stream.write_all(&piece).is_ok() {}
        });
        assert_eq!(get(&egress, &endless.url("/")), Err(EgressError::BodyTooLarge { host: host(), limit }), "{head}");
    }
    let many: String = (0..97).map(|n| format!("x-{n}: 1\r\n")).collect();
    let many = saying(format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{many}\r\n"));
    let told = get(&egress, &many.url("/"));
    assert_eq!(told, Err(EgressError::TooManyHeaders { host: host(), count: 98, limit: 96 }));
    for bytes in [70_000, 300_000] {
        let large = saying(format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: {}\r\n\r\n", "a".repeat(bytes)));
        let told = get(&egress, &large.url("/"));
        assert_eq!(told, Err(EgressError::HeadTooLarge { host: host(), limit: 65_536 }), "{bytes}");
    }
    let endless =
        dripping("HTTP/1.1 200 OK\r\n", "x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", Duration::ZERO);
    let told = get(&egress, &endless.url("/"));
    assert_eq!(told, Err(EgressError::HeadTooLarge { host: host(), limit: 65_536 }));
}

#[test]
fn what_is_not_http() {
    let egress = plain(Limits::default());
    for answer in [
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx : space\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\r\n folded: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let told = get(&egress, &saying(answer).url("/"));
        assert!(matches!(told, Err(EgressError::Protocol { .. } | EgressError::Broken { .. })), "{answer:?}: {told:?}");
    }
    let cut = Server::start(|mut stream, _| {
        if request(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc");
        }
    });
    let told = get(&egress, &cut.url("/"));
    assert!(matches!(told, Err(EgressError::Broken { .. })), "{told:?}");
}

#[test]
fn a_second_answer_is_nobodys() {
    // Two answers to one request: the second must not be taken for the answer to the next one.
    let server = Server::start(|mut stream, _| {
        while request(&mut stream).is_some() {
            let two = [response("200 OK", "", b"first"), response("200 OK", "", b"forged")].concat();
            let _ = stream.write_all(&two);
        }
    });
    let egress = plain(Limits::default());
    for _ in 0..20 {
        assert_eq!(get(&egress, &server.url("/")).map(|reply| reply.body), Ok(b"first".to_vec()));
    }
}

fn packed(kind: &str, plain: &[u8]) -> Vec<u8> {
    let best = Compression::best();
    match kind {
        "gzip" => {
            let mut to = GzEncoder::new(Vec::new(), best);
            to.write_all(plain).unwrap();
            to.finish().unwrap()
        }
        "deflate" => {
            let mut to = ZlibEncoder::new(Vec::new(), best);
            to.write_all(plain).unwrap();
            to.finish().unwrap()
        }
        _ => {
            let mut to = DeflateEncoder::new(Vec::new(), best);
            to.write_all(plain).unwrap();
            to.finish().unwrap()
        }
    }
}

/// `hello ` seven times in Brotli, by the reference encoder.
const BROTLI: &[u8] = &[
    0x1b, 0x29, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44, 0x55, 0x86, 0x96, 0x6c, 0x20, 0x6f, 0x51, 0x4f, 0x1c, 0xc0,
    0x71,
];

/// 64 MiB of zeros in Brotli, by the reference encoder.
const BROTLI_BOMB: &[u8] = &[
    0xcb, 0xff, 0xff, 0x3f, 0xf8, 0x27, 0x00, 0xe2, 0xb1, 0x40, 0x20, 0xf7, 0xfe, 0x8f, 0xff, 0xff, 0x7f, 0xf0, 0x4f,
    0x00, 0xc4, 0x61, 0x11, 0x80, 0xee, 0xfd, 0x1f, 0xff, 0xff, 0xff, 0xe0, 0x9f, 0x00, 0x88, 0xc3, 0x02, 0x00, 0xdd,
    0xfb, 0x3f, 0xfe, 0xff, 0xff, 0xc1, 0x3f, 0x01, 0x10, 0x87, 0x05, 0x00, 0xba, 0xf7, 0x7f, 0xfc, 0xff, 0xff, 0x83,
    0x7f, 0x02, 0x20, 0x0e, 0x0b, 0x00, 0x74, 0xef, 0xff, 0xf8, 0xff, 0xff, 0x07, 0xff, 0x04, 0x40, 0x1c, 0x16, 0x00,
    0xe8, 0xde, 0xff, 0xf1, 0xff, 0xff, 0x0f, 0xfe, 0x09, 0x80, 0x38, 0x2c, 0x00, 0xd0, 0xbd, 0xff, 0xcb, 0xff, 0xff,
    0x3f, 0xfc, 0x13, 0x00, 0x71, 0x58, 0x00, 0xa0, 0x7b, 0xff, 0x07,
];

fn sends(kind: &str, body: Vec<u8>) -> Server {
    let header = format!("content-encoding: {kind}\r\n");
    Server::start(answering(move |_, _| response("200 OK", &header, &body)))
}

#[test]
fn packed_bodies_are_unpacked() {
    let egress = plain(Limits::default());
    let text = b"what is said many times is said shortly; ".repeat(1000);
    for (header, kind) in
        [("gzip", "gzip"), ("x-gzip", "gzip"), ("GZip", "gzip"), ("deflate", "deflate"), ("deflate", "bare")]
    {
        let server = sends(header, packed(kind, &text));
        let reply = get(&egress, &server.url("/")).unwrap();
        assert!(reply.body == text, "{header} {kind}");
        assert!(!reply.headers.iter().any(|(name, _)| name.starts_with("content-")), "{:?}", reply.headers);
        // Whoever speaks of packings gets what was sent.
        let mut own = ask("GET", &server.url("/"));
        own.headers = vec![("Accept-Encoding".into(), header.into())];
        let reply = egress.fetch(own, &local(), &mut || false).unwrap().unwrap();
        assert!(reply.body == packed(kind, &text), "{header} {kind}");
        assert!(reply.headers.contains(&("content-encoding".into(), header.into())));
    }
    let two = [packed("gzip", b"one "), packed("gzip", b"two")].concat();
    assert_eq!(get(&egress, &sends("gzip", two).url("/")).unwrap().body, b"one two");
    let unknown = get(&egress, &sends("zstd", b"as it is".to_vec()).url("/")).unwrap();
    assert_eq!((unknown.body.as_slice(), unknown.headers.len()), (b"as it is".as_slice(), 2));
    for empty in ["gzip", "deflate", "br"] {
        assert_eq!(get(&egress, &sends(empty, Vec::new()).url("/")).unwrap().body, b"");
    }
    assert_eq!(get(&egress, &sends("br", BROTLI.to_vec()).url("/")).unwrap().body, b"hello ".repeat(7));
}

#[test]
fn bombs_do_not_go_off() {
    let egress = plain(Limits::default());
    // Megabytes of zeros in a few kilobytes; then one that stays below the size and not below the ratio.
    for kind in ["gzip", "deflate", "bare", "br"] {
        let header = if kind == "bare" { "deflate" } else { kind };
        let body = if kind == "br" { BROTLI_BOMB.to_vec() } else { packed(kind, &vec![0; 8 << 20]) };
        let bomb = sends(header, body);
        let (told, took) = timed(|| get(&egress, &bomb.url("/")));
        assert_eq!(told, Err(EgressError::UnpackedTooLarge { host: host(), limit: 1 << 20 }), "{kind}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        let wide = plain(Limits { body: 1 << 30, ..Limits::default() });
        assert_eq!(get(&wide, &bomb.url("/")), Err(EgressError::Ratio { host: host(), limit: 100 }), "{kind}");
    }
    let twice = packed("gzip", &packed("gzip", &vec![0; 1 << 20]));
    let told = get(&egress, &sends("gzip, gzip", twice).url("/"));
    assert!(matches!(told, Err(EgressError::Packing { .. })), "{told:?}");
    for (kind, body) in [
        ("gzip", b"not gzip at all".to_vec()),
        ("deflate", b"x".to_vec()),
        ("deflate", b"not deflate at all".to_vec()),
        ("br", b"not brotli at all, and long enough".to_vec()),
        ("gzip", packed("gzip", &[7; 5000])[..20].to_vec()),
        ("deflate", packed("deflate", &[7; 5000])[..12].to_vec()),
        ("br", BROTLI[..12].to_vec()),
    ] {
        let told = get(&egress, &sends(kind, body.clone()).url("/"));
        assert!(matches!(told, Err(EgressError::Packing { .. })), "{kind} {body:?}: {told:?}");
    }
}

#[test]
fn a_request_is_cut_off_wherever_it_is() {
    let silent = Names4::start(|_, _| None);
    let settings = Settings { resolver: Resolver::Server(silent.address), ..Settings::default() };
    let full = full_listener();
    let full_url = format!("http://{}/", full.0.local_addr().unwrap());
    let mute = Server::start(|mut stream, _| {
        closes(&mut stream);
    });
    let (gone, closed) = mpsc::channel();
    let waits = |first: &'static [u8]| {
        let gone = gone.clone();
        Server::start(move |mut stream, _| {
            if request(&mut stream).is_some() && stream.write_all(first).is_ok() {
                let _ = gone.send(closes(&mut stream));
            }
        })
    };
    let (head, body) = (waits(b""), waits(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"));
    let egress = plain(Limits::default());
    let cases = [
        ("resolving", Egress::new(settings), "http://slow.example/".to_owned(), false),
        ("connecting", egress.clone(), full_url, false),
        ("agreeing on keys", Egress::new(crate::support::settings(roots())), mute.https("/"), false),
        ("waiting for the head", egress.clone(), head.url("/"), true),
        ("reading the body", egress.clone(), body.url("/"), true),
    ];
    for (at, egress, url, seen) in cases {
        let start = Instant::now();
        let wait = Duration::from_millis(100);
        let mut asked = 0;
        let done = egress.fetch(ask("GET", &url), &local(), &mut || {
            asked += 1;
            start.elapsed() >= wait
        });
        let took = start.elapsed();
        assert!(done.is_none(), "{at}: {done:?}");
        assert!(took >= wait && took < wait + Duration::from_millis(250), "{at}: {took:?}");
        assert!(asked >= 5, "{at}: asked {asked} times");
        if seen {
            assert!(closed.recv_timeout(Duration::from_secs(2)).unwrap(), "{at}: the socket is closed");
        }
    }
}

/// A listener that takes no more connections, and those that fill its queue.
fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let socket = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket.listen(1).unwrap().into_std().unwrap()
    });
    let address = socket.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        held.push(stream);
        assert!(held.len() < 100, "the queue never fills");
    }
    assert_eq!(address.ip(), "127.0.0.1".parse::<IpAddr>().unwrap());
    (socket, held)
}

fn roots() -> lazaret_exec::egress::Roots {
    crate::support::Authority::new().roots()
}

//! Where a response of HTTP/1.1 ends, however it is cut into pieces, and what hyper makes of the same bytes.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Authority, NAME, Server, answering, ask, get, local, plain, request, response, server_config};
use hyper_util::rt::TokioIo;
use lazaret_exec::egress::{Egress, EgressError, Limits};
use rustls::{ServerConnection, StreamOwned};

/// Answers and what they are: status and body, or nothing if they are refused. The server hangs up after each.
const ANSWERS: [(&str, Option<(u16, &str)>); 34] = [
    ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", Some((200, "hi"))),
    ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nhi", Some((200, "hi"))),
    ("HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nhi", Some((200, "hi"))),
    ("HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n", Some((200, ""))),
    ("HTTP/1.1 200 OK\r\n\r\nall of it", Some((200, "all of it"))),
    ("HTTP/1.0 200 OK\r\n\r\nall of it", Some((200, "all of it"))),
    ("HTTP/1.1 204 No Content\r\n\r\n", Some((204, ""))),
    ("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", Some((204, ""))),
    ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", Some((304, ""))),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        Some((200, "hi")),
    ),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", Some((200, "hi"))),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nhi\r\nA\r\n0123456789\r\n0\r\n\r\n",
        Some((200, "hi0123456789")),
    ),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0;c\r\n\r\n", Some((200, "hi"))),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n", Some((200, "hi"))),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 99\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        Some((200, "hi")),
    ),
    ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi", None),
    ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nhi", None),
    ("HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\nhi", None),
    ("HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nhi", None),
    ("HTTP/1.1 200 OK\r\ncontent-length: 2x\r\n\r\nhi", None),
    ("HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\nhi", None),
    ("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\nhi", None),
    ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\nhi", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhix\r\n0\r\n\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", None),
    ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nhi\r\n0\r\n\r\n", None),
    ("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", None),
];

type Told = Option<(u16, Vec<u8>, Vec<(String, Vec<u8>)>)>;

/// A server that says what it is told to, in pieces of so many bytes, and hangs up.
struct Says {
    server: Server,
    next: Arc<Mutex<(Vec<u8>, usize)>>,
    egress: Egress,
}

impl Says {
    fn new() -> Self {
        let next = Arc::new(Mutex::new((Vec::new(), 1)));
        let told = Arc::clone(&next);
        let server = Server::start(move |mut stream, _| {
            if request(&mut stream).is_some() {
                let (bytes, piece) = told.lock().unwrap().clone();
                stream.set_nodelay(true).unwrap();
                for piece in bytes.chunks(piece) {
                    if stream.write_all(piece).is_err() {
                        return;
                    }
                    if piece.len() < bytes.len() {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
            }
        });
        Self { server, next, egress: plain(Limits::default()) }
    }

    fn ask(&self, bytes: &[u8], piece: usize) -> Told {
        *self.next.lock().unwrap() = (bytes.to_vec(), piece);
        let reply = get(&self.egress, &self.server.url("/")).ok()?;
        Some((reply.status, reply.body, reply.headers))
    }
}

#[test]
fn a_response_ends_where_it_says() {
    let says = Says::new();
    for (bytes, expected) in ANSWERS {
        for piece in [bytes.len(), 7, 1] {
            let told = says.ask(bytes.as_bytes(), piece);
            let told = told.map(|(status, body, _)| (status, String::from_utf8(body).unwrap()));
            assert_eq!(told, expected.map(|(status, body)| (status, body.to_owned())), "{piece}: {bytes:?}");
        }
    }
}

/// What hyper makes of an answer.
async fn by_hyper(bytes: &[u8]) -> Told {
    use hyper::body::Body as _;
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let bytes = bytes.to_vec();
    tokio::spawn(async move {
        tokio::io::AsyncReadExt::read(&mut far, &mut [0; 1024]).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut far, &bytes).await.unwrap();
    });
    let (mut send, connection) = hyper::client::conn::http1::handshake::<_, String>(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    let asked = hyper::Request::get("/").header("host", NAME).body(String::new()).unwrap();
    let (head, mut body) = send.send_request(asked).await.ok()?.into_parts();
    let mut whole = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await {
        whole.extend(frame.ok()?.data_ref().map_or(&[][..], |bytes| bytes));
    }
    let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    Some((head.status.as_u16(), whole, headers.collect()))
}

#[test]
fn what_is_taken_hyper_takes_alike() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let says = Says::new();
    let (mut seed, mut taken) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    let odd = b"\r\n :;,0129afAF-+x\t\0\xff%";
    for round in 0..4_000 {
        let mut bytes = ANSWERS[round % ANSWERS.len()].0.as_bytes().to_vec();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] = odd[random(odd.len())],
                1 => bytes.insert(at, odd[random(odd.len())]),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let Some((status, body, mut headers)) = says.ask(&bytes, bytes.len()) else { continue };
        taken += 1;
        let shown = String::from_utf8_lossy(&bytes);
        let Some((as_read, whole, mut also)) = runtime.block_on(by_hyper(&bytes)) else {
            panic!("hyper refuses {shown:?}");
        };
        headers.sort();
        also.sort();
        assert_eq!((status, body, headers), (as_read, whole, also), "{shown:?}");
    }
    assert!(taken > 500, "{taken}");
}

#[test]
fn only_a_clear_end_leaves_a_connection_for_the_next() {
    let asked = |answer: &'static str| {
        let server = Server::start(answering(move |_, _| answer.as_bytes().to_vec()));
        let egress = plain(Limits::default());
        for _ in 0..3 {
            get(&egress, &server.url("/")).unwrap();
        }
        server.connections()
    };
    assert_eq!(asked("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"), 1);
    assert_eq!(asked("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), 1);
    assert_eq!(asked("HTTP/1.1 204 No Content\r\n\r\n"), 1);
    for once in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nConnection: x, Close\r\ncontent-length: 2\r\n\r\nhi",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi and more",
        "HTTP/1.1 200 OK\r\ncontent-length: 7\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    ] {
        assert_eq!(asked(once), 3, "{once:?}");
    }
}

#[test]
fn the_answer_to_head_has_no_body() {
    let server = Server::start(answering(|_, _| b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n".to_vec()));
    let egress = plain(Limits::default());
    for _ in 0..2 {
        let reply = egress.fetch(ask("HEAD", &server.url("/")), &local(), &mut || false).unwrap().unwrap();
        assert_eq!((reply.status, reply.body.len()), (200, 0));
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn an_answer_before_the_end_of_the_request_counts() {
    // Reads the head and a little, answers, and takes no more.
    let server = Server::start(|mut stream, _| {
        let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        let _ = stream.write_all(&response("413 Content Too Large", "connection: close\r\n", b"too much"));
        std::thread::sleep(Duration::from_millis(300));
    });
    let egress = plain(Limits { ask_body: 64 << 20, ..Limits::default() });
    let mut post = ask("POST", &server.url("/"));
    post.body = vec![7; 32 << 20];
    let reply = egress.fetch(post, &local(), &mut || false).unwrap().unwrap();
    assert_eq!((reply.status, reply.body.as_slice()), (413, b"too much".as_slice()));
}

#[test]
fn a_body_without_length_must_end_by_word_of_the_server() {
    // Over TLS, who only hangs up may have been cut off by somebody else.
    for (word, expected) in [(true, Ok(b"all of it".to_vec())), (false, Err(()))] {
        let authority = Authority::new();
        let config = server_config(authority.leaf(&[NAME], |_| {}), &["http/1.1"]);
        let server = Server::start(move |stream, _| {
            let mut connection = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            if request(&mut connection).is_some() {
                connection.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it").unwrap();
                if word {
                    connection.conn.send_close_notify();
                }
                connection.flush().unwrap();
            }
        });
        let egress = Egress::new(crate::support::settings(authority.roots()));
        let told = get(&egress, &server.https("/"));
        assert!(!matches!(told, Err(ref why) if !matches!(why, EgressError::Broken { .. })), "{told:?}");
        assert_eq!(told.map(|reply| reply.body).map_err(drop), expected);
    }
}

//! Bodies that are larger than whoever asked has leave for: no more of them is read than tells so.

use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Authority, NAME, Server, answering, ask, closes, local, plain, request, response, settings};
use flate2::Compression;
use flate2::write::GzEncoder;
use lazaret_exec::egress::{Egress, EgressError, Limits, Reply};

fn fetch(egress: &Egress, url: &str, most: usize) -> Result<Reply, EgressError> {
    let mut asked = ask("GET", url);
    asked.most = Some(most);
    egress.fetch(asked, &local(), &mut || false).unwrap()
}

fn over(limit: usize) -> Result<Reply, EgressError> {
    Err(EgressError::OverLeave { host: NAME.to_owned(), limit })
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::best());
    to.write_all(text).unwrap();
    to.finish().unwrap()
}

#[test]
fn what_the_head_tells_is_enough() {
    let egress = plain(Limits::default());
    // Not a byte of the body comes, and nobody waits for one.
    let server = Server::start(|mut stream, _| {
        if request(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n");
            closes(&mut stream);
        }
    });
    assert_eq!(fetch(&egress, &server.url("/"), 9), over(9));
    let server = Server::start(answering(|_, _| response("200 OK", "", b"123456789")));
    assert_eq!(fetch(&egress, &server.url("/"), 9).unwrap().body, b"123456789");
    assert_eq!(fetch(&egress, &server.url("/"), 8), over(8));
    assert_eq!(fetch(&egress, &server.url("/"), 0), over(0));
    let empty = Server::start(answering(|_, _| response("200 OK", "", b"")));
    assert_eq!(fetch(&egress, &empty.url("/"), 0).unwrap().body, b"");
}

#[test]
fn an_endless_body_is_read_so_far_and_no_further() {
    let egress = plain(Limits::default());
    let (sent, read) = mpsc::channel();
    let server = Server::start(move |mut stream, _| {
        if request(&mut stream).is_none() {
            return;
        }
        let mut count = 0_usize;
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        let chunk = [b"400\r\n".as_slice(), &[b'x'; 1024], b"\r\n"].concat();
        let mut next = head;
        while stream.write_all(&next).is_ok() {
            count += 1;
            next.clone_from(&chunk);
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = sent.send(count);
    });
    assert_eq!(fetch(&egress, &server.url("/"), 4096), over(4096));
    let count = read.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(count < 500, "the connection was closed: {count} KiB were sent");
    // To the byte.
    let chunked = |body: &'static str| {
        let text =
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        Server::start(answering(move |_, _| text.clone().into_bytes()))
    };
    assert_eq!(fetch(&egress, &chunked("123456789").url("/"), 9).unwrap().body, b"123456789");
    assert_eq!(fetch(&egress, &chunked("1234567890").url("/"), 9), over(9));
}

#[test]
fn what_is_packed_counts_as_it_is_unpacked() {
    let egress = plain(Limits::default());
    let sends =
        |body: Vec<u8>| Server::start(answering(move |_, _| response("200 OK", "content-encoding: gzip\r\n", &body)));
    let text = b"what is said many times is said shortly; ".repeat(100);
    let server = sends(gzip(&text));
    assert!(gzip(&text).len() < 200, "it packs well");
    assert_eq!(fetch(&egress, &server.url("/"), text.len()).unwrap().body, text);
    assert_eq!(fetch(&egress, &server.url("/"), text.len() - 1), over(text.len() - 1));
    assert_eq!(fetch(&egress, &server.url("/"), 200), over(200));
    // A few bytes are more when they are packed, and the agent gets them unpacked.
    assert!(gzip(b"hi").len() > 9);
    assert_eq!(fetch(&egress, &sends(gzip(b"hi")).url("/"), 2).unwrap().body, b"hi");
    // Whoever wants them packed gets as many as they are.
    let mut own = ask("GET", &server.url("/"));
    (own.headers, own.most) = (vec![("Accept-Encoding".into(), b"gzip".to_vec())], Some(gzip(&text).len()));
    assert_eq!(egress.fetch(own, &local(), &mut || false).unwrap().unwrap().body, gzip(&text));
}

#[test]
fn more_leave_than_anybody_has_is_none() {
    let egress = plain(Limits { body: 100, ..Limits::default() });
    let server = Server::start(answering(|_, _| response("200 OK", "", &[b'x'; 101])));
    let told = fetch(&egress, &server.url("/"), 1000);
    assert_eq!(told, Err(EgressError::BodyTooLarge { host: NAME.to_owned(), limit: 100 }));
}

#[test]
fn over_http2_as_well() {
    let authority = Authority::new();
    let (server, _) = crate::http2::serving(&authority, |request, mut respond| {
        let body = vec![b'x'; 100];
        let mut head = hyper::Response::builder();
        if request.uri().path() == "/told" {
            head = head.header("content-length", "100");
        }
        let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
        if request.uri().path() != "/told" {
            stream.send_data(hyper::body::Bytes::from(body), true).unwrap();
        } else {
            // It never comes.
            std::mem::forget(stream);
        }
    });
    let egress = Egress::new(settings(authority.roots()));
    assert_eq!(fetch(&egress, &server.https("/"), 100).unwrap().body.len(), 100);
    assert_eq!(fetch(&egress, &server.https("/"), 99), over(99));
    assert_eq!(fetch(&egress, &server.https("/told"), 99), over(99));
}

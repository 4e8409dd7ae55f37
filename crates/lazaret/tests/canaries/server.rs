//! A server that keeps what it is given, and says it back in every form that it can think of.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::scan::{MARK, written};

pub(crate) struct Server {
    pub(crate) origin: String,
    seen: Arc<Mutex<HashSet<String>>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(HashSet::new()));
        let kept = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = kept.clone();
                std::thread::spawn(move || answer(stream, &kept));
            }
        });
        Self { origin, seen }
    }

    /// How many different values came.
    pub(crate) fn values(&self) -> usize {
        self.seen.lock().expect("values").len()
    }
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        out.push(char::from(u8::from_str_radix(code, 16).expect("two hex digits")));
        out.push_str(rest);
    }
    out
}

/// The secret in a request: behind `Bearer`, in `Basic`, or in the query.
fn value(head: &str) -> String {
    let line = head.lines().next().unwrap_or_default();
    let auth = head.lines().find_map(|line| line.strip_prefix("authorization: "));
    if let Some(bearer) = auth.and_then(|auth| auth.strip_prefix("Bearer ")) {
        return bearer.to_owned();
    }
    if let Some(basic) = auth.and_then(|auth| auth.strip_prefix("Basic ")) {
        let pair = String::from_utf8(STANDARD.decode(basic).expect("base64")).expect("text");
        return pair.strip_prefix("ada:").expect("the user").to_owned();
    }
    let query = line.split(' ').nth(1).and_then(|url| url.split_once("?key=")).expect("a secret somewhere").1;
    unescaped(query)
}

fn answer(mut stream: TcpStream, seen: &Mutex<HashSet<String>>) {
    loop {
        let mut bytes = Vec::new();
        let mut some = [0; 4096];
        while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut some) {
                Ok(read) if read > 0 => bytes.extend_from_slice(&some[..read]),
                _ => return,
            }
        }
        let value = value(&String::from_utf8_lossy(&bytes));
        assert!(value.starts_with(MARK), "not a canary: {value}");
        let forms = written(&value);
        let body: String = forms.iter().map(|(form, text)| format!("{form} {text}\n")).collect();
        let headers: String = forms.iter().map(|(form, text)| format!("x-{form}: {text}\r\n")).collect();
        seen.lock().expect("values").insert(value);
        let head = format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

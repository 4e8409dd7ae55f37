//! A server on the loopback that counts what it is asked. It answers each request with a few bytes and closes.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// `POST /7/write-1` → how often.
type Counts = Arc<Mutex<HashMap<String, u64>>>;

/// Counts for every run at once: each has its number in the path.
pub(crate) struct Server {
    pub(crate) port: u16,
    counts: Counts,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback");
        let port = listener.local_addr().expect("an address").port();
        let counts = Counts::default();
        let shared = counts.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that was killed is no reason to stop.
                let _ = answer(stream, &shared);
            }
        });
        Self { port, counts }
    }

    pub(crate) fn count(&self, asked: &str) -> u64 {
        self.counts.lock().expect("counts").get(asked).copied().unwrap_or(0)
    }
}

fn answer(mut stream: TcpStream, counts: &Counts) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = Vec::new();
    let mut some = [0; 4096];
    let (head, body) = loop {
        let read = stream.read(&mut some)?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&some[..read]);
        if let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break (String::from_utf8_lossy(&request[..end]).into_owned(), request.len() - end - 4);
        }
    };
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut missing = length.unwrap_or(0_usize).saturating_sub(body);
    while missing > 0 {
        let read = stream.read(&mut some)?;
        if read == 0 {
            return Ok(());
        }
        missing = missing.saturating_sub(read);
    }
    let mut words = head.split_whitespace();
    let asked = format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default());
    *counts.lock().expect("counts").entry(asked).or_insert(0) += 1;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
}

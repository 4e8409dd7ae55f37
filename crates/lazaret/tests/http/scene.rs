//! A keeper on a data root of its own, and a client that can be as rude as it likes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::station;

/// Nothing that a test waits for takes this long, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    dir: tempfile::TempDir,
    keeper: Option<Child>,
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }
}

/// What came back.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {}\n{}", self.head, self.body))
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Insists on a status and a fault.
    pub(crate) fn fault(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        let fault = self.json();
        assert_eq!(fault["code"], code, "{fault}");
        assert!(fault["message"].is_string() && fault["exit"].is_u64(), "{fault}");
    }

    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}\n{}", self.head, self.body);
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

pub(crate) fn component(name: &str) -> String {
    STANDARD.encode(std::fs::read(station::guests().join(format!("{name}.wasm"))).unwrap())
}

impl Scene {
    /// A keeper with the loosest preset and the agent `a`.
    pub(crate) fn new(grants: &[&str]) -> Self {
        Self::with(grants, |_| ())
    }

    /// The same, with something done to the command that starts it.
    pub(crate) fn with(grants: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut scene = Self { dir, keeper: None, address: String::new(), token: String::new() };
        let mut create = scene.command(&["--preset", "open", "agent", "create", "a"]);
        create.arg(station::guests().join("rust-counter.wasm")).args([
            "--fuel",
            "9000000000000",
            "--wall-ms",
            "600000",
        ]);
        for grant in grants {
            create.args(["--grant", grant]);
        }
        station::done(&mut create);
        scene.start(change);
        scene
    }

    fn start(&mut self, change: impl FnOnce(&mut Command)) {
        let mut serve = self.command(&["serve", "--http", "127.0.0.1:0"]);
        change(&mut serve);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        self.keeper = Some(serve.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let address = until("the keeper is up", || std::fs::read_to_string(self.root().join("run/http")).ok());
        self.address = address.trim().strip_prefix("http://").unwrap().to_owned();
        self.token = std::fs::read_to_string(self.root().join("ipc.token")).unwrap().trim().to_owned();
    }

    /// Kills the keeper, and starts another one.
    pub(crate) fn crash(&mut self) {
        let mut keeper = self.keeper.take().unwrap();
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        std::fs::remove_file(self.root().join("run/http")).unwrap();
        self.start(|_| ());
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("keeper.log")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = station::lazaret(&self.root());
        command.args(args).env_remove("LAZARET_SPEND_KILL_SWITCH").env_remove("LAZARET_IPC_TOKEN");
        command
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The usual head of a request: the right host, the token, one request only.
    pub(crate) fn head(&self, line: &str) -> String {
        let (host, token) = (&self.address, &self.token);
        format!("{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n")
    }

    /// Sends these bytes and reads the answer to its end.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Got {
        let mut stream = self.connect();
        // It may hang up before all is sent; what it said is read all the same.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        got(&answer)
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        self.raw(format!("{}\r\n", self.head(&format!("GET {path}"))).as_bytes())
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Got {
        let body = body.to_string();
        let head = self.head(&format!("{method} {path}"));
        let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        self.raw(format!("{head}{more}{body}").as_bytes())
    }

    /// Takes a turn of `a`; what it replied.
    pub(crate) fn turn(&self, text: &str) -> String {
        let taken = self.send("POST", "/v1/agents/a/turns", &json!({ "text": text })).ok();
        let body = taken["record"]["ending"]["replied"]["body"].as_str().unwrap_or_else(|| panic!("{taken}"));
        String::from_utf8(STANDARD.decode(body).unwrap()).unwrap()
    }

    /// Opens an event stream.
    pub(crate) fn events(&self, path: &str, more: &str) -> Stream {
        let mut stream = self.connect();
        stream.write_all(format!("{}{more}\r\n", self.head(&format!("GET {path}"))).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "cut off: {head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Stream { reader, text: String::new() }
    }

    /// A figure of `/metrics`.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }

    pub(crate) fn stop(&mut self) {
        station::done(&mut self.command(&["stop"]));
        let mut keeper = self.keeper.take().unwrap();
        let ended = until("the keeper ends", || keeper.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
        let log = std::fs::read_to_string(self.log()).unwrap();
        assert!(log.contains("the keeper is down") && !log.contains(&self.token) && !log.contains("panicked"), "{log}");
    }
}

fn got(answer: &[u8]) -> Got {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Got { status, head: head.to_owned(), body: body.to_owned() }
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

/// An event stream. Its bytes come in chunks, whose lengths are no part of it.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    text: String,
}

impl Stream {
    /// The next event; beats and other quiet signs are passed over.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
                };
                let Some(data) = field("data") else { continue };
                let data = serde_json::from_str(&data).unwrap();
                return Some(Event { kind: field("event").unwrap(), id: field("id"), data });
            }
            let mut length = String::new();
            if self.reader.read_line(&mut length).ok()? == 0 {
                return None;
            }
            let length = usize::from_str_radix(length.trim(), 16).ok()?;
            let mut chunk = vec![0; length + 2];
            self.reader.read_exact(&mut chunk).ok()?;
            self.text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
            if length == 0 {
                return None;
            }
        }
    }

    /// Events up to and with the first that is meant.
    pub(crate) fn until(&mut self, meant: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().expect("the stream goes on");
            events.push(event.clone());
            if meant(&event) {
                return events;
            }
        }
    }
}

/// Looks again and again until something is there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

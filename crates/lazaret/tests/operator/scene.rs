//! A data root with one agent, processes on it, and a server that can keep silent.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::station;

/// Nothing that a test waits for takes this long, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks before the agent changes its storage, fetches something or calls a tool.
pub(crate) const ASKS: &str = r#"
@id("look-first") @requireApproval("Somebody should look at it.")
permit(principal, action in [Action::"storage.set", Action::"http.fetch", Action::"tool.call"], resource);
"#;

pub(crate) struct Scene {
    dir: tempfile::TempDir,
}

/// What a command said, and what it said with wrapped lines made whole.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) flat: String,
    pub(crate) text: String,
}

impl Scene {
    /// A data root with the loosest preset and the agent `a`, with no cap on its turns that a test could run into.
    pub(crate) fn new(grants: &[&str], more: &[&str]) -> Self {
        let scene = Self { dir: tempfile::tempdir().unwrap() };
        let component = station::guests().join("rust-counter.wasm");
        let mut create = scene.command(&["--preset", "open", "agent", "create", "a"]);
        create.arg(component).args(["--fuel", "9000000000000", "--wall-ms", "600000"]).args(more);
        for grant in grants {
            create.args(["--grant", grant]);
        }
        station::done(&mut create);
        scene
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Adds a file of rules.
    pub(crate) fn rule(&self, text: &str) {
        std::fs::write(self.root().join("policy/asks.cedar"), text).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = station::lazaret(&self.root());
        command.args(args).env("USER", "ana").env_remove("LAZARET_SPEND_KILL_SWITCH");
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(self.command(args).output().unwrap())
    }

    /// Runs a command that must end well; what it printed.
    pub(crate) fn done(&self, args: &[&str]) -> String {
        station::done(&mut self.command(args))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.done(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{args:?}: {why}\n{text}"))
    }

    /// Starts a command that takes its time.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Running(child)
    }

    /// The question that waits.
    pub(crate) fn question(&self) -> String {
        self.question_after("")
    }

    /// The question that waits when this one is answered; an answered one lies there until its turn has seen the answer.
    pub(crate) fn question_after(&self, answered: &str) -> String {
        until("a question waits", || {
            let waiting = self.json(&["approvals", "list"]);
            let mut ids = waiting.as_array()?.iter().filter_map(|question| question.get("id")?.as_str());
            ids.find(|id| *id != answered).map(str::to_owned)
        })
    }

    /// The journal's bodies of one kind.
    pub(crate) fn journal(&self, kind: &str) -> Vec<Value> {
        let len = self.json(&["status"])["journal"].as_u64().unwrap();
        let entries = (0..len).map(|seq| self.json(&["journal", "show", &seq.to_string()]));
        entries.filter_map(|entry| find(&entry, kind).cloned()).collect()
    }

    pub(crate) fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root().join(path)
    }
}

/// The value under this key, however deep.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(key).or_else(|| fields.values().find_map(|value| find(value, key))),
        _ => None,
    }
}

/// A command that runs.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn end(self) -> Said {
        said(self.wait())
    }

    /// How it ended, and how long after this call.
    pub(crate) fn ends_within(self, most: Duration) -> Said {
        let begun = Instant::now();
        let output = self.wait();
        let took = begun.elapsed();
        assert!(took < most, "it took {took:?}: {output:?}");
        said(output)
    }

    /// `kill -9`.
    pub(crate) fn crash(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn wait(mut self) -> Output {
        until("the command ends", || self.0.try_wait().unwrap());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        Output { status: self.0.wait().unwrap(), stdout, stderr }
    }
}

fn said(output: Output) -> Said {
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Said { code: output.status.code().unwrap_or(-1), flat, text }
}

/// Looks again and again until something is there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server on this machine that tells of every request, and answers or keeps silent until it is hung up on.
pub(crate) struct Server {
    pub(crate) origin: String,
    requests: Receiver<()>,
    hung_up: Receiver<()>,
}

impl Server {
    pub(crate) fn start(answers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let ((asked, requests), (over, hung_up)) = (channel(), channel());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (asked, over) = (asked.clone(), over.clone());
                std::thread::spawn(move || serve(stream.unwrap(), answers, &asked, &over));
            }
        });
        Self { origin, requests, hung_up }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/x", self.origin)
    }

    pub(crate) fn grant(&self) -> String {
        format!("http:{}", self.origin)
    }

    pub(crate) fn wait_for_request(&self) {
        self.requests.recv_timeout(PATIENCE).expect("a request comes");
    }

    pub(crate) fn wait_for_hang_up(&self) {
        self.hung_up.recv_timeout(PATIENCE).expect("the connection ends");
    }

    /// Requests since the last look.
    pub(crate) fn more_requests(&self) -> usize {
        self.requests.try_iter().count()
    }
}

fn serve(mut stream: TcpStream, answers: bool, asked: &Sender<()>, over: &Sender<()>) {
    let mut buffer = [0; 4096];
    let mut head = Vec::new();
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => head.extend_from_slice(&buffer[..read]),
        }
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            head.clear();
            let _ = asked.send(());
            if answers {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
            }
        }
    }
    let _ = over.send(());
}

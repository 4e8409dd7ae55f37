//! A data root, a keeper on it, and somebody who talks to its socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lazaret_link::{Client, Place, socket};
use serde_json::Value;

use crate::station;

pub(crate) struct Scene {
    _dir: tempfile::TempDir,
    dir: PathBuf,
    /// The data root.
    pub(crate) root: PathBuf,
}

/// A keeper that runs; killed if a test ends before it does.
pub(crate) struct Running {
    pub(crate) child: Child,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) fn signal(&self, name: &str) {
        station::done(Command::new("kill").args(["-s", name, &self.child.id().to_string()]));
    }

    /// Waits for its end; its exit code, none if a signal ended it.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::at("data")
    }

    /// A scene whose data root has this path in it.
    pub(crate) fn at(path: &str) -> Self {
        let holder = tempfile::tempdir().unwrap();
        let dir = holder.path().to_owned();
        Self { _dir: holder, root: dir.join(path), dir }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = station::lazaret(&self.root);
        for name in ["LAZARET_IPC_TOKEN", "NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LAZARET_SPEND_KILL_SWITCH"] {
            command.env_remove(name);
        }
        command.args(args).env("LAZARET_PRESET", "open").env("USER", "ana");
        command
    }

    /// What a command says, and its exit code.
    pub(crate) fn run(&self, args: &[&str]) -> (String, i32) {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        assert!(!text.contains("panicked"), "{args:?}: {text}");
        (text, status.code().unwrap_or(-1))
    }

    #[track_caller]
    pub(crate) fn done(&self, args: &[&str]) -> String {
        let (text, code) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {text}");
        text
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&station::done(&mut self.command(&[args, &["--json"]].concat()))).unwrap()
    }

    /// Makes the agent, with time enough to be stopped in the middle.
    pub(crate) fn agent(&self, name: &str) {
        let component = station::guests().join("rust-counter.wasm");
        let component = component.to_str().unwrap();
        self.done(&["agent", "create", name, component, "--fuel", "9000000000000", "--wall-ms", "600000"]);
    }

    /// Starts a keeper; returns when it answers.
    pub(crate) fn serve(&self) -> Running {
        self.serve_with(&mut self.command(&["serve", "--foreground"]))
    }

    pub(crate) fn serve_with(&self, command: &mut Command) -> Running {
        let running = self.start(command);
        station::wait_for("the keeper to answer", || Client::ping(&socket(&self.root)).is_ok());
        running
    }

    /// Starts a process whose log is kept.
    pub(crate) fn start(&self, command: &mut Command) -> Running {
        let log = self.dir.join("keeper.log");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        Running { child: command.stdout(Stdio::null()).stderr(file).spawn().unwrap(), log }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.root.join("ipc.token")).unwrap().trim().to_owned()
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(Place::of(&socket(&self.root)).unwrap().path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Says something and listens to the end.
    pub(crate) fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    /// What the HTTP interface answers to this path, head and all.
    pub(crate) fn get(&self, path: &str) -> String {
        self.http(&format!("GET {path}"), "")
    }

    /// What it answers to a method and path with a body in JSON.
    pub(crate) fn http(&self, line: &str, body: &str) -> String {
        let address = std::fs::read_to_string(self.root.join("run/http")).unwrap();
        let address = address.trim().strip_prefix("http://").unwrap();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let token = self.token();
        let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n");
        let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        write!(stream, "{line} HTTP/1.1\r\n{head}{more}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Starts a turn that doesn't end, and waits until it has begun.
    pub(crate) fn spin(&self, agent: &str) -> Child {
        let mut command = self.command(&["agent", "send", agent, "spin"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let status = format!("STATUS {}\n", self.token());
        station::wait_for("the turn to begin", || self.say(status.as_bytes()).contains(" under_way=1 "));
        child
    }
}

/// How long something takes.
pub(crate) fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (what(), begun.elapsed())
}

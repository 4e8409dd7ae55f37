//! What the vault promises, with real processes: whatever is done to a secret, its value is in no output, in no log and nowhere
//! in the data root; a keeper has the keys when somebody gave them, and forgets them when told.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

#[allow(dead_code, reason = "shared by several tests")]
#[path = "support/station.rs"]
mod station;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

const PASSPHRASE: &str = "canary phrase: nine lamps over the quiet harbour";

struct Scene {
    dir: tempfile::TempDir,
    /// Everything that was ever said.
    said: Vec<u8>,
    values: Vec<String>,
}

/// A keeper, killed if a test ends before it does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, said: Vec::new(), values: vec![PASSPHRASE.to_owned()] }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A file that only its owner can open.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = station::lazaret(&self.root());
        for name in ["LAZARET_IPC_TOKEN", "LAZARET_SPEND_KILL_SWITCH", "LAZARET_VAULT_PASSPHRASE_FILE"] {
            command.env_remove(name);
        }
        command.args(args).env("USER", "ana").env("LAZARET_LOG", "debug").current_dir(self.dir.path());
        command
    }

    /// Runs a command with something on its standard input; its exit code and what it said.
    fn run(&mut self, mut command: Command, input: &str) -> (i32, String) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let ended = child.wait_with_output().unwrap();
        let text = [ended.stdout, ended.stderr].concat();
        self.said.extend(&text);
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains("panicked"), "{text}");
        (ended.status.code().unwrap_or(-1), text)
    }

    #[track_caller]
    fn must(&mut self, code: i32, args: &[&str], input: &str) -> String {
        let command = self.command(args);
        let (ended, text) = self.run(command, input);
        assert_eq!(ended, code, "{args:?}: {text}");
        text
    }

    /// A new value that is nowhere else.
    fn value(&mut self) -> String {
        let value = format!("canary<{}>&\"%41\\n-Zq7xW", self.values.len() * 7919);
        self.values.push(value.clone());
        value
    }

    fn serve(&self, command: &mut Command) -> Running {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let root = self.root();
        station::wait_for("the keeper to answer", || lazaret_link::Client::ping(&lazaret_link::socket(&root)).is_ok());
        Running(child)
    }

    /// Every way to do something to a secret, with values of its own.
    fn everything(&mut self, agent: &str) {
        let json = ["--json"];
        let name = format!("s-{agent}");
        let n = name.as_str();
        let (first, second) = (self.value(), self.value());
        self.must(0, &["secret", "set", n], &first);
        self.must(0, &["secret", "set", n, "--json"], &format!("{second}\n"));
        let third = self.value();
        let path = self.file("value", &third);
        self.must(0, &["secret", "rotate", n, "--from-file", path.to_str().unwrap()], "");
        std::fs::remove_file(path).unwrap();
        for more in [&[][..], &json] {
            let bind =
                ["secret", "bind", n, "--agent", agent, "--slot", "one", "--host", "api.example.com", "--query", "k"];
            self.must(0, &[&bind[..], more].concat(), "");
            for command in [&["secret", "list"][..], &["secret", "show", n], &["secret", "audit"], &["vault", "status"]]
            {
                self.must(0, &[command, more].concat(), "");
            }
            self.must(1, &[&["secret", "rm", n][..], more].concat(), "");
            self.must(0, &[&["secret", "unbind", "--agent", agent, "--slot", "one"][..], more].concat(), "");
        }
        // Where a value doesn't belong, it isn't repeated either.
        let lost = self.value();
        self.must(2, &["secret", "set", n, &lost], "");
        self.must(2, &["secret", "set", n, "--value", &lost], "");
        self.must(2, &["secret", "set", n, "--json", &lost], "");
        let short = "Zq7xW";
        self.must(3, &["secret", "set", n], short);
        let long = self.value().repeat(4_000);
        self.must(3, &["secret", "rotate", n], &long);
        let plain = self.value();
        self.must(0, &["secret", "set", "other"], &plain);
        self.must(0, &["secret", "rm", "other"], "");
        self.must(0, &["journal", "tail", "--json"], "");
        self.must(0, &["journal", "verify"], "");
        self.must(0, &["status", "--json"], "");
    }
}

/// A value as it could be found: as it is, without its first or last bytes, and encoded.
fn forms(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.as_bytes();
    let hex = |upper: bool| {
        let digit = |b: &u8| if upper { format!("{b:02X}") } else { format!("{b:02x}") };
        bytes.iter().map(digit).collect::<String>().into_bytes()
    };
    let url: String = bytes.iter().map(|b| format!("%{b:02X}")).collect();
    let inner = &bytes[..bytes.len() / 3 * 3];
    let json = serde_json::to_string(value).unwrap();
    vec![
        bytes.to_vec(),
        STANDARD_NO_PAD.encode(inner).into_bytes(),
        URL_SAFE_NO_PAD.encode(inner).into_bytes(),
        hex(false),
        hex(true),
        url.into_bytes(),
        json.as_bytes()[1..json.len() - 1].to_vec(),
    ]
}

/// Wrapped lines made whole.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn files(dir: &Path, each: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, each);
        } else if path.is_file() {
            each(&path, &std::fs::read(&path).unwrap());
        }
    }
}

/// Where a value is: in what was said, in the log, or in a file of the data root. And how much was looked at.
fn found(scene: &Scene) -> (Vec<String>, usize) {
    let forms: Vec<Vec<u8>> = scene.values.iter().flat_map(|value| forms(value)).collect();
    let (mut places, mut looked) = (Vec::new(), 0);
    let mut look = |place: &Path, bytes: &[u8]| {
        looked += bytes.len();
        if forms.iter().any(|form| has(bytes, form)) {
            places.push(place.display().to_string());
        }
    };
    look(Path::new("output"), &scene.said);
    look(Path::new("log"), &std::fs::read(scene.dir.path().join("log")).unwrap_or_default());
    files(&scene.root(), &mut look);
    (places, looked)
}

#[test]
fn no_value_is_anywhere() {
    let mut scene = Scene::new();
    let passphrase = scene.file("passphrase", PASSPHRASE);
    let key = scene.dir.path().join("key");
    // With a key file, alone and with a keeper; then with a passphrase, the same.
    scene.must(0, &["vault", "init", "--key-file", key.to_str().unwrap()], "");
    scene.everything("a");
    let mut keeper = scene.command(&["serve"]);
    let running = scene.serve(&mut keeper);
    scene.everything("b");
    let mut rotate = scene.command(&["vault", "rotate-master", "--passphrase"]);
    rotate.env("LAZARET_VAULT_NEW_PASSPHRASE_FILE", &passphrase);
    assert_eq!(scene.run(rotate, "").0, 0);
    scene.everything("c");
    scene.must(0, &["vault", "lock"], "");
    scene.must(11, &["secret", "list"], "");
    let late = scene.value();
    scene.must(11, &["secret", "set", "late"], &late);
    let mut unlock = scene.command(&["vault", "unlock"]);
    unlock.env("LAZARET_VAULT_PASSPHRASE_FILE", &passphrase);
    assert_eq!(scene.run(unlock, "").0, 0);
    scene.everything("d");
    scene.must(0, &["stop"], "");
    drop(running);
    let mut list = scene.command(&["secret", "list"]);
    list.env("LAZARET_VAULT_PASSPHRASE_FILE", &passphrase);
    assert_eq!(scene.run(list, "").0, 0);
    let (places, looked) = found(&scene);
    let values = scene.values.len();
    station::say(&format!(
        "vault: {values} values in 7 forms, {looked} bytes of output, log and data root: {} hits",
        places.len()
    ));
    assert_eq!(places, [""; 0]);
    // And it would have been found.
    let planted = scene.root().join("planted");
    std::fs::write(&planted, format!("x{}y", scene.values[1])).unwrap();
    assert_eq!(found(&scene).0, [planted.display().to_string()]);
}

#[test]
fn a_keeper_has_the_keys_until_it_is_told_to_forget_them() {
    let mut scene = Scene::new();
    let passphrase = scene.file("passphrase", PASSPHRASE);
    let wrong = scene.file("wrong", "another phrase that opens nothing");
    let with = |scene: &Scene, args: &[&str], path: &Path| {
        let mut command = scene.command(args);
        command.env("LAZARET_VAULT_PASSPHRASE_FILE", path);
        command
    };
    let init = with(&scene, &["vault", "init", "--passphrase"], &passphrase);
    assert_eq!(scene.run(init, "").0, 0);
    let running = scene.serve(&mut scene.command(&["serve"]));
    assert!(scene.must(0, &["vault", "status"], "").contains("locked; `lazaret vault unlock`"));
    scene.must(11, &["secret", "audit"], "");
    let unlock = with(&scene, &["vault", "unlock"], &wrong);
    assert_eq!(scene.run(unlock, "").0, 1);
    scene.must(11, &["secret", "audit"], "");
    let unlock = with(&scene, &["vault", "unlock"], &passphrase);
    assert_eq!(scene.run(unlock, "").0, 0);
    scene.must(0, &["secret", "audit"], "");
    // Whoever has its keys leaves no core file, and its memory is nobody's.
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.0.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().rev().nth(2), Some("0"), "{core}");
    assert!(scene.must(0, &["vault", "status"], "").contains("unlocked: the keeper has the keys"));
    assert!(scene.must(0, &["vault", "lock"], "").contains("has forgotten the keys"));
    scene.must(11, &["secret", "audit"], "");
    drop(running);
    // A keeper that was given the file needs nobody, and obeys all the same.
    let running = scene.serve(&mut with(&scene, &["serve"], &passphrase));
    scene.must(0, &["secret", "audit"], "");
    scene.must(0, &["vault", "lock"], "");
    scene.must(11, &["secret", "audit"], "");
    drop(running);
    // A keeper whose vault was put back to an earlier day says so and uses nothing of it.
    let sealed = scene.root().join("vault/secrets.sealed");
    let older = std::fs::read(&sealed).unwrap();
    let value = scene.value();
    let set = with(&scene, &["secret", "set", "x"], &passphrase);
    assert_eq!(scene.run(set, &value).0, 0);
    std::fs::write(&sealed, older).unwrap();
    let running = scene.serve(&mut with(&scene, &["serve"], &passphrase));
    let refused = scene.must(4, &["secret", "list"], "");
    assert!(flat(&refused).contains("an older copy was put in its place"), "{refused}");
    drop(running);
    let log = std::fs::read_to_string(scene.dir.path().join("log")).unwrap();
    assert!(log.contains("an older copy was put in its place"), "{log}");
}

/// What somebody types at a terminal, and what they see.
#[test]
fn nothing_that_is_typed_is_shown() {
    let mut scene = Scene::new();
    let play = r#"
import os, pty, sys, time
lines = sys.argv[1].split("|")
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen = b""
while True:
    try:
        some = os.read(fd, 4096)
    except OSError:
        break
    if not some:
        break
    seen += some
    if lines and seen.rstrip(b" ").endswith(b":"):
        time.sleep(0.05)
        os.write(fd, lines.pop(0).encode() + b"\n")
os.write(1, seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;
    let root = scene.root();
    let mut typed = |lines: &str, args: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-c", play, lines, env!("CARGO_BIN_EXE_lazaret")]).arg("--data-dir").arg(&root).args(args);
        command.env_remove("LAZARET_VAULT_PASSPHRASE_FILE").env("NO_COLOR", "1");
        scene.run(command, "")
    };
    let differ = typed(&format!("{PASSPHRASE}|something else again"), &["vault", "init", "--passphrase"]);
    assert!(differ.0 == 3 && differ.1.contains("differ"), "{differ:?}");
    let made = typed(&format!("{PASSPHRASE}|{PASSPHRASE}"), &["vault", "init", "--passphrase"]);
    assert_eq!(made.0, 0, "{made:?}");
    let set = typed(&format!("{PASSPHRASE}|canary-typed-0001"), &["secret", "set", "typed"]);
    assert!(set.0 == 0 && set.1.contains("set typed, version 1"), "{set:?}");
    let wrong = typed("nothing that opens it", &["secret", "list"]);
    assert!(wrong.0 == 1 && wrong.1.contains("not this vault's passphrase"), "{wrong:?}");
    let given_up = typed("\u{3}", &["secret", "list"]);
    assert!(given_up.0 == 1 && given_up.1.contains("nothing was entered"), "{given_up:?}");
    scene.values.push("canary-typed-0001".into());
    assert_eq!(found(&scene).0, [""; 0]);
}

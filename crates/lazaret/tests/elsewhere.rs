//! Nothing is written outside of the data root: a keeper, and commands without one, are watched by `strace` at every call that
//! names a file.

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

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lazaret_gate::Bytes;
use lazaret_link::{AgentRequest, Client, Reply, Request, TOKEN, Token, socket};
use station::{done, lazaret, wait_for};

/// Enough for the tables to be written while turns are taken.
const TURNS: usize = 300;

/// Writes down every call of a program that names a file.
fn strace(log: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-y", "-e", "trace=%file", "-o"]).arg(log);
    command
}

/// The command on a data root, watched.
fn watched(root: &Path, log: &Path, args: &[&str]) -> Command {
    let plain = lazaret(root);
    let mut command = strace(log);
    command.arg(plain.get_program()).args(args);
    let set = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(set.map(|(name, value)| (OsString::from(name), OsString::from(value)))).stdin(Stdio::null());
    command
}

/// What was opened to be written, made, renamed or removed, by its whole path.
fn written(log: &Path) -> Vec<PathBuf> {
    let log = std::fs::read_to_string(log).expect("what strace saw");
    let here = std::env::current_dir().expect("a directory");
    let mut all = Vec::new();
    for line in log.lines().filter(|line| !line.contains(") = -1 ")) {
        let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        let Some((name, arguments)) = call.split_once('(') else { continue };
        let changes = match name {
            "open" | "openat" | "openat2" => {
                ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE"].iter().any(|flag| arguments.contains(flag))
            }
            _ => ["creat", "mkdir", "mknod", "rename", "link", "symlink", "unlink", "rmdir", "truncate"]
                .iter()
                .any(|kind| name.starts_with(kind)),
        };
        if !changes {
            continue;
        }
        // Of `rename` and `link` both names count. One that is relative is so to the folder before it.
        let mut folder = here.clone();
        let mut rest = arguments;
        while let Some((before, after)) = rest.split_once('"') {
            if let Some((_, path)) = before.rsplit_once('<') {
                folder = PathBuf::from(path.split('>').next().unwrap_or_default());
            }
            let Some((path, after)) = after.split_once('"') else { break };
            all.push(folder.join(path));
            rest = after;
        }
    }
    all
}

/// Whether this is in the data root, or no file at all.
fn is_home(root: &Path, path: &Path) -> bool {
    path.starts_with(root)
        || path.starts_with("/proc")
        || [Path::new("/dev/null"), Path::new("/dev/tty")].contains(&path)
}

fn assert_home(root: &Path, log: &Path, what: &str) -> usize {
    let all = written(log);
    let elsewhere: Vec<_> = all.iter().filter(|path| !is_home(root, path)).collect();
    assert!(elsewhere.is_empty(), "{what} wrote elsewhere: {elsewhere:?}");
    assert!(all.iter().any(|path| path.ends_with("lazaret.redo")), "{what} was not seen to write: {all:?}");
    all.len()
}

#[test]
fn what_is_written_elsewhere_is_seen() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().canonicalize().expect("its whole path");
    let log = dir.join("strace.log");
    let script = "echo > one; mkdir two; mv one two/three; rm two/three; cat strace.log > /dev/null; cat missing";
    strace(&log).args(["sh", "-c", script]).current_dir(&dir).output().expect("a shell");
    // The test's own folder is where relative names are looked for.
    let names: Vec<_> = written(&log).iter().map(|path| path.file_name().expect("a name").to_owned()).collect();
    for name in ["one", "two", "three"] {
        assert!(names.iter().any(|seen| seen == name), "{names:?}");
    }
    assert!(!names.iter().any(|seen| seen == "missing" || seen == "strace.log"), "{names:?}");
}

#[test]
fn a_keeper_and_commands_without_one_write_nothing_outside_of_the_data_root() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().canonicalize().expect("its whole path");
    let (root, log) = (dir.join("data"), dir.join("strace.log"));
    let component = station::guests().join("rust-counter.wasm");
    let component = component.to_str().expect("a path that is text");
    let mut count = 0;
    for args in [
        &["agent", "create", "bo", component][..],
        &["agent", "send", "bo", "add 1"],
        &["agent", "fork", "bo", "twin", "--turn", "1"],
        &["agent", "rm", "twin"],
    ] {
        done(&mut watched(&root, &log, args));
        count += assert_home(&root, &log, &format!("{args:?}"));
    }
    let mut keeper = watched(&root, &log, &["serve", "--foreground", "--http", "off"]);
    let mut keeper = keeper.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a keeper starts");
    let connect = || Client::connect(&socket(&root), &Token::read(&root.join(TOKEN)).ok()?).ok();
    wait_for("the keeper", || connect().is_some());
    let mut client = connect().expect("a keeper");
    for _ in 0..TURNS {
        let (agent, body) = ("bo".parse().expect("a name"), Bytes(b"add 1".to_vec()));
        let request = AgentRequest::Send { agent, content_type: "text/plain".into(), body };
        let answer = client.ask(Request::Agent(request));
        assert!(matches!(answer, Ok(Reply::Taken(_))), "{answer:?}");
    }
    done(lazaret(&root).arg("stop"));
    assert!(keeper.wait().expect("a child").success());
    count += assert_home(&root, &log, "the keeper");
    println!("elsewhere: {count} files opened to be written, made, renamed or removed, 0 outside of the data root");
}

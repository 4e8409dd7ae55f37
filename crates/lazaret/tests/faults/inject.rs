//! Faults, and a process under one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A process that takes longer is stuck.
const PATIENCE: &str = "120";

/// What goes wrong, and where.
pub(crate) struct Fault {
    /// What the counts are kept by.
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    means: Means,
    pub(crate) at: At,
}

impl Fault {
    /// Whether it strikes once, where the process waits for the disk: there nothing is left out.
    pub(crate) fn strikes_one_flush(&self) -> bool {
        self.at == At::Flushes && matches!(self.means, Means::Strace(_, ""))
    }
}

/// Where a fault can strike.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Flushes,
    Writes,
    Names,
    WritesAndFlushes,
}

enum Means {
    /// What strace does to the Nth call, and whether to all that follow.
    Strace(&'static str, &'static str),
    /// What `disk.c` does.
    Disk(&'static str),
}

use At::{Flushes, Names, Writes, WritesAndFlushes};
use Means::{Disk, Strace};

const fn fault(group: &'static str, name: &'static str, means: Means, at: At) -> Fault {
    Fault { group, name, means, at }
}

pub(crate) const FAULTS: [Fault; 16] = [
    fault("kill", "kill at a flush", Strace("signal=KILL", ""), Flushes),
    fault("kill", "kill at a write", Strace("signal=KILL", ""), Writes),
    fault("kill", "kill at a rename, cut or unlink", Strace("signal=KILL", ""), Names),
    fault("EIO", "EIO at a flush", Strace("error=EIO", ""), Flushes),
    fault("EIO", "EIO at every second flush from one on", Strace("error=EIO", "+2"), Flushes),
    fault("EIO", "EIO at all flushes from one on", Strace("error=EIO", "+"), Flushes),
    fault("EIO", "EIO at a write", Strace("error=EIO", ""), Writes),
    fault("ENOSPC", "ENOSPC at a flush", Strace("error=ENOSPC", ""), Flushes),
    fault("ENOSPC", "ENOSPC at all flushes from one on", Strace("error=ENOSPC", "+"), Flushes),
    fault("ENOSPC", "ENOSPC at a write", Strace("error=ENOSPC", ""), Writes),
    fault("ENOSPC", "ENOSPC at all writes from one on", Strace("error=ENOSPC", "+"), Writes),
    fault("short", "short write", Disk("short"), Writes),
    fault("short", "short write, then a full disk", Disk("full"), Writes),
    fault("short", "short write, then kill", Disk("torn"), Writes),
    fault("power", "power cut", Disk("power"), WritesAndFlushes),
    fault("power", "power cut, writes out of order", Disk("mixed"), WritesAndFlushes),
];

/// Not one of them: a disk that forgets what it was told to keep. Whoever doesn't notice this checks nothing.
pub(crate) const CONTROL: Fault = fault("control", "power cut, flushes do nothing", Disk("lying"), WritesAndFlushes);

impl At {
    /// The system calls, as strace names them.
    fn calls(self) -> &'static str {
        match self {
            Flushes => "fsync,fdatasync",
            Writes => "write,pwrite64",
            Names => "rename,renameat,renameat2,ftruncate,unlink,unlinkat,mkdir",
            WritesAndFlushes => "write,pwrite64,fsync,fdatasync",
        }
    }

    /// Only calls on these count, but for flushes: heaps are files in memory to strace, and so is standard output.
    fn only(self, root: &Path) -> Vec<PathBuf> {
        const FILES: [&str; 9] = [
            "lazaret.redo",
            "lazaret.db",
            "lazaret.db-wal",
            "lazaret.db-journal",
            "host.key",
            "host.key.new",
            "tools",
            "tools/drafts.jsonl",
            ".",
        ];
        match self {
            Flushes => Vec::new(),
            _ => FILES.iter().flat_map(|file| [PathBuf::from("-P"), root.join(file)]).collect(),
        }
    }
}

/// How a process ended.
pub(crate) struct Ran {
    /// The fault struck.
    pub(crate) hit: bool,
    /// `None` if it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The tools for it.
pub(crate) struct Bench {
    /// `disk.c`, compiled.
    disk: PathBuf,
}

impl Bench {
    /// Says loudly what is missing.
    pub(crate) fn set_up(source: &Path, dir: &Path) -> Result<Self, String> {
        let found = Command::new("strace").arg("--version").output();
        if !found.is_ok_and(|found| found.status.success()) {
            return Err("this test needs strace (apt-get install strace)".to_owned());
        }
        let disk = dir.join("disk.so");
        let made = Command::new("cc")
            .args(["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
            .args([&disk, source])
            .output();
        let made = made.map_err(|why| format!("this test needs a C compiler as `cc` (apt-get install gcc): {why}"))?;
        if !made.status.success() {
            return Err(format!("`{}` doesn't compile: {}", source.display(), String::from_utf8_lossy(&made.stderr)));
        }
        Ok(Self { disk })
    }

    /// Runs a command line whose data root is `home`/root, with the fault at its Nth place, which strace counts for each
    /// system call on its own: `call` is which.
    pub(crate) fn hit(&self, fault: &Fault, call: &str, nth: u64, home: &Path, line: &[&str]) -> Ran {
        let (log, mark) = (home.join("strace.log"), home.join("struck"));
        let mut command = patient();
        match &fault.means {
            // Not with --seccomp-bpf: a signal is then never delivered.
            Strace(what, more) => {
                let inject = format!("inject={call}:{what}:when={nth}{more}");
                command.args(["strace", "-f", "-qq", "-e", &format!("trace={call}"), "-e", &inject, "-o"]);
                command.arg(&log);
                command.args(fault.at.only(&home.join("root"))).arg("--").args(line);
            }
            Disk(what) => {
                let settings = [
                    format!("LD_PRELOAD={}", self.disk.display()),
                    format!("DISK_ROOT={}", home.display()),
                    format!("DISK_FAULT={what}"),
                    format!("DISK_AT={nth}"),
                    format!("DISK_MARK={}", mark.display()),
                ];
                // Not set for `timeout`, which would be preloaded too.
                command.arg("env").args(settings).args(line);
            }
        }
        let mut ran = finish(command);
        let log = fs::read_to_string(&log).unwrap_or_default();
        ran.hit = mark.exists() || log.contains("(INJECTED)") || log.contains("killed by SIGKILL");
        ran
    }

    /// How often a run without the fault makes each of the calls at which it can strike. `disk.c` knows only one kind.
    pub(crate) fn places(&self, fault: &Fault, home: &Path, line: &[&str]) -> Vec<(&'static str, u64)> {
        let log = home.join("strace.log");
        let mut command = patient();
        command.args(["strace", "-f", "-qq", "-e", &format!("trace={}", fault.at.calls()), "-o"]).arg(&log);
        command.args(fault.at.only(&home.join("root"))).arg("--").args(line);
        finish(command);
        let log = fs::read_to_string(&log).unwrap_or_default();
        let count = |call: &str| log.lines().filter(|line| line.contains(&format!(" {call}("))).count() as u64;
        let calls = fault.at.calls().split(',').map(|call| (call, count(call)));
        match fault.means {
            Strace(..) => calls.filter(|(_, count)| *count > 0).collect(),
            Disk(_) => vec![("", calls.map(|(_, count)| count).sum())],
        }
    }
}

/// Runs a command line as it is.
pub(crate) fn plain(line: &[&str]) -> Ran {
    let mut command = patient();
    command.args(line);
    finish(command)
}

fn patient() -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", PATIENCE]);
    command
}

fn finish(mut command: Command) -> Ran {
    command
        .env_remove("LAZARET_DATA_DIR")
        .env("LAZARET_PRESET", "open")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    let output = command.output().expect("a process starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // `timeout` and strace end as what they ran did; a shell's 128 + signal means the same.
    let code = output.status.code().filter(|code| *code < 128);
    Ran { hit: false, code, out: text(&output.stdout), err: text(&output.stderr) }
}

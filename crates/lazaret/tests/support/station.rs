//! The `lazaret` command under test, the guests it runs, and numbers that look random.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The workspace's directory.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// Where the components are. A test that needs one and can't have it fails.
pub(crate) fn guests() -> PathBuf {
    let dir = workspace().join("guests/build");
    for name in [
        "rust-counter",
        "c-counter",
        "js-counter",
        "python-counter",
        "mailbox",
        "wasi-tool",
        "js-web",
        "python-web",
        "rust-web",
        "c-web",
    ] {
        let path = dir.join(format!("{name}.wasm"));
        assert!(path.is_file(), "`{}` is missing; `cargo xtask guests` builds it", path.display());
    }
    dir
}

/// The command on a data root, with nothing of the surroundings in it.
pub(crate) fn lazaret(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazaret"));
    command.env("LAZARET_DATA_DIR", root).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// Runs it and insists that it ends well.
pub(crate) fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let stderr = String::from_utf8_lossy(&stderr);
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout
}

/// Waits until something is so, a minute at most: machines may be busy.
pub(crate) fn wait_for(what: &str, so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("waited too long for {what}");
}

/// Copies a directory with all that is in it.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    done(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
    }

    /// A number from 0 to `end` − 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A number from the environment, or the usual one.
pub(crate) fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}=`{text}` is not a number")))
}

/// Has this process open as many files as it may: ten thousand connections are more than is usual.
pub(crate) fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(u64::MAX);
    assert!(wanted > 12_000, "this needs more open files than the {wanted} that the system allows: `ulimit -Hn 20000`");
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum one may");
}

/// Past the test harness's capture: the figure is what such a test is run for.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

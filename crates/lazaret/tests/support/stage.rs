//! Where a case plays: a directory of its own, what is set up in it, and the commands that run there.
//!
//! | setup | what it does |
//! |---|---|
//! | `write FILE TEXT` | writes a file; `\n`, `\0` and `\xNN` in the text |
//! | `fill FILE COUNT` | writes that many bytes |
//! | `wat FILE` | writes the component that the indented lines describe; `{9 x TEXT}` is TEXT nine times |
//! | `copy FROM TO`, `remove PATH`, `mkdir PATH`, `chmod MODE PATH` | as one would think |
//! | `truncate FILE LEN` | cuts it |
//! | `flip FILE BYTE`, `flip FILE after TEXT` | changes a bit of that byte (from the end if negative), or of the one after a text |
//! | `sql STATEMENT` | changes the data root's database behind Lazaret's back |
//! | `hold AGENT` | another process has the data root open until the case is over |
//! | `read-only` | the data root can't be written from here on |
//! | `foreign DIR` | makes a directory that is somebody else's |
//! | `fault INJECTION`, `fault INJECTION on FILE` | the next command runs under `strace -e inject=INJECTION` |
//! | `damaged` | the data root need not verify when the case is over |

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::station;

/// Whom the commands run as where root would be let through by the system. Any number that isn't root's will do.
const NOBODY: u32 = 65534;

/// The words that begin a setup which needs the data root for itself.
const ALONE: [&str; 6] = ["sql", "hold", "read-only", "fault", "flip data", "truncate data"];

/// Whether a case can be played with a keeper on its data root.
pub(crate) fn can_share(setup: &str) -> bool {
    // The policy folder is the operator's, whoever has the root open.
    let touches = setup.contains(" data/") && !setup.contains(" data/policy/");
    !touches && !ALONE.iter().any(|alone| setup.starts_with(alone))
}

pub(crate) struct Stage {
    _dir: tempfile::TempDir,
    dir: PathBuf,
    holder: Option<Child>,
    /// Whether a keeper is to run as soon as there is a data root.
    kept: bool,
    keeper: Option<Child>,
    as_nobody: bool,
    fault: Option<String>,
    pub(crate) damaged: bool,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for mut process in [self.holder.take(), self.keeper.take()].into_iter().flatten() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// What a command said, on both outputs, and its exit code.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) code: i32,
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [b'n', after @ ..]) => (out.push(b'\n'), rest = after).0,
            (b'\\', [b'0', after @ ..]) => (out.push(0), rest = after).0,
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = String::from_utf8_lossy(&[*high, *low]).into_owned();
                out.push(u8::from_str_radix(&digits, 16).expect("two hex digits"));
                rest = after;
            }
            (first, _) => out.push(*first),
        }
    }
    out
}

/// Where a byte is meant: `after TEXT`, wherever the text is (a database may hold old copies), or by number, from the end if
/// it is negative.
fn places(bytes: &[u8], which: &str) -> Vec<usize> {
    let places = match which.strip_prefix("after ") {
        Some(text) => {
            let found = bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes());
            found.map(|(at, _)| at + text.len()).collect()
        }
        None => {
            let at: i64 = which.parse().expect("a place");
            vec![usize::try_from(if at < 0 { bytes.len() as i64 + at } else { at }).expect("a place in the file")]
        }
    };
    places.into_iter().filter(|at| *at < bytes.len()).collect()
}

/// Every `{COUNT x TEXT}` as COUNT times TEXT.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
    let (inside, after) = rest.split_once('}').expect("a brace is closed");
    let (count, part) = inside.split_once(" x ").expect("a count, ` x ` and a text");
    let part = format!("{part} ").repeat(count.parse().expect("a number"));
    format!("{before}{part}{}", repeated(after))
}

/// Splits as a shell would, as far as quotes go; `\\xNN` as in files.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let plain = |word: String| String::from_utf8(unescaped(&word)).expect("a word is text");
    words.into_iter().map(plain).collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

fn each_below(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() && !path.is_symlink() => each_below(&path, visit),
            path => visit(&path),
        }
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        let guests = station::guests();
        let holder = tempfile::tempdir().expect("a directory");
        let dir = holder.path().to_owned();
        // Others must be able to pass through when a case plays somebody else.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o711)).expect("its mode can be set");
        symlink(guests, dir.join("guests")).expect("a link to the guests");
        Self {
            _dir: holder,
            dir,
            holder: None,
            kept: false,
            keeper: None,
            as_nobody: false,
            fault: None,
            damaged: false,
        }
    }

    /// A stage on which a keeper runs as soon as there is a data root.
    pub(crate) fn kept() -> Self {
        let mut stage = Self::new();
        stage.kept = true;
        stage
    }

    /// Starts the keeper if it is time, and waits until it answers.
    fn keep(&mut self) {
        if self.kept && self.keeper.is_none() && self.data().join("lazaret.db").exists() {
            self.serve();
        }
    }

    /// `lazaret serve &`
    pub(crate) fn serve(&mut self) {
        let log = fs::File::create(self.dir.join("keeper.log")).expect("a log");
        let mut command = station::lazaret(&self.data());
        command.arg("serve").env("LAZARET_LOG", "warn").current_dir(&self.dir).stdout(Stdio::null()).stderr(log);
        self.keeper = Some(command.spawn().expect("the keeper starts"));
        station::wait_for("the keeper to answer", || {
            lazaret_link::Client::ping(&lazaret_link::socket(&self.data())).is_ok()
        });
    }

    /// Stops the keeper as people do. What is left is a data root like any other.
    fn let_go(&mut self) -> Result<(), String> {
        if self.keeper.is_none() {
            return Ok(());
        }
        let said = self.run("lazaret stop");
        let ended = self.ended();
        if said.code == 0 { ended } else { Err(said.text) }
    }

    /// That the keeper was told to stop, and ended well.
    pub(crate) fn ended(&mut self) -> Result<(), String> {
        let Some(mut keeper) = self.keeper.take() else { return Err("no keeper ran".to_owned()) };
        let status = keeper.wait().expect("the keeper ends");
        let log = fs::read_to_string(self.dir.join("keeper.log")).unwrap_or_default();
        let well = status.success() && !log.contains("panicked");
        if well { Ok(()) } else { Err(format!("the keeper ended with {status}:\n{log}")) }
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Does what a setup says.
    pub(crate) fn set_up(&mut self, line: &str, body: &[String]) {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let path = self.dir.join(first);
        match what {
            "write" => fs::write(path, unescaped(second)).expect("it can be written"),
            "fill" => fs::write(path, vec![b'a'; second.parse().expect("a number")]).expect("it can be written"),
            "wat" => {
                let bytes = wat::parse_str(repeated(&body.join("\n"))).unwrap_or_else(|why| panic!("{line}: {why}"));
                fs::write(path, bytes).expect("it can be written");
            }
            "copy" => drop(fs::copy(path, self.dir.join(second)).expect("it can be copied")),
            "remove" if path.is_dir() => fs::remove_dir_all(path).expect("it can be removed"),
            "remove" => fs::remove_file(path).expect("it can be removed"),
            "mkdir" => fs::create_dir(path).expect("it can be made"),
            "chmod" => {
                let mode = u32::from_str_radix(first, 8).expect("a mode");
                fs::set_permissions(self.dir.join(second), fs::Permissions::from_mode(mode))
                    .expect("its mode can be set");
            }
            "truncate" => {
                let mut bytes = fs::read(&path).expect("it is there");
                bytes.truncate(second.parse().expect("a number"));
                fs::write(path, bytes).expect("it can be written");
            }
            "flip" => {
                let mut bytes = fs::read(&path).expect("it is there");
                let places = places(&bytes, second);
                assert!(!places.is_empty(), "{line}: there is no such byte");
                places.into_iter().for_each(|at| bytes[at] ^= 4);
                fs::write(path, bytes).expect("it can be written");
            }
            "sql" => {
                let conn = rusqlite::Connection::open(self.data().join("lazaret.db")).expect("the database");
                conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
                    .expect("a setting");
                conn.execute_batch(rest).unwrap_or_else(|why| panic!("{line}: {why}"));
            }
            "hold" => self.hold(first),
            "read-only" => self.read_only(),
            "foreign" => self.foreign(&path),
            "fault" => self.fault = Some(rest.to_owned()),
            "damaged" => self.damaged = true,
            _ => panic!("there is no setup `{what}`"),
        }
    }

    /// A process that exports into a pipe nobody reads holds the data root for as long as that.
    fn hold(&mut self, agent: &str) {
        let pipe = self.dir.join("pipe");
        station::done(Command::new("mkfifo").arg(&pipe));
        let mut command = station::lazaret(&self.data());
        command.args(["bundle", "export", agent, "-o"]).arg(&pipe).stdout(Stdio::null()).stderr(Stdio::null());
        self.holder = Some(command.spawn().expect("the command starts"));
        let lock = self.data().join("lazaret.lock");
        for _ in 0..3000 {
            let held = fs::File::open(&lock).is_ok_and(|file| file.try_lock_shared().is_err());
            if held {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("nobody holds the data root");
    }

    /// Permissions bind everybody but root, so root's commands go on as somebody else.
    fn read_only(&mut self) {
        self.as_nobody = is_root();
        each_below(&self.data(), &mut |path| {
            if self.as_nobody {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("it can be given away");
            }
            let mode = if path.is_dir() { 0o500 } else { 0o400 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode can be set");
        });
    }

    fn foreign(&mut self, path: &Path) {
        if is_root() {
            fs::create_dir(path).expect("it can be made");
            chown(path, Some(NOBODY), Some(NOBODY)).expect("it can be given away");
        } else {
            symlink("/usr", path).expect("a link to what is root's");
        }
    }

    /// Runs a command line: `[NAME=VALUE…] [tty] lazaret … [< FILE]`. `NAME=-` takes a variable away.
    pub(crate) fn run(&mut self, line: &str) -> Said {
        if line != "lazaret stop" {
            self.keep();
        }
        let here = self.dir.display().to_string();
        let mut words = words(&line.replace("$DIR", &here)).into_iter().peekable();
        let mut variables = Vec::new();
        while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
            variables.push((name.to_owned(), value.to_owned()));
            words.next();
        }
        let terminal = words.next_if(|word| word == "tty").is_some();
        assert_eq!(words.next().as_deref(), Some("lazaret"), "`{line}`: a case runs lazaret");
        let mut args: Vec<String> = words.collect();
        let input = args.iter().position(|word| word == "<").map(|at| args.split_off(at).remove(1));
        let mut program = vec![env!("CARGO_BIN_EXE_lazaret").to_owned()];
        if let Some(fault) = self.fault.take() {
            let (fault, path) =
                fault.split_once(" on ").map_or((fault.as_str(), None), |(fault, path)| (fault, Some(path)));
            let inject = format!("inject={fault}");
            let path = path.map(|path| ["-P".to_owned(), self.dir.join(path).display().to_string()]);
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject].map(str::to_owned);
            program.splice(0..0, strace.into_iter().chain(path.into_iter().flatten()));
        }
        if self.as_nobody {
            let id = NOBODY.to_string();
            program.splice(0..0, ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"].map(str::to_owned));
        }
        if terminal {
            let play = "import os,pty,sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
            program.splice(0..0, ["python3", "-c", play].map(str::to_owned));
        }
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args(args).current_dir(&self.dir).env("LAZARET_DATA_DIR", "data");
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "XDG_DATA_HOME", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        for (name, value) in variables {
            if value == "-" {
                command.env_remove(name)
            } else {
                command.env(name, value)
            };
        }
        command.stdin(match input {
            Some(file) => Stdio::from(fs::File::open(self.dir.join(file)).expect("the input is there")),
            None => Stdio::null(),
        });
        self.listen(command)
    }

    /// Both outputs through one pipe, so that they come in the order in which they were written.
    fn listen(&self, mut command: Command) -> Said {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
        let mut process = command.spawn().unwrap_or_else(|why| panic!("{command:?}: {why}"));
        drop(command);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).expect("what it says can be read");
        let status = process.wait().expect("it ends");
        let text = String::from_utf8_lossy(&bytes).replace(&self.dir.display().to_string(), "$DIR");
        Said { text, code: status.code().unwrap_or(-1) }
    }

    /// Nothing was lost: what is in the data root still verifies, all of it.
    pub(crate) fn check_data(&mut self) -> Result<(), String> {
        self.let_go()?;
        self.kept = false;
        if self.damaged || !self.data().join("lazaret.db").exists() {
            return Ok(());
        }
        let said = self.run("lazaret journal verify");
        if said.code == 0 { Ok(()) } else { Err(format!("afterwards the data root does not verify:\n{}", said.text)) }
    }
}

//! What the operator says: the data root's `policy` folder and the kill switches, read again whenever they change.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use lazaret_gate::ledger::{Killed, SwitchEvent, Switches};
use lazaret_gate::policy::{self, Place, Problem};
use lazaret_gate::{Digest, Effect, Rulebook, stages};
use rustix::fs::inotify;

use crate::books;
use crate::error::HostError;
use crate::files;
use crate::host::lock;
use crate::switchboard::Board;

/// The folder of the operator's rules.
const FOLDER: &str = "policy";

/// Files in the folder that are read at all.
const MAX_FILES: usize = policy::MAX_FILES + 2;

/// The rules and switches in force.
pub(crate) struct Rules {
    root: PathBuf,
    /// Tells of changes; `None` where the kernel can't, and then everything is read each time.
    watch: Option<OwnedFd>,
    state: Mutex<State>,
}

struct State {
    book: Arc<Rulebook>,
    /// What is in force, if nobody needed it yet: then it isn't in `book`. Most commands judge nothing, and reading rules
    /// takes longer than all else that they do.
    unread: Option<Vec<u8>>,
    switches: Switches,
    /// What happened to them last.
    last: Option<SwitchEvent>,
    /// Why what lies there now is not what is in force.
    problems: Vec<Problem>,
    /// The rulebook isn't in the journal yet.
    fresh: bool,
    /// Nor is this.
    events: Vec<SwitchEvent>,
}

/// What happened to the rules and isn't in the journal yet.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) book: Option<Arc<Rulebook>>,
    pub(crate) events: Vec<SwitchEvent>,
}

impl Rules {
    /// Opens the folder; a new data root gets the preset. `last` and `switches` are what the journal says was in force, and
    /// `read` reads that rulebook.
    pub(crate) fn open(
        root: &Path,
        preset: &str,
        last: Option<Digest>,
        read: impl FnOnce(&Digest) -> Result<Option<Arc<Rulebook>>, HostError>,
        (switches, switched): (Switches, Option<SwitchEvent>),
    ) -> Result<Self, HostError> {
        make_folder(&root.join(FOLDER), preset).map_err(|why| HostError::Rules(why.to_string()))?;
        // Watching begins before the first reading, so that no change falls between the two.
        let watch = watch(root).ok();
        let nothing = Rulebook::load(BTreeMap::new()).map(Arc::new);
        let nothing = nothing.map_err(|problems| HostError::Rules(said(&problems)))?;
        let lies_there = read_folder(&root.join(FOLDER)).ok().and_then(Rulebook::bytes_of);
        let unread = lies_there.filter(|bytes| last == Some(Digest::of(bytes)));
        let before = match &last {
            Some(last) if unread.is_none() => read(last)?,
            _ => None,
        };
        let state = State {
            fresh: unread.is_none() && before.is_none(),
            book: before.unwrap_or(nothing),
            unread,
            switches,
            last: switched,
            problems: Vec::new(),
            events: Vec::new(),
        };
        let rules = Self { root: root.to_owned(), watch, state: Mutex::new(state) };
        let mut state = lock(&rules.state);
        if state.unread.is_none() {
            rules.read_rules(&mut state);
        }
        rules.read_switches(&mut state);
        drop(state);
        Ok(rules)
    }

    /// The rulebook and the switches in force at this moment.
    pub(crate) fn now(&self) -> (Arc<Rulebook>, Switches) {
        let mut state = self.looked();
        state.need_book();
        (state.book.clone(), state.switches.clone())
    }

    /// The switches at this moment.
    pub(crate) fn switches(&self) -> Switches {
        self.looked().switches.clone()
    }

    fn looked(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        if self.stirred() {
            state.need_book();
            self.read_rules(&mut state);
            self.read_switches(&mut state);
        }
        state
    }

    /// Whether an effect is stopped at this moment.
    pub(crate) fn killed(&self, effect: &Effect) -> Result<(), Killed> {
        let (book, switches) = self.now();
        stages::killed(effect, &switches, &book)
    }

    /// The rulebook that was in force at the last look.
    pub(crate) fn last(&self) -> Arc<Rulebook> {
        let mut state = lock(&self.state);
        state.need_book();
        state.book.clone()
    }

    /// What isn't in the journal yet. Whoever takes it puts it there, or gives it back.
    pub(crate) fn news(&self) -> News {
        let mut state = lock(&self.state);
        let book = std::mem::take(&mut state.fresh).then(|| state.book.clone());
        News { book, events: std::mem::take(&mut state.events) }
    }

    /// Takes back what could not be written.
    pub(crate) fn unwritten(&self, news: News) {
        let mut state = lock(&self.state);
        state.fresh |= news.book.is_some();
        state.events.splice(0..0, news.events);
    }

    /// What is wrong with the files that lie there.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        lock(&self.state).problems.clone()
    }

    /// Whether anything changed since the last look.
    fn stirred(&self) -> bool {
        let Some(watch) = &self.watch else { return true };
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut events = inotify::Reader::new(watch, &mut buffer);
        let mut stirred = false;
        while events.next().is_ok() {
            stirred = true;
        }
        stirred
    }

    /// Rules that can't be read leave those in force that were.
    fn read_rules(&self, state: &mut State) {
        let files = read_folder(&self.root.join(FOLDER));
        match files.and_then(|files| Rulebook::load_after(files, Some(&state.book))) {
            Ok(book) => {
                state.problems.clear();
                if book.digest() != state.book.digest() {
                    state.book = Arc::new(book);
                    state.fresh = true;
                }
            }
            Err(problems) => state.problems = problems,
        }
    }

    /// Switches that can't be read stop everything.
    fn read_switches(&self, state: &mut State) {
        // Without a file things stay as the journal says: to lose it must not let anything pass.
        if let Some(board) = Board::read(&self.root) {
            let events = board.since(&state.switches, state.last.as_ref());
            state.last = events.last().cloned().or(state.last.take());
            state.events.extend(events);
            state.switches = board.switches;
        }
    }
}

impl State {
    /// Reads what is in force, if that wasn't needed before. It was read once, but maybe by another version of this program:
    /// what this one can't read denies everything.
    fn need_book(&mut self) {
        let Some(bytes) = self.unread.take() else { return };
        match books::read(&bytes) {
            Ok(book) => self.book = book,
            Err(problems) => {
                self.problems = problems;
                self.fresh = true;
            }
        }
    }
}

/// The rules that lie in a data root's policy folder.
pub fn read_rules(root: &Path) -> Result<Rulebook, Vec<Problem>> {
    read_folder(&root.join(FOLDER)).and_then(Rulebook::load)
}

fn said(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn watch(root: &Path) -> rustix::io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let moved = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::MOVED_FROM;
    let changed = moved | inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::DELETE;
    inotify::add_watch(&watch, root.join(FOLDER), changed | inotify::WatchFlags::CREATE)?;
    // The database writes beside it all the time: only what is put in place whole is of interest.
    inotify::add_watch(&watch, root, inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::DELETE)?;
    Ok(watch)
}

/// The first reading of an empty data root must not deny everything without anybody having said so: the folder appears with
/// the preset in it, or not at all.
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the operator's rules lie in the data root")]
fn make_folder(folder: &Path, preset: &str) -> std::io::Result<()> {
    if folder.try_exists()? {
        return Ok(());
    }
    let (name, text) =
        policy::preset(preset).ok_or_else(|| std::io::Error::other(format!("there is no preset `{preset}`")))?;
    let part = folder.with_extension(format!("part-{}", std::process::id()));
    std::fs::create_dir_all(&part)?;
    let path = part.join(name);
    std::fs::write(&path, text)?;
    std::fs::File::open(&path)?.sync_all()?;
    std::fs::File::open(&part)?.sync_all()?;
    std::fs::rename(&part, folder)
}

fn in_file(file: &str, what: impl std::fmt::Display) -> Problem {
    let at = Place { file: file.to_owned(), line: 1, column: 1 };
    Problem { at, what: what.to_string(), hint: String::new() }
}

/// Every file of the folder. Names that begin with a dot, and editors' copies, are not rules.
#[expect(clippy::disallowed_methods, reason = "the operator's rules lie in the data root")]
fn read_folder(folder: &Path) -> Result<BTreeMap<String, String>, Vec<Problem>> {
    let wrong = |what: &dyn std::fmt::Display| vec![in_file(FOLDER, what)];
    let mut texts = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(|why| wrong(&why))? {
        let entry = entry.map_err(|why| wrong(&why))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name.ends_with('~') {
            continue;
        }
        if texts.len() == MAX_FILES {
            return Err(wrong(&format!("there are more than {MAX_FILES} files")));
        }
        // One byte more than allowed, so that too much is told from just enough.
        let read = files::read(&entry.path(), policy::MAX_FILE as u64 + 1).map_err(|why| vec![in_file(&name, why)])?;
        // One that is gone by now is no rule.
        let Some((bytes, _)) = read else { continue };
        let text = String::from_utf8(bytes).map_err(|_| vec![in_file(&name, "it is not text")])?;
        texts.insert(name, text);
    }
    Ok(texts)
}

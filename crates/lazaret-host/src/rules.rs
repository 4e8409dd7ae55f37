//! What the operator says: the data root's `policy` folder and the kill switches, read again whenever they change.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use lazaret_gate::halted::Halted;
use lazaret_gate::ledger::{Change, Switch, SwitchEvent, Switches};
use lazaret_gate::policy::{self, Place, Problem};
use lazaret_gate::trust::{Revoked, RevokedAgent, Score, TrustEvent};
use lazaret_gate::{AgentId, Digest, Effect, Rulebook, stages};
use lazaret_store::{AgentRow, Store};
use rustix::fs::inotify;

use crate::books;
use crate::error::HostError;
use crate::files;
use crate::host::lock;
use crate::revocations::{self, InForce, Roll, Standing};
use crate::switchboard::{Board, save_switch};

/// The folder of the operator's rules.
const FOLDER: &str = "policy";

/// Files in the folder that are read at all.
const MAX_FILES: usize = policy::MAX_FILES + 3;

/// What happens to files when they are changed.
const CHANGED: inotify::WatchFlags = inotify::WatchFlags::MOVED_TO
    .union(inotify::WatchFlags::MOVED_FROM)
    .union(inotify::WatchFlags::CLOSE_WRITE)
    .union(inotify::WatchFlags::DELETE);

/// What the kernel gives for a descriptor where events got lost.
const LOST: i32 = -1;

/// Tells of changes, and which of its descriptors is the data root's own.
struct Watch {
    events: OwnedFd,
    root: i32,
    /// The policy folder itself is watched. It isn't while another one is put in its place.
    folder: AtomicBool,
}

/// The rules and switches in force.
pub(crate) struct Rules {
    root: PathBuf,
    /// Tells of changes; `None` where the kernel can't, and then everything is read each time.
    watch: Option<Watch>,
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
    /// Switches that are thrown, and that their file can't be made to say yet: a full disk is no reason to go on. They get into
    /// the journal by way of the file, like all others, so that it never says what a restart forgets.
    held: Switches,
    /// Who is revoked.
    roll: Roll,
    /// Counts what has happened to all of these.
    changes: u64,
}

/// What happened to the rules and isn't in the journal yet.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) book: Option<Arc<Rulebook>>,
    pub(crate) events: Vec<SwitchEvent>,
    pub(crate) trust: Vec<TrustEvent>,
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
        store: Arc<Store>,
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
            held: Switches::default(),
            roll: Roll::open(root, store),
            changes: 0,
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
        (state.book.clone(), state.thrown())
    }

    /// The same, and how an agent stands at that very moment: see [`Self::standing`].
    pub(crate) fn now_of(&self, agent: &AgentId, base: Option<Score>) -> (Arc<Rulebook>, Switches, Standing) {
        let mut state = self.looked();
        state.need_book();
        let standing = state.roll.standing(agent, (None, base));
        (state.book.clone(), state.thrown(), standing)
    }

    /// The switches at this moment.
    pub(crate) fn switches(&self) -> Switches {
        self.looked().thrown()
    }

    /// Who is revoked at this moment.
    pub(crate) fn in_force(&self) -> InForce {
        self.looked().roll.now.clone()
    }

    /// How many changes of rules, switches and revocations were seen, one at this moment included.
    pub(crate) fn changes(&self) -> u64 {
        self.looked().changes
    }

    fn looked(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        if self.stirred() {
            state.need_book();
            let rules = self.read_rules(&mut state);
            let switches = self.read_switches(&mut state);
            let roll = state.roll.read();
            state.changes += u64::from(rules || switches || roll);
        }
        state
    }

    /// Whether an effect of an agent is stopped at this moment.
    pub(crate) fn halted(&self, agent: &AgentId, effect: &Effect) -> Option<Halted> {
        let mut state = self.looked();
        state.need_book();
        if let Err(killed) = stages::killed(effect, &state.thrown(), &state.book) {
            return Some(Halted::Killed(killed));
        }
        let revoked = state.roll.now.revoked(agent, None)?;
        Some(Halted::Revoked(RevokedAgent { agent: agent.clone(), kind: effect.kind(), revoked }))
    }

    /// Whether an agent is revoked at this moment, and the base score that was set for it. `recorded` is what its row says.
    pub(crate) fn standing(&self, agent: &AgentId, recorded: (Option<&Revoked>, Option<Score>)) -> Standing {
        self.looked().roll.standing(agent, recorded)
    }

    /// Puts something in line for the journal.
    pub(crate) fn tell(&self, event: TrustEvent) {
        lock(&self.state).roll.tell(event);
    }

    /// Notes that an agent isn't revoked any more, though its row says so.
    pub(crate) fn restored(&self, row: &AgentRow) {
        lock(&self.state).roll.restored(row);
    }

    /// The rulebook that was in force at the last look.
    pub(crate) fn last(&self) -> Arc<Rulebook> {
        let mut state = lock(&self.state);
        state.need_book();
        state.book.clone()
    }

    /// Throws a switch, though its file can't be written. That is tried again by [`Self::save`].
    pub(crate) fn hold_switch(&self, event: &SwitchEvent) {
        let mut state = self.looked();
        state.held.apply(event);
        state.changes += 1;
    }

    /// Revokes an agent, though the file can't be written. That is tried again by [`Self::save`].
    pub(crate) fn hold_revocation(&self, agent: &AgentId, revoked: Revoked) {
        let mut state = self.looked();
        state.roll.hold(agent, revoked);
        state.changes += 1;
    }

    /// Has the files say what is in force and could not be written before. Whatever they say then is read from there.
    pub(crate) fn save(&self) {
        let state = lock(&self.state);
        let (held, roll) = (state.held.clone(), state.roll.now.clone());
        let store = Arc::clone(&state.roll.store);
        // The disk may be slow, and everybody who acts looks here.
        drop(state);
        for switch in [Switch::Spend, Switch::All] {
            // What can't be written is tried again.
            let _ = held.thrown(switch).map(|thrown| save_switch(&self.root, switch, thrown));
        }
        if roll.held().next().is_some() {
            let _ = revocations::save(&self.root, &store, &roll);
        }
    }

    /// What isn't in the journal yet. Whoever takes it puts it there, or gives it back.
    pub(crate) fn news(&self) -> News {
        let mut state = lock(&self.state);
        let book = std::mem::take(&mut state.fresh).then(|| state.book.clone());
        News { book, events: std::mem::take(&mut state.events), trust: std::mem::take(&mut state.roll.news) }
    }

    /// Takes back what could not be written.
    pub(crate) fn unwritten(&self, news: News) {
        let mut state = lock(&self.state);
        state.fresh |= news.book.is_some();
        state.events.splice(0..0, news.events);
        state.roll.news.splice(0..0, news.trust);
    }

    /// What is wrong with the files that lie there.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        lock(&self.state).problems.clone()
    }

    /// Whether anything changed since the last look.
    fn stirred(&self) -> bool {
        let Some(watch) = &self.watch else { return true };
        let unwatched = !watch.folder.load(Ordering::Relaxed);
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut events = inotify::Reader::new(&watch.events, &mut buffer);
        let (mut stirred, mut replaced) = (unwatched, unwatched);
        while let Ok(event) = events.next() {
            // The store's own files are of no interest. Where events got lost, anything may have changed.
            let name = event.file_name().map(std::ffi::CStr::to_bytes).unwrap_or_default();
            stirred |= event.wd() != watch.root || !name.starts_with(b"lazaret.");
            replaced |= event.wd() == watch.root && name == FOLDER.as_bytes() || event.wd() == LOST;
        }
        if replaced {
            // Before it is read: what is changed after that is told.
            let watched = watch_folder(&watch.events, &self.root);
            watch.folder.store(watched.is_ok(), Ordering::Relaxed);
        }
        stirred
    }

    /// Rules that can't be read leave those in force that were. Tells whether something has happened.
    fn read_rules(&self, state: &mut State) -> bool {
        let files = read_folder(&self.root.join(FOLDER));
        match files.and_then(|files| Rulebook::load_after(files, Some(&state.book))) {
            Ok(book) => {
                state.problems.clear();
                let is_new = book.digest() != state.book.digest();
                if is_new {
                    state.book = Arc::new(book);
                    state.fresh = true;
                }
                is_new
            }
            Err(problems) => {
                state.problems = problems;
                false
            }
        }
    }

    /// Switches that can't be read stop everything. Tells whether something has happened.
    fn read_switches(&self, state: &mut State) -> bool {
        // Without a file things stay as the journal says: to lose it must not let anything pass.
        let Some(board) = Board::read(&self.root) else { return false };
        let events = board.since(&state.switches, state.last.as_ref());
        // What the file says now, and what somebody has lifted there, is not held any more.
        events.iter().filter(|event| event.change == Change::Lifted).for_each(|event| state.held.apply(event));
        if !board.is_damaged {
            state.held.all.take_if(|_| board.switches.all.is_some());
            state.held.spend.take_if(|_| board.switches.spend.is_some());
        }
        let is_news = !events.is_empty();
        state.last = events.last().cloned().or(state.last.take());
        state.events.extend(events);
        state.switches = board.switches;
        is_news
    }
}

impl State {
    /// The switches that are thrown, whether their file says so or not.
    fn thrown(&self) -> Switches {
        let mut thrown = self.switches.clone();
        thrown.all = thrown.all.or_else(|| self.held.all.clone());
        thrown.spend = thrown.spend.or_else(|| self.held.spend.clone());
        thrown
    }

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

fn watch(root: &Path) -> rustix::io::Result<Watch> {
    let events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    watch_folder(&events, root)?;
    // The database writes beside it all the time: only what is put in place whole, or written and closed, is of interest.
    let root = inotify::add_watch(&events, root, CHANGED)?;
    Ok(Watch { events, root, folder: AtomicBool::new(true) })
}

/// Watches the policy folder that lies there now. To do so again does no harm.
fn watch_folder(events: &OwnedFd, root: &Path) -> rustix::io::Result<()> {
    inotify::add_watch(events, root.join(FOLDER), CHANGED | inotify::WatchFlags::CREATE).map(drop)
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

//! The redo log: where a commit is on disk first. One frame per commit, written at once and flushed once; the tables
//! follow later. After a crash the frames that the tables have not seen are laid into them.
//!
//! A frame says its number, names the frame before it and is closed by a hash that only this host can make, over all of
//! it. The file is a ring: a frame's place is used again when its commit is safe in the database. An old frame is never
//! taken for a new one, because numbers only grow and the tables know which was the last they took.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the log lies in the data root")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::StoreError;
use crate::limits::{LOG_RING, LOG_STEP, LOG_STEP_AFTER, MAX_COMMIT};
use crate::ring::Ring;
use crate::root::{Root, closed_to_others};

/// Begins every frame; the last byte is the format.
const MAGIC: [u8; 8] = *b"LZRTLOG\x01";

/// Magic, number, length of what follows, the frame before, this frame's hash.
pub(crate) const HEADER: usize = 8 + 8 + 8 + 32 + 32;

/// Number, length and the frame before: what of a header its hash covers.
const HASHED: usize = 8 + 8 + 32;

/// Frames begin at multiples of this, so that they are found again behind a damaged one.
const ALIGN: usize = 64;

/// Up to so many bytes, a copy in one piece is hashed in less time than the pieces are: the hash works on several parts of it
/// at once, and pieces of odd lengths keep it from that.
const COPIED: usize = 64 << 10;

/// A frame's hash, made with a secret of the host.
pub(crate) type Mark = [u8; 32];

/// What the first frame ever names as the one before it.
pub(crate) const NO_FRAME: Mark = [0; 32];

/// A commit that is on disk.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    before: Mark,
    pub(crate) mark: Mark,
    /// Header, steps, and zeros up to a multiple of [`ALIGN`].
    bytes: Vec<u8>,
    /// Where the steps end.
    end: usize,
}

impl Frame {
    pub(crate) fn steps(&self) -> &[u8] {
        self.bytes.get(HEADER..self.end).unwrap_or_default()
    }

    /// All of its bytes, as they lie in the log.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// A commit of nothing.
    #[cfg(test)]
    pub(crate) fn blank(number: u64) -> Self {
        Self { number, before: NO_FRAME, mark: NO_FRAME, bytes: vec![0; HEADER], end: HEADER }
    }
}

fn damaged() -> StoreError {
    StoreError::damaged("the log `lazaret.redo`")
}

fn hash(key: &[u8; 32], number: u64, before: &Mark, steps: &[u8]) -> Mark {
    let (number, len) = (number.to_le_bytes(), (steps.len() as u64).to_le_bytes());
    if steps.len() <= COPIED {
        return *blake3::keyed_hash(key, &[&number[..], &len, before, steps].concat()).as_bytes();
    }
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&number).update(&len).update(before).update(steps);
    *hasher.finalize().as_bytes()
}

/// A header as it stands in the file, believed by nobody yet.
struct Header {
    number: u64,
    len: usize,
    before: Mark,
    mark: Mark,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.get(..HEADER)?.strip_prefix(&MAGIC)?;
        let number = |at: usize| rest.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let mark = |at: usize| rest.get(at..at + 32)?.try_into().ok();
        Some(Self { number: number(0)?, len: usize::try_from(number(8)?).ok()?, before: mark(16)?, mark: mark(48)? })
    }

    fn closes(&self, key: &[u8; 32], steps: &[u8]) -> bool {
        hash(key, self.number, &self.before, steps) == self.mark
    }
}

/// Every header in a log.
fn headers(log: &[u8]) -> impl Iterator<Item = (usize, Header)> {
    let places = (0..log.len()).step_by(ALIGN);
    places.filter_map(|at| Header::read(log.get(at..)?).map(|header| (at, header)))
}

/// The log's bytes; none if there is no log. Anything but a file of a size that a log can have is refused unread.
pub(crate) fn read(root: &Root) -> Result<Vec<u8>, StoreError> {
    let path = root.redo();
    let failed = |why: std::io::Error| StoreError::io("reading", &path, &why);
    let found = match fs::symlink_metadata(&path) {
        Ok(found) => found,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(failed(why)),
    };
    if !found.is_file() {
        return Err(failed(std::io::Error::other("it is not a file")));
    }
    if found.len() > MAX_COMMIT as u64 + LOG_STEP {
        let why = format!("it has {} bytes, more than any log", found.len());
        return Err(failed(std::io::Error::other(why)));
    }
    fs::read(&path).map_err(failed)
}

/// The last commit in a log, if it comes after this one. Without the host's secret there is no telling whether it was the
/// host who wrote it.
pub(crate) fn last(log: &[u8], key: Option<&[u8; 32]>, number: u64) -> Option<u64> {
    let later = headers(log).filter(|(_, header)| header.number > number);
    let holds = |at: usize, header: &Header| match key {
        Some(key) => steps(log, at, header).is_some_and(|steps| header.closes(key, steps)),
        None => true,
    };
    later.filter(|(at, header)| holds(*at, header)).map(|(_, header)| header.number).max()
}

/// What a frame holds, by its header.
fn steps<'a>(log: &'a [u8], at: usize, header: &Header) -> Option<&'a [u8]> {
    let start = at + HEADER;
    log.get(start..start.checked_add(header.len)?)
}

/// The frames after the one that the tables took last, in order. What was being written when the host died is left out:
/// nobody was told that it holds. A frame that is missing before another one is damage, because a commit is flushed
/// before the next begins.
pub(crate) fn frames(log: &[u8], key: &[u8; 32], number: u64, mark: &Mark) -> Result<Vec<Arc<Frame>>, StoreError> {
    let mut found = BTreeMap::new();
    for (at, header) in headers(log).filter(|(_, header)| header.number >= number) {
        if !steps(log, at, &header).is_some_and(|steps| header.closes(key, steps)) {
            continue;
        }
        let Header { number, before, mark, len } = header;
        let bytes = log[at..at + HEADER + len].to_vec();
        let frame = Frame { number, before, mark, bytes, end: HEADER + len };
        if found.insert(number, Arc::new(frame)).is_some() {
            return Err(damaged());
        }
    }
    if found.remove(&number).is_some_and(|last| last.mark != *mark) {
        return Err(damaged());
    }
    let (mut number, mut mark) = (number, *mark);
    for frame in found.values() {
        if frame.number != number + 1 || frame.before != mark {
            return Err(damaged());
        }
        (number, mark) = (frame.number, frame.mark);
    }
    Ok(found.into_values().collect())
}

/// The log's file, open to write.
pub(crate) struct Redo {
    path: PathBuf,
    file: File,
    key: [u8; 32],
    /// The last frame's number and mark.
    number: u64,
    mark: Mark,
    len: u64,
    ring: Ring,
    /// A write failed, and what was written may lie here.
    doubtful: Option<u64>,
    commits: u64,
    ahead: Ahead,
}

/// Begins to write a part of a file (start and length) to disk, and doesn't wait. It need not do anything.
pub type Ahead = fn(BorrowedFd<'_>, u64, u64);

impl Redo {
    /// Begins the log anew. Everything in it must be safe in the database.
    pub(crate) fn begin(root: &Root, key: [u8; 32], number: u64, mark: Mark) -> Result<Self, StoreError> {
        let path = root.redo();
        let failed = |why| StoreError::io("opening", &path, &why);
        let is_new = !path.exists();
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
        closed_to_others(&path)?;
        if is_new {
            root.sync()?;
        }
        file.set_len(0).map_err(failed)?;
        let (ring, len, commits) = (Ring::default(), 0, 0);
        Ok(Self { path, file, key, number, mark, len, ring, doubtful: None, commits, ahead: |_, _, _| {} })
    }

    /// Has this begin what is then flushed.
    pub(crate) fn begin_with(&mut self, ahead: Ahead) {
        self.ahead = ahead;
    }

    /// Bytes of frames that are needed.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.ring.bytes()
    }

    /// Forgets frames up to this number: their commits are safe.
    pub(crate) fn release(&mut self, number: u64) {
        self.ring.release(number);
    }

    /// Where a frame of this length goes. `Err` names the commit that must be safe first.
    pub(crate) fn place(&self, len: usize) -> Result<u64, u64> {
        self.ring.place(len as u64)
    }

    /// The length that a frame will have, of a buffer that begins with [`HEADER`] bytes of room.
    pub(crate) fn padded(len: usize) -> usize {
        len.next_multiple_of(ALIGN)
    }

    /// Writes a frame where [`Self::place`] said, and flushes it. The buffer begins with [`HEADER`] bytes of room. After
    /// an error nothing of it is in the log, or will be before anything else is.
    ///
    /// `meanwhile` is called when the frame is on its way to the disk and before it is waited for, if it gets so far.
    pub(crate) fn append(
        &mut self,
        start: u64,
        mut bytes: Vec<u8>,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Arc<Frame>, StoreError> {
        self.settle()?;
        let (number, before, end) = (self.number + 1, self.mark, bytes.len());
        let steps = bytes.get(HEADER..).ok_or_else(|| StoreError::bad("a commit of nothing"))?;
        if end > MAX_COMMIT {
            return Err(StoreError::bad(format!("a commit of {end} bytes; the most is {MAX_COMMIT}")));
        }
        let len = (steps.len() as u64).to_le_bytes();
        let hashed = [&number.to_le_bytes()[..], &len, &before].concat();
        // What is hashed is laid in front of the steps for that, where the header then goes: they need not be copied.
        bytes[HEADER - HASHED..HEADER].copy_from_slice(&hashed);
        let mark = *blake3::keyed_hash(&self.key, &bytes[HEADER - HASHED..]).as_bytes();
        bytes[..HEADER].copy_from_slice(&[&MAGIC[..], &hashed, &mark].concat());
        bytes.resize(Self::padded(end), 0);
        if let Err(why) = self.put(start, &bytes, meanwhile) {
            self.doubtful = Some(start);
            // If this fails as well, the next commit tries again.
            let _ = self.settle();
            return Err(StoreError::io("writing", &self.path, &why));
        }
        (self.number, self.mark) = (number, mark);
        self.commits += 1;
        self.ring.take(number, start, start + bytes.len() as u64);
        Ok(Arc::new(Frame { number, before, mark, bytes, end }))
    }

    fn put(&mut self, start: u64, bytes: &[u8], meanwhile: &mut dyn FnMut()) -> std::io::Result<()> {
        let end = start + bytes.len() as u64;
        if end > self.len && self.commits >= LOG_STEP_AFTER && end < LOG_RING {
            // A flush that doesn't move a file's end is several times faster. That there is no room for it is no harm.
            let step = vec![0; LOG_STEP.min(LOG_RING - self.len) as usize];
            if self.file.write_all_at(&step, self.len).is_ok() {
                self.len += step.len() as u64;
            }
        }
        self.file.write_all_at(bytes, start)?;
        self.len = self.len.max(end);
        (self.ahead)(self.file.as_fd(), start, bytes.len() as u64);
        meanwhile();
        self.file.sync_data()
    }

    /// After a failed write: makes sure that it never comes back to life. It may lie whole in the file, only not flushed.
    fn settle(&mut self) -> Result<(), StoreError> {
        let Some(start) = self.doubtful else { return Ok(()) };
        let void = || {
            let there = self.file.metadata()?.len().saturating_sub(start).min(HEADER as u64);
            self.file.write_all_at(&[0; HEADER][..there as usize], start)?;
            self.file.sync_data()
        };
        void().map_err(|why| StoreError::Halted { why: why.to_string() })?;
        self.doubtful = None;
        Ok(())
    }

    /// Whether anything was written.
    pub(crate) fn is_used(&self) -> bool {
        self.commits > 0
    }

    /// Empties the log: everything in it is safe in the database. That this fails is no harm, the frames are old.
    pub(crate) fn empty(&self) {
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redo(dir: &tempfile::TempDir) -> Redo {
        let root = Root::prepare(&dir.path().join("root")).expect("a data root");
        Redo::begin(&root, [7; 32], 0, NO_FRAME).expect("a log")
    }

    fn append(redo: &mut Redo, len: usize) -> Result<Arc<Frame>, u64> {
        let bytes = vec![redo.number as u8; HEADER + len];
        let place = redo.place(Redo::padded(bytes.len()))?;
        Ok(redo.append(place, bytes, &mut || {}).expect("room on the disk"))
    }

    /// The numbers of the frames that are found after one of them.
    fn after(redo: &Redo, frame: &Frame) -> Option<Vec<u64>> {
        let log = fs::read(&redo.path).expect("a log");
        let found = frames(&log, &redo.key, frame.number, &frame.mark).ok()?;
        Some(found.iter().map(|frame| frame.number).collect())
    }

    #[test]
    fn a_place_is_used_again_only_when_its_commit_is_safe() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut redo = redo(&dir);
        let all: Vec<_> = std::iter::from_fn(|| append(&mut redo, 300_000).ok()).collect();
        assert_eq!(all.len() as u64, LOG_RING / Redo::padded(HEADER + 300_000) as u64);
        redo.release(1);
        let again = append(&mut redo, 295_000).expect("the first one's place");
        assert_eq!(append(&mut redo, 200_000).map(drop), Err(2));
        assert_eq!(after(&redo, &all[0]), Some((2..=again.number).collect()));
        assert_eq!(after(&redo, &again), Some(vec![]));
        redo.release(again.number);
        let large = append(&mut redo, LOG_RING as usize * 2).expect("one that is larger than the ring, alone");
        assert_eq!(after(&redo, &again), Some(vec![large.number]));
        assert_eq!(after(&redo, &all[3]), None, "what lay between is gone, so this database is too old");
    }

    #[test]
    fn what_failed_is_void_and_its_number_is_used_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut redo = redo(&dir);
        let first = append(&mut redo, 100).expect("room");
        let second = append(&mut redo, 100).expect("room");
        // As if the flush of the second had failed.
        (redo.number, redo.mark) = (first.number, first.mark);
        redo.doubtful = Some(first.bytes.len() as u64);
        redo.ring = Ring::default();
        redo.ring.take(first.number, 0, first.bytes.len() as u64);
        assert_eq!(second.number, 2);
        assert_eq!(after(&redo, &first), Some(vec![2]), "it would come back to life");
        redo.settle().expect("a flush");
        assert_eq!(after(&redo, &first), Some(vec![]));
        append(&mut redo, 50).expect("room");
        assert_eq!(after(&redo, &first), Some(vec![2]));
    }

    #[test]
    fn another_hosts_frames_are_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut redo = redo(&dir);
        append(&mut redo, 100).expect("room");
        let log = fs::read(&redo.path).expect("a log");
        assert_eq!((last(&log, None, 0), last(&log, None, 1)), (Some(1), None));
        assert_eq!((last(&log, Some(&[7; 32]), 0), last(&log, Some(&[8; 32]), 0)), (Some(1), None));
        assert_eq!(frames(&log, &[8; 32], 0, &NO_FRAME).map(|found| found.len()), Ok(0));
        assert!(frames(&log, &redo.key, 0, &[1; 32]).is_err(), "of another history");
    }
}

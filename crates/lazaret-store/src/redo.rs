//! The redo log: where a commit is on disk first. One frame per commit, written at once and flushed once, at most two of them
//! at a time; the tables follow later. After a crash the frames that the tables have not seen are laid into them.
//!
//! A frame says its number, names the frame before it and is closed by a hash that only this host can make, over all of
//! it. The file is a ring: a frame's place is used again when its commit is safe in the database. An old frame is never
//! taken for a new one, because numbers only grow and the tables know which was the last they took.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the log lies in the data root")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use lazaret_gate::Digest;

use crate::error::StoreError;
use crate::limits::{FLIGHTS, LOG_RING, LOG_STEP, LOG_STEP_AFTER, MAX_COMMIT};
use crate::ring::Ring;
use crate::root::{Root, closed_to_others};

/// Begins every frame; the last byte is the format.
const MAGIC: [u8; 8] = *b"LZRTLOG\x02";

/// Magic, number, length of what follows, the last frame that was known to be on disk, the frame before, this frame's hash.
pub(crate) const HEADER: usize = 8 + 8 + 8 + 8 + 32 + 32;

/// What of a header its hash covers: all but magic and hash.
const HASHED: usize = HEADER - MAGIC.len() - MARK;

/// Before there could be two at a time, a frame did not say which was on disk: the one before it always was.
const LONE_MAGIC: [u8; 8] = *b"LZRTLOG\x01";
const LONE_HEADER: usize = HEADER - 8;

const MARK: usize = 32;

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
    /// Where the steps are.
    steps: Range<usize>,
    /// The hashes of the journal's entries in it, if this process has written it. What was read from a log is hashed again.
    hashes: Vec<Digest>,
}

impl Frame {
    pub(crate) fn steps(&self) -> &[u8] {
        self.bytes.get(self.steps.clone()).unwrap_or_default()
    }

    /// What is known of the hashes of its entries, in their order.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = Option<Digest>> {
        self.hashes.iter().copied().map(Some).chain(std::iter::repeat(None))
    }

    /// All of its bytes, as they lie in the log.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// A commit of nothing.
    #[cfg(test)]
    pub(crate) fn blank(number: u64) -> Self {
        Self {
            number,
            before: NO_FRAME,
            mark: NO_FRAME,
            bytes: vec![0; HEADER],
            steps: HEADER..HEADER,
            hashes: Vec::new(),
        }
    }
}

fn damaged() -> StoreError {
    StoreError::damaged("the log `lazaret.redo`")
}

/// A header as it stands in the file, believed by nobody yet.
struct Header<'a> {
    number: u64,
    /// The last frame that was known to be on disk when this one was written.
    flushed: u64,
    before: Mark,
    mark: Mark,
    hashed: &'a [u8],
    /// Its own length, and that of the steps.
    size: usize,
    len: usize,
}

impl<'a> Header<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let magic = bytes.get(..MAGIC.len())?;
        let size = if magic == MAGIC { HEADER } else { LONE_HEADER };
        if size == LONE_HEADER && magic != LONE_MAGIC {
            return None;
        }
        let (hashed, mark) = bytes.get(MAGIC.len()..size)?.split_last_chunk::<MARK>()?;
        let (numbers, before) = hashed.split_last_chunk::<MARK>()?;
        let word = |at: usize| numbers.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (number, len) = (word(0)?, usize::try_from(word(8)?).ok()?);
        let flushed = if size == HEADER { word(16)? } else { number.saturating_sub(1) };
        Some(Self { number, flushed, before: *before, mark: *mark, hashed, size, len })
    }

    fn closes(&self, key: &[u8; 32], steps: &[u8]) -> bool {
        let hash = if steps.len() <= COPIED {
            blake3::keyed_hash(key, &[self.hashed, steps].concat())
        } else {
            blake3::Hasher::new_keyed(key).update(self.hashed).update(steps).finalize()
        };
        *hash.as_bytes() == self.mark
    }
}

/// Every header in a log.
fn headers(log: &[u8]) -> impl Iterator<Item = (usize, Header<'_>)> {
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
    let holds = |at: usize, header: &Header<'_>| match key {
        Some(key) => steps(log, at, header).is_some_and(|steps| header.closes(key, steps)),
        None => true,
    };
    later.filter(|(at, header)| holds(*at, header)).map(|(_, header)| header.number).max()
}

/// What a frame holds, by its header.
fn steps<'a>(log: &'a [u8], at: usize, header: &Header<'_>) -> Option<&'a [u8]> {
    let start = at + header.size;
    log.get(start..start.checked_add(header.len)?)
}

/// The frames after the one that the tables took last, in order. What was being written when the host died is left out:
/// nobody was told that it holds. That may be several frames, of which an earlier one can be missing, because they are flushed
/// together. A frame that is missing and was known to be on disk when another one was written is damage.
pub(crate) fn frames(log: &[u8], key: &[u8; 32], number: u64, mark: &Mark) -> Result<Vec<Arc<Frame>>, StoreError> {
    let (mut found, mut flushed) = (BTreeMap::new(), number);
    for (at, header) in headers(log).filter(|(_, header)| header.number >= number) {
        if !steps(log, at, &header).is_some_and(|steps| header.closes(key, steps)) {
            continue;
        }
        flushed = flushed.max(header.flushed);
        let Header { number, before, mark, size, len, .. } = header;
        let bytes = log[at..at + size + len].to_vec();
        let frame = Frame { number, before, mark, bytes, steps: size..size + len, hashes: Vec::new() };
        if found.insert(number, Arc::new(frame)).is_some() {
            return Err(damaged());
        }
    }
    if found.remove(&number).is_some_and(|last| last.mark != *mark) {
        return Err(damaged());
    }
    let (mut number, mut mark, mut held) = (number, *mark, Vec::new());
    for frame in found.into_values() {
        if frame.number != number + 1 {
            break;
        }
        if frame.before != mark {
            return Err(damaged());
        }
        (number, mark) = (frame.number, frame.mark);
        held.push(frame);
    }
    if number < flushed { Err(damaged()) } else { Ok(held) }
}

/// The log's file, open to write.
pub(crate) struct Redo {
    path: PathBuf,
    /// As many as there may be flushes at a time, each opened by itself: of a write that failed, the system tells each of them.
    files: [Arc<File>; FLIGHTS],
    key: [u8; 32],
    /// The last frame's number and mark.
    number: u64,
    mark: Mark,
    len: u64,
    ring: Ring,
    /// A write or flush failed, and what was written may lie here.
    doubtful: Vec<u64>,
    commits: u64,
    ahead: Ahead,
}

/// A frame's flush, for whoever has written it: the log itself may go on meanwhile.
pub(crate) struct Flush {
    file: Arc<File>,
    path: PathBuf,
}

impl Flush {
    /// Waits until the frame is on disk.
    pub(crate) fn wait(self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|why| StoreError::io("writing", &self.path, &why))
    }
}

/// A frame that was written: its number and place, and which came before it.
pub(crate) struct Taken {
    pub(crate) number: u64,
    before: Mark,
    start: u64,
}

/// Begins to write a part of a file (start and length) to disk, and doesn't wait. It need not do anything.
pub type Ahead = fn(BorrowedFd<'_>, u64, u64);

impl Redo {
    /// Begins the log anew. Everything in it must be safe in the database.
    pub(crate) fn begin(root: &Root, key: [u8; 32], number: u64, mark: Mark) -> Result<Self, StoreError> {
        let path = root.redo();
        let failed = |why| StoreError::io("opening", &path, &why);
        let is_new = !path.exists();
        let open = || {
            let mut how = OpenOptions::new();
            how.write(true).create(true).truncate(false).mode(0o600).open(&path).map(Arc::new).map_err(failed)
        };
        let files = [open()?, open()?];
        closed_to_others(&path)?;
        if is_new {
            root.sync()?;
        }
        files[0].set_len(0).map_err(failed)?;
        let (ring, len, commits, doubtful) = (Ring::default(), 0, 0, Vec::new());
        Ok(Self { path, files, key, number, mark, len, ring, doubtful, commits, ahead: |_, _, _| {} })
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

    /// Writes a frame where [`Self::place`] said; `flushed` is the last that is known to be on disk. The buffer begins with
    /// [`HEADER`] bytes of room, and comes with the hashes of the entries in it. After an error nothing of it is in the log, or
    /// will be before anything else is.
    pub(crate) fn write(
        &mut self,
        start: u64,
        (mut bytes, hashes): (Vec<u8>, Vec<Digest>),
        flushed: u64,
    ) -> Result<(Arc<Frame>, Taken, Flush), StoreError> {
        self.settle()?;
        let (number, before, end) = (self.number + 1, self.mark, bytes.len());
        let steps = bytes.get(HEADER..).ok_or_else(|| StoreError::bad("a commit of nothing"))?;
        if end > MAX_COMMIT {
            return Err(StoreError::bad(format!("a commit of {end} bytes; the most is {MAX_COMMIT}")));
        }
        let [own, len, flushed] = [number, steps.len() as u64, flushed].map(u64::to_le_bytes);
        let hashed = [&own[..], &len, &flushed, &before].concat();
        // What is hashed is laid in front of the steps for that, where the header then goes: they need not be copied.
        bytes[HEADER - HASHED..HEADER].copy_from_slice(&hashed);
        let mark = *blake3::keyed_hash(&self.key, &bytes[HEADER - HASHED..]).as_bytes();
        bytes[..HEADER].copy_from_slice(&[&MAGIC[..], &hashed, &mark].concat());
        bytes.resize(Self::padded(end), 0);
        let file = Arc::clone(&self.files[(number % FLIGHTS as u64) as usize]);
        if let Err(why) = self.put(&file, start, &bytes) {
            self.doubtful.push(start);
            // If this fails as well, the next commit tries again.
            let _ = self.settle();
            return Err(StoreError::io("writing", &self.path, &why));
        }
        (self.number, self.mark) = (number, mark);
        self.commits += 1;
        self.ring.take(number, start, start + bytes.len() as u64);
        let frame = Arc::new(Frame { number, before, mark, bytes, steps: HEADER..end, hashes });
        Ok((frame, Taken { number, before, start }, Flush { file, path: self.path.clone() }))
    }

    fn put(&mut self, file: &File, start: u64, bytes: &[u8]) -> std::io::Result<()> {
        let end = start + bytes.len() as u64;
        if end > self.len && self.commits >= LOG_STEP_AFTER && end < LOG_RING {
            // A flush that doesn't move a file's end is several times faster. That there is no room for it is no harm.
            let step = vec![0; LOG_STEP.min(LOG_RING - self.len) as usize];
            if file.write_all_at(&step, self.len).is_ok() {
                self.len += step.len() as u64;
            }
        }
        file.write_all_at(bytes, start)?;
        self.len = self.len.max(end);
        (self.ahead)(file.as_fd(), start, bytes.len() as u64);
        Ok(())
    }

    /// The last frame can't be flushed: goes back to the one before it.
    pub(crate) fn take_back(&mut self, taken: &Taken) {
        (self.number, self.mark) = (taken.number - 1, taken.before);
        self.ring.take_back(taken.number);
        self.doubtful.push(taken.start);
    }

    /// After a failed write or flush: makes sure that it never comes back to life. It may lie whole in the file, only not
    /// flushed.
    pub(crate) fn settle(&mut self) -> Result<(), StoreError> {
        if self.doubtful.is_empty() {
            return Ok(());
        }
        let [file, others @ ..] = &self.files;
        let void = || {
            for start in &self.doubtful {
                let there = file.metadata()?.len().saturating_sub(*start).min(HEADER as u64);
                file.write_all_at(&[0; HEADER][..there as usize], *start)?;
            }
            file.sync_data()
        };
        void().map_err(|why| StoreError::Halted { why: why.to_string() })?;
        // What failed before is told here, and not of a frame that comes later.
        others.iter().for_each(|other| drop(other.sync_data()));
        self.doubtful.clear();
        Ok(())
    }

    /// Whether anything was written.
    pub(crate) fn is_used(&self) -> bool {
        self.commits > 0
    }

    /// Empties the log: everything in it is safe in the database. That this fails is no harm, the frames are old.
    pub(crate) fn empty(&self) {
        let _ = self.files[0].set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redo(dir: &tempfile::TempDir) -> Redo {
        let root = Root::prepare(&dir.path().join("root")).expect("a data root");
        Redo::begin(&root, [7; 32], 0, NO_FRAME).expect("a log")
    }

    /// Writes a frame while those after `flushed` are on their way to the disk.
    fn depart(redo: &mut Redo, len: usize, flushed: u64) -> Result<(Arc<Frame>, Taken), u64> {
        let bytes = vec![redo.number as u8; HEADER + len];
        let place = redo.place(Redo::padded(bytes.len()))?;
        let (frame, taken, flush) = redo.write(place, (bytes, Vec::new()), flushed).expect("room on the disk");
        flush.wait().expect("a disk");
        Ok((frame, taken))
    }

    fn append(redo: &mut Redo, len: usize) -> Result<Arc<Frame>, u64> {
        let before = redo.number;
        Ok(depart(redo, len, before)?.0)
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
        let (_, second) = depart(&mut redo, 100, 1).expect("room");
        let (_, third) = depart(&mut redo, 100, 1).expect("room");
        // As if the flush of the second had failed.
        redo.take_back(&third);
        redo.take_back(&second);
        assert_eq!(after(&redo, &first), Some(vec![2, 3]), "they would come back to life");
        redo.settle().expect("a flush");
        assert_eq!(after(&redo, &first), Some(vec![]));
        append(&mut redo, 50).expect("room");
        assert_eq!(after(&redo, &first), Some(vec![2]));
        assert_eq!(redo.live_bytes(), 2 * first.size() as u64 - 64);
    }

    /// Makes a frame one that never reached the disk.
    fn lose(redo: &Redo, taken: &Taken) {
        redo.files[0].write_all_at(&[0; HEADER], taken.start).expect("a disk");
    }

    #[test]
    fn of_those_that_were_on_their_way_none_counts_behind_one_that_is_missing() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut redo = redo(&dir);
        let first = append(&mut redo, 100).expect("room");
        let (_, second) = depart(&mut redo, 100, 1).expect("room");
        depart(&mut redo, 100, 1).expect("room");
        assert_eq!(after(&redo, &first), Some(vec![2, 3]));
        lose(&redo, &second);
        assert_eq!(after(&redo, &first), Some(vec![]), "the third was acknowledged to nobody");
        // Written when the second was known to be on disk.
        depart(&mut redo, 100, 2).expect("room");
        assert_eq!(after(&redo, &first), None, "so it has gone since");
    }

    #[test]
    fn frames_from_before_there_were_two_at_a_time_are_read() {
        let (key, mut log, mut before) = ([7; 32], Vec::new(), NO_FRAME);
        for number in 1..=3_u64 {
            let hashed = [&number.to_le_bytes()[..], &5_u64.to_le_bytes(), &before].concat();
            before = *blake3::keyed_hash(&key, &[&hashed[..], b"steps"].concat()).as_bytes();
            log.extend([&LONE_MAGIC[..], &hashed, &before, b"steps"].concat());
            log.resize(log.len().next_multiple_of(ALIGN), 0);
        }
        let found = frames(&log, &key, 0, &NO_FRAME).expect("a log");
        assert_eq!(found.iter().map(|frame| frame.number).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(found.iter().all(|frame| frame.steps() == b"steps"));
        let lost = &log.len() / 3;
        log[lost..lost + LONE_HEADER].fill(0);
        assert!(frames(&log, &key, 0, &NO_FRAME).is_err(), "each was on disk before the next was written");
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

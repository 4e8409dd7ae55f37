//! Reservations between turns: waking the same heap again needs no new mapping, which is most of what waking costs.

use super::heap::{HeapFile, PAGE};
use super::region::Stayed;
use crate::limits::{SPARE_BYTES, SPARE_OVERHEAD};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise, munmap};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a reservation is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) reserved: usize,
    pub(super) front: usize,
    pub(super) capacity: usize,
}

/// A reservation that nobody uses, with a heap file mapped into it. Unmapped when dropped.
///
/// It has no byte of its own, or those that the last turn wrote, and then it serves only a file that has the same: the
/// file may change meanwhile, as nobody looks, and its version tells. It is found again by an identity that no other file
/// ever has, so what one agent left can't be given to another.
pub(super) struct Spare {
    reservation: NonNull<u8>,
    shape: Shape,
    file: Option<u64>,
    /// The part of the file that is mapped.
    len: usize,
    /// The file's version that has all bytes which lie over it here, and these bytes; none if there are none.
    own: Option<(u64, Vec<Stayed>)>,
}

// SAFETY: the pointer is to a mapping that this value owns, valid in every thread, and nobody else has its address.
unsafe impl Send for Spare {}

impl Spare {
    /// A reservation whose user is gone, and what it had mapped. `own` are the bytes that lie over the file, if they may stay.
    pub(super) fn new(
        reservation: NonNull<u8>,
        shape: Shape,
        file: Option<&HeapFile>,
        own: Option<(u64, Vec<Stayed>)>,
    ) -> Self {
        let (file, len) = file.map_or((None, 0), |file| (Some(file.id()), file.len()));
        Self { reservation, shape, file, len, own }
    }

    /// The spare that maps just this file in just this way, if there is one.
    pub(super) fn take(file: &HeapFile, shape: Shape) -> Option<Self> {
        let mut spare = shelf().take(file.id())?;
        if spare.len != file.len() || spare.shape != shape {
            return None;
        }
        if spare.own.as_ref().is_some_and(|(version, _)| *version != file.version()) {
            // It was written to in another way since.
            spare.discard().ok()?;
            spare.own = None;
        }
        Some(spare)
    }

    /// Whether it has what the last turn wrote.
    pub(super) fn is_warm(&self) -> bool {
        self.own.is_some()
    }

    /// Forgets what lies over the file.
    fn discard(&self) -> Result<(), Errno> {
        if self.len == 0 {
            return Ok(());
        }
        // SAFETY: the front and the file's length lie within the reservation.
        let base = unsafe { self.reservation.as_ptr().add(self.shape.front) };
        // SAFETY: the range is our own mapping; whoever used it gave it up, so no guest runs on it and no reference lives.
        unsafe { madvise(base.cast(), self.len, Advice::LinuxDontNeed) }
    }

    pub(super) fn into_parts(self) -> (NonNull<u8>, Vec<Stayed>) {
        let mut spare = std::mem::ManuallyDrop::new(self);
        (spare.reservation, spare.own.take().map_or_else(Vec::new, |(_, pages)| pages))
    }

    /// Keeps it for its file's next turn, on whatever thread that is.
    pub(super) fn keep(self) {
        if self.own.is_none() && self.discard().is_err() {
            return;
        }
        // To unmap takes its time, and others need the shelf.
        let displaced = shelf().put(self);
        drop(displaced);
    }

    /// A file is gone, and with it whoever could ask for its spare.
    pub(super) fn forget(file: u64) {
        let spare = shelf().take(file);
        drop(spare);
    }

    /// About what it takes of the machine.
    fn bytes(&self) -> usize {
        SPARE_OVERHEAD + self.own.as_ref().map_or(0, |(_, pages)| pages.len() * PAGE)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // SAFETY: nobody uses the addresses: whoever did gave them up for this value to be made, and they are exactly what
        // was reserved.
        let unmapped = unsafe { munmap(self.reservation.as_ptr().cast(), self.shape.reserved) };
        debug_assert!(unmapped.is_ok(), "a heap's reservation could not be unmapped: {unmapped:?}");
    }
}

/// All spares of this process, each by its file. A thread's own would be found only by turns that happen to be taken on the
/// same thread, and in a keeper any thread takes any agent's.
struct Shelf {
    spares: BTreeMap<u64, (u64, Spare)>,
    /// Files by when their spares were put here.
    order: BTreeMap<u64, u64>,
    next: u64,
    bytes: usize,
}

static SHELF: Mutex<Shelf> = Mutex::new(Shelf::new());

fn shelf() -> MutexGuard<'static, Shelf> {
    SHELF.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    const fn new() -> Self {
        Self { spares: BTreeMap::new(), order: BTreeMap::new(), next: 0, bytes: 0 }
    }

    fn take(&mut self, file: u64) -> Option<Spare> {
        let (at, spare) = self.spares.remove(&file)?;
        self.order.remove(&at);
        self.bytes -= spare.bytes();
        Some(spare)
    }

    /// Returns what had to go for it: those that have been here for longest.
    fn put(&mut self, spare: Spare) -> Vec<Spare> {
        let Some(file) = spare.file else { return vec![spare] };
        let mut displaced: Vec<Spare> = self.take(file).into_iter().collect();
        self.bytes += spare.bytes();
        self.order.insert(self.next, file);
        self.spares.insert(file, (self.next, spare));
        self.next += 1;
        while self.bytes > SPARE_BYTES
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = *oldest;
            displaced.extend(self.take(oldest));
        }
        displaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    fn spare(file: &HeapFile, own: Option<(u64, Vec<Stayed>)>) -> Spare {
        let shape = Shape { reserved: PAGE, front: 0, capacity: PAGE };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let reservation =
            unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, ProtFlags::empty(), MapFlags::PRIVATE) }.unwrap();
        Spare::new(NonNull::new(reservation.cast()).unwrap(), shape, Some(file), own)
    }

    fn pages(many: usize) -> Option<(u64, Vec<Stayed>)> {
        Some((1, (0..many as u32).map(|index| (index, None)).collect()))
    }

    fn file() -> HeapFile {
        HeapFile::new(0).unwrap()
    }

    #[test]
    fn a_file_has_one_spare_and_nobody_elses() {
        let (one, other) = (file(), file());
        let mut shelf = Shelf::new();
        assert!(shelf.put(spare(&one, None)).is_empty());
        assert!(shelf.take(other.id()).is_none());
        assert_eq!(shelf.put(spare(&one, pages(3))).len(), 1, "the newer one stays");
        assert_eq!(shelf.bytes, SPARE_OVERHEAD + 3 * PAGE);
        assert!(shelf.take(one.id()).is_some_and(|spare| spare.is_warm()));
        assert!(shelf.take(one.id()).is_none());
        assert_eq!((shelf.bytes, shelf.order.len()), (0, 0));
    }

    #[test]
    fn the_longest_unused_go_first_when_there_are_too_many() {
        let most = SPARE_BYTES / (SPARE_OVERHEAD + 64 * PAGE);
        let files: Vec<HeapFile> = (0..=most).map(|_| file()).collect();
        let mut shelf = Shelf::new();
        for file in &files[..most] {
            assert!(shelf.put(spare(file, pages(64))).is_empty());
        }
        let first = shelf.take(files[0].id()).unwrap();
        shelf.put(first);
        let gone: Vec<_> = shelf.put(spare(&files[most], pages(64))).iter().map(|spare| spare.file).collect();
        assert_eq!(gone, [Some(files[1].id())], "the first was used since");
        assert!(shelf.bytes <= SPARE_BYTES);
    }

    #[test]
    fn a_file_that_is_dropped_takes_its_spare_along() {
        let file = file();
        let id = file.id();
        spare(&file, pages(1)).keep();
        assert!(shelf().spares.contains_key(&id));
        drop(file);
        assert!(!shelf().spares.contains_key(&id));
    }
}

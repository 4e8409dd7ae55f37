//! The address space of one linear memory.
//!
//! ```text
//! | guard, no access | file, copy on write | anonymous | reserved, no access … | guard, no access |
//!                    ^ base                            ^ base + size           ^ base + capacity
//! ```
//! The whole is reserved once, so the base never moves; growing only opens more of what is reserved.

use super::file::bytes_of;
use super::heap::{HeapFile, PAGE, Page, WASM_PAGE};
use super::spare::{Shape, Spare};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// What to reserve and map. All sizes are multiples of the host's page size.
pub(super) struct Plan {
    /// Bytes without access before the memory. Nothing should reach them; a compiler that sign-extends by mistake
    /// would.
    pub(super) front: usize,
    /// Bytes without access after the capacity.
    pub(super) back: usize,
    /// The most that the memory can ever grow to.
    pub(super) capacity: usize,
    /// Accessible bytes at the start; at least the source's length.
    pub(super) size: usize,
    /// The content of the first bytes; the rest is zero.
    pub(super) source: Option<Arc<HeapFile>>,
}

/// A reservation; unmapped when dropped, or kept for the same heap's next turn.
#[derive(Debug)]
pub(super) struct Region {
    reservation: NonNull<u8>,
    reserved: usize,
    front: usize,
    capacity: usize,
    size: AtomicUsize,
    /// INVARIANT: held as long as the file is mapped. `HeapFile` changes only through `&mut`, which nobody can get
    /// while this `Arc` lives: mapped pages can neither change nor vanish (an access past a file's end is SIGBUS).
    source: Option<Arc<HeapFile>>,
    /// The source's version, plus one, at which it has every byte that was written here; 0 if it never will.
    kept: AtomicU64,
    /// It began with the pages that its source's last turn wrote.
    warm: bool,
    /// What stood in these pages when it began.
    stayed: Vec<Stayed>,
    /// What stands in its own pages now, for whoever comes next.
    staying: OnceLock<Vec<Stayed>>,
}

/// A page by its number.
pub(super) type Stayed = (u32, Page);

// SAFETY: the pointer is to a mapping that this value owns, valid in every thread; the size is atomic. Access to the
// bytes is not offered here: `LinearMemory` and `Heap` say when it is allowed.
unsafe impl Send for Region {}
// SAFETY: as above; `grow` is the only method that changes the mapping under `&self` and it only adds access.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn new(plan: Plan) -> Result<Region, Errno> {
        let reserved = plan
            .front
            .checked_add(plan.back)
            .and_then(|guards| guards.checked_add(plan.capacity))
            .ok_or(Errno::NOMEM)?;
        // A memory with neither capacity nor guard still needs an address.
        let reserved = reserved.max(WASM_PAGE);
        let file_len = plan.source.as_ref().map_or(0, |file| file.len());
        if file_len > plan.size || plan.size > plan.capacity {
            return Err(Errno::INVAL);
        }
        if let Some(file) = &plan.source
            && let Some(spare) = Spare::take(file, Shape { reserved, front: plan.front, capacity: plan.capacity })
        {
            let warm = spare.is_warm();
            let (reservation, mut stayed) = spare.into_parts();
            if !warm {
                stayed = file.ahead().to_vec();
            }
            let region = Region {
                reservation,
                reserved,
                front: plan.front,
                capacity: plan.capacity,
                size: AtomicUsize::new(file_len),
                source: plan.source,
                kept: AtomicU64::new(0),
                warm,
                stayed,
                staying: OnceLock::new(),
            };
            if !warm {
                // SAFETY: nobody else has its address yet.
                unsafe { region.lay_over() };
            }
            region.grow(plan.size)?;
            return Ok(region);
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let reservation = unsafe { mmap_anonymous(std::ptr::null_mut(), reserved, ProtFlags::empty(), flags)? };
        let reservation = NonNull::new(reservation.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let stayed = plan.source.as_ref().map_or_else(Vec::new, |file| file.ahead().to_vec());
        let region = Region {
            reservation,
            reserved,
            front: plan.front,
            capacity: plan.capacity,
            size: AtomicUsize::new(file_len),
            source: plan.source,
            kept: AtomicU64::new(0),
            warm: false,
            stayed,
            staying: OnceLock::new(),
        };
        // Huge pages would make one written byte look like 512 changed pages. EINVAL is a kernel built without them.
        // SAFETY: advice on a mapping that we own and that holds no data yet.
        ignore_unsupported(unsafe { madvise(reservation.as_ptr().cast(), reserved, Advice::LinuxNoHugepage) })?;
        region.map_source()?;
        // SAFETY: nobody else has its address yet.
        unsafe { region.lay_over() };
        region.grow(plan.size)?;
        Ok(region)
    }

    /// Lays the source over the first bytes: nothing is read until it is touched, nothing copied until it is written.
    fn map_source(&self) -> Result<(), Errno> {
        let Some(file) = self.source.as_ref().filter(|file| !file.is_empty()) else {
            return Ok(());
        };
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let base = self.base().cast();
        // SAFETY: `file.len()` is within the capacity (checked in `new`), so the mapping replaces a part of our own
        // reservation only, before anybody else has its address.
        unsafe { mmap(base, file.len(), prot, flags, file.descriptor(), 0)? };
        // SAFETY: as for the reservation; a new mapping doesn't inherit the advice.
        ignore_unsupported(unsafe { madvise(base, file.len(), Advice::LinuxNoHugepage) })
    }

    /// Lays over the source what it has and its file has not.
    ///
    /// # Safety
    /// No guest runs on this memory and no reference into it lives.
    pub(super) unsafe fn lay_over(&self) {
        let Some(file) = &self.source else { return };
        for (index, page) in file.ahead() {
            let start = *index as usize * PAGE;
            if start + PAGE > file.len() {
                continue;
            }
            // SAFETY: the page lies within the file's length, which is mapped, readable and writable, and our own copy of
            // what is written; by the caller's word nobody watches it change.
            unsafe { self.base().add(start).copy_from_nonoverlapping(bytes_of(page).as_ptr(), PAGE) };
        }
    }

    /// Opens the bytes up to `size`, which read as zero. The caller makes sure that only one thread grows at a time.
    pub(super) fn grow(&self, size: usize) -> Result<(), Errno> {
        let old = self.size();
        if size > self.capacity {
            return Err(Errno::NOMEM);
        }
        if size > old {
            // SAFETY: old..size lies within the reservation, which is ours, and has had no access until now; more
            // access can't break anything that was valid before.
            unsafe {
                let start = self.base().add(old).cast();
                mprotect(start, size - old, MprotectFlags::READ | MprotectFlags::WRITE)?;
            }
            self.size.store(size, Ordering::Release);
        }
        Ok(())
    }

    /// Forgets every write: the pages of the source are the file's again, all others are zero.
    ///
    /// # Safety
    /// No guest runs on this memory and no reference into it lives.
    pub(super) unsafe fn discard(&self) -> Result<(), Errno> {
        if self.size() == 0 {
            return Ok(());
        }
        // SAFETY: the range is our own mapping, and by the caller's word nobody watches it change.
        unsafe { madvise(self.base().cast(), self.size(), Advice::LinuxDontNeed) }
    }

    /// Gives the pages that the last turn wrote copies of their own, a run at a time. A guest that touches them then
    /// faults neither to read nor to write, and no processor has to be told that a page was replaced. It is only advice:
    /// where the kernel doesn't take it, they are copied when they are written.
    pub(super) fn expect_writes(&self) {
        if self.warm {
            return;
        }
        let runs = self.source.as_ref().map_or(&[][..], |file| file.hot());
        for run in runs {
            let (start, end) = (run.start as usize * PAGE, run.end as usize * PAGE);
            if end > self.size() {
                return;
            }
            // SAFETY: the range is within our own mapping, readable and writable, and its content stays the same.
            if unsafe { madvise(self.base().add(start).cast(), end - start, Advice::LinuxPopulateWrite) }.is_err() {
                return;
            }
        }
    }

    /// Says that every byte that was written here will be in the source after so many more changes of it, and which pages
    /// that are, ascending. The next turn then finds them where they are: nothing is given back to the kernel and copied
    /// anew.
    pub(super) fn keep_writes(&self, changes: u64, pages: Vec<Stayed>) {
        if let Some(file) = &self.source {
            self.kept.store(file.version() + changes + 1, Ordering::Release);
            // Only the last turn on it says so.
            let _ = self.staying.set(pages);
        }
    }

    /// What stood in a page when this began, if that is remembered.
    pub(super) fn stayed(&self, page: u32) -> Option<&Page> {
        let at = self.stayed.binary_search_by_key(&page, |(number, _)| *number).ok()?;
        self.stayed.get(at).map(|(_, page)| page)
    }

    /// The address of the memory's byte 0. It never changes.
    pub(super) fn base(&self) -> *mut u8 {
        // SAFETY: the reservation is at least `front` bytes long, so the result is in it or one past its end.
        unsafe { self.reservation.as_ptr().add(self.front) }
    }

    /// Accessible bytes.
    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Acquire)
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn has_source(&self) -> bool {
        self.source.is_some()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let shape = Shape { reserved: self.reserved, front: self.front, capacity: self.capacity };
        let kept = self.kept.load(Ordering::Acquire).checked_sub(1);
        let pages = kept.map(|version| (version, self.staying.take().unwrap_or_default()));
        let spare = Spare::new(self.reservation, shape, self.source.as_deref(), pages);
        // A memory that grew has more behind its file than the next turn would find there.
        if self.source.as_ref().is_some_and(|file| file.len() == self.size()) {
            spare.keep();
        }
    }
}

fn ignore_unsupported(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::INVAL) => Ok(()),
        other => other,
    }
}

//! Asks the kernel which pages of a range hold memory of their own.

use super::heap::WASM_PAGE;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use rustix::process::{Pid, getpid};
use std::ffi::c_void;
use std::ops::Range;

/// Page categories of `PAGEMAP_SCAN` (linux/fs.h).
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// Regions fetched per call: 3 KiB of answers, enough for most turns in one call. The kernel makes room for as many first.
const REGIONS_PER_CALL: usize = 128;

/// An open `/proc/self/pagemap` whose kernel knows `PAGEMAP_SCAN` (Linux 6.7 and later).
///
/// It is opened once, when the engine is made, so that scans keep working in a process that gives up `/proc` later.
#[derive(Debug)]
pub(super) struct Pagemap {
    file: OwnedFd,
    /// The descriptor stays bound to the memory of the process that opened it. After a fork it would describe the
    /// parent's pages, so a scan from any other process is refused.
    owner: Pid,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// One `PAGEMAP_SCAN` call: the argument and the buffer that the kernel fills.
struct ScanCall<'a> {
    arg: ScanArg,
    regions: &'a mut [PageRegion],
}

/// How many regions were filled, and up to which address the kernel looked.
struct Progress {
    filled: usize,
    walk_end: u64,
}

// SAFETY: the opcode is PAGEMAP_SCAN and `ScanArg` has the layout of its argument. `as_ptr` points the kernel at a
// buffer that is borrowed exclusively for as long as this call lives and tells its true length. The kernel writes to
// both, so the call is declared as mutating, and nothing else is touched as no write-protect flag is set.
unsafe impl Ioctl for ScanCall<'_> {
    type Output = Progress;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<ScanArg>(b'f', 16)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.arg.vec = self.regions.as_mut_ptr() as u64;
        self.arg.vec_len = self.regions.len() as u64;
        (&raw mut self.arg).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, arg: *mut c_void) -> rustix::io::Result<Progress> {
        // SAFETY: `arg` is what `as_ptr` returned: a live, aligned `ScanArg`.
        let walk_end = unsafe { (*arg.cast::<ScanArg>()).walk_end };
        let filled = usize::try_from(out).map_err(|_| Errno::INVAL)?;
        Ok(Progress { filled, walk_end })
    }
}

impl Pagemap {
    /// Opens the page map and tries one scan; `None` if this kernel or this process's sandbox can't.
    pub(super) fn open() -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open("/proc/self/pagemap", flags, Mode::empty()).ok()?;
        let pagemap = Pagemap { file, owner: getpid() };
        // The part of the stack we stand on: any range will do that is aligned for every page size there is.
        let here = (&raw const pagemap).addr() & !(WASM_PAGE - 1);
        pagemap.own_memory(here..here + WASM_PAGE).ok()?;
        Some(pagemap)
    }

    /// The parts of `range` (page-aligned addresses), ascending, whose pages hold memory of the mapping's own: present
    /// or swapped out, neither a page of the mapped file nor the shared page of zeros that a mere read leaves behind.
    pub(super) fn own_memory(&self, range: Range<usize>) -> rustix::io::Result<Vec<Range<usize>>> {
        if getpid() != self.owner {
            return Err(Errno::PERM);
        }
        let mut found = Vec::new();
        let mut regions = [PageRegion::default(); REGIONS_PER_CALL];
        let end = range.end as u64;
        let mut next = range.start as u64;
        while next < end {
            let call = ScanCall {
                arg: ScanArg {
                    size: size_of::<ScanArg>() as u64,
                    flags: 0,
                    start: next,
                    end,
                    walk_end: 0,
                    vec: 0,
                    vec_len: 0,
                    max_pages: 0,
                    category_inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
                    category_mask: PAGE_IS_FILE | PAGE_IS_PFNZERO,
                    category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                    return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                },
                regions: &mut regions,
            };
            // SAFETY: the descriptor is a pagemap file, for which this opcode and argument are defined.
            let progress = unsafe { rustix::ioctl::ioctl(&self.file, call)? };
            // A kernel that neither advances nor fails would keep us here for ever.
            if progress.walk_end <= next || progress.filled > REGIONS_PER_CALL {
                return Err(Errno::INVAL);
            }
            found.extend(regions[..progress.filled].iter().map(|r| r.start as usize..r.end as usize));
            next = progress.walk_end;
        }
        Ok(found)
    }
}

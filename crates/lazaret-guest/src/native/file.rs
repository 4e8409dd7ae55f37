//! The content of a sleeping linear memory.

use super::heap::{HeapError, MAX_HEAP_BYTES, MAX_HOT_PAGES, PAGE, Page, WASM_PAGE, page_count, system};
use super::spare::Spare;
use lazaret_gate::Blob;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom, fallocate, ftruncate, memfd_create};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A page's bytes.
pub(crate) fn bytes_of(page: &Page) -> &[u8; PAGE] {
    static ZEROS: [u8; PAGE] = [0; PAGE];
    page.as_ref().map_or(&ZEROS, Blob::bytes)
}

/// The content of one sleeping linear memory, materialised in memory that has no name in the file system.
///
/// Pages of zeros take no room. It changes only through `&mut`: while an instance has it mapped it is held by an
/// [`Arc`](std::sync::Arc) there, so nothing can change under a running guest. Drop the store and its
/// [`Heap`](super::heap::Heap)s first, then use [`Arc::get_mut`](std::sync::Arc::get_mut); where others share it,
/// [`HeapFile::duplicate`] it.
#[derive(Debug)]
pub struct HeapFile {
    file: OwnedFd,
    len: usize,
    /// No other heap file of this process has it, ever: a descriptor's number is used again.
    id: u64,
    /// One more with every change.
    version: u64,
    /// Pages that the last turn wrote, as runs: the next one most likely writes them again.
    hot: Vec<Range<u32>>,
    /// Pages that are newer than those in the file, ascending. Where they stay mapped from turn to turn, nobody needs them
    /// there: to write them at every turn would be for those alone who find no spare mapping, and these get them too.
    ahead: Vec<(u32, Page)>,
}

impl Drop for HeapFile {
    fn drop(&mut self) {
        Spare::forget(self.id);
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl HeapFile {
    /// A heap of `len` zero bytes.
    pub fn new(len: usize) -> Result<HeapFile, HeapError> {
        let file = nameless_file().map_err(system("create a heap file"))?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut heap = HeapFile { file, len: 0, id, version: 0, hot: Vec::new(), ahead: Vec::new() };
        heap.set_len(len)?;
        Ok(heap)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is of length 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Cuts it, or extends it by zeros.
    pub fn set_len(&mut self, len: usize) -> Result<(), HeapError> {
        if !len.is_multiple_of(WASM_PAGE) || len > MAX_HEAP_BYTES {
            return Err(HeapError::Length { len });
        }
        self.version += 1;
        ftruncate(&self.file, len as u64).map_err(system("resize a heap file"))?;
        self.len = len;
        self.ahead.retain(|(index, _)| (*index as usize) < page_count(len));
        Ok(())
    }

    /// Replaces one page.
    pub fn write_page(&mut self, index: u32, page: &[u8; PAGE]) -> Result<(), HeapError> {
        self.version += 1;
        self.ahead.retain(|(ahead, _)| *ahead != index);
        self.write(index, page)
    }

    /// Replaces pages, ascending, and says for each that it changed. Those that `stay` mapped where they were written need
    /// not be in the file, as long as they are few.
    pub(crate) fn replace(&mut self, pages: Vec<(u32, Page)>, stay: bool) -> Result<(), HeapError> {
        if let Some((last, _)) = pages.last() {
            self.offset(*last)?;
        }
        self.version += pages.len() as u64;
        for (index, page) in pages {
            match self.ahead.binary_search_by_key(&index, |(index, _)| *index) {
                Ok(at) => self.ahead[at].1 = page,
                Err(at) => self.ahead.insert(at, (index, page)),
            }
        }
        if stay && self.ahead.len() <= MAX_HOT_PAGES {
            return Ok(());
        }
        for (index, page) in std::mem::take(&mut self.ahead) {
            self.write(index, bytes_of(&page))?;
        }
        Ok(())
    }

    fn write(&self, index: u32, page: &[u8; PAGE]) -> Result<(), HeapError> {
        let offset = self.offset(index)?;
        if page.iter().all(|byte| *byte == 0) {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return fallocate(&self.file, flags, offset, PAGE as u64).map_err(system("clear a page of a heap file"));
        }
        write_all_at(&self.file, page, offset).map_err(system("write a page of a heap file"))
    }

    /// Says which pages a turn wrote, ascending: when the heap is woken next, they get copies of their own at once, instead
    /// of one by one when the guest touches them. A page too many costs its copy; it is compared like any other.
    pub fn expect_writes(&mut self, pages: impl IntoIterator<Item = u32>) {
        self.hot.clear();
        for page in pages.into_iter().take(MAX_HOT_PAGES) {
            match self.hot.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => self.hot.push(page..page + 1),
            }
        }
    }

    pub(super) fn hot(&self) -> &[Range<u32>] {
        &self.hot
    }

    /// Reads one page.
    pub fn read_page(&self, index: u32, page: &mut [u8; PAGE]) -> Result<(), HeapError> {
        let offset = self.offset(index)?;
        if let Ok(at) = self.ahead.binary_search_by_key(&index, |(index, _)| *index) {
            *page = *bytes_of(&self.ahead[at].1);
            return Ok(());
        }
        read_exact_at(&self.file, page, offset).map_err(system("read a page of a heap file"))
    }

    /// A copy of its own. Takes time and room for the pages that aren't zero.
    pub fn duplicate(&self) -> Result<HeapFile, HeapError> {
        let mut copy = HeapFile::new(self.len)?;
        self.copy_data(&copy).map_err(system("copy a heap file"))?;
        copy.ahead.clone_from(&self.ahead);
        Ok(copy)
    }

    fn copy_data(&self, copy: &HeapFile) -> Result<(), Errno> {
        let mut buffer = vec![0; WASM_PAGE];
        let mut offset = 0;
        loop {
            offset = match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
                Err(Errno::NXIO) => return Ok(()),
                found => found?,
            };
            let end = rustix::fs::seek(&self.file, SeekFrom::Hole(offset))?;
            while offset < end {
                let part = (end - offset).min(WASM_PAGE as u64) as usize;
                read_exact_at(&self.file, &mut buffer[..part], offset)?;
                write_all_at(&copy.file, &buffer[..part], offset)?;
                offset += part as u64;
            }
        }
    }

    fn offset(&self, index: u32) -> Result<u64, HeapError> {
        let pages = page_count(self.len);
        if index as usize >= pages {
            return Err(HeapError::OutOfRange { index, pages });
        }
        Ok(u64::from(index) * PAGE as u64)
    }

    pub(super) fn ahead(&self) -> &[(u32, Page)] {
        &self.ahead
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn nameless_file() -> Result<OwnedFd, Errno> {
    match memfd_create("lazaret-heap", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 doesn't know how to forbid executing it.
        Err(Errno::INVAL) => memfd_create("lazaret-heap", MemfdFlags::CLOEXEC),
        other => other,
    }
}

fn write_all_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| pwrite(file, bytes, offset))?;
        if written == 0 {
            return Err(Errno::NOSPC);
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

fn read_exact_at(file: &OwnedFd, mut bytes: &mut [u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let read = retry_on_intr(|| pread(file, &mut *bytes, offset))?;
        if read == 0 {
            return Err(Errno::IO);
        }
        bytes = &mut bytes[read..];
        offset += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> Page {
        (byte != 0).then(|| Blob::of([byte; PAGE]))
    }

    /// The first byte of each page.
    fn read(heap: &HeapFile) -> Vec<u8> {
        let first = |index| {
            let mut page = [9; PAGE];
            heap.read_page(index, &mut page).unwrap();
            page[0]
        };
        (0..page_count(heap.len()) as u32).map(first).collect()
    }

    #[test]
    fn what_is_ahead_of_the_file_is_read_copied_and_cut_like_the_rest() {
        let mut heap = HeapFile::new(2 * WASM_PAGE).unwrap();
        heap.write_page(1, &[1; PAGE]).unwrap();
        heap.replace(vec![(1, page(2)), (3, page(3)), (20, page(4))], true).unwrap();
        let mut expected = vec![0; 32];
        (expected[1], expected[3], expected[20]) = (2, 3, 4);
        assert_eq!((read(&heap), heap.version()), (expected.clone(), 5));
        assert_eq!(heap.ahead().len(), 3);
        assert_eq!(read(&heap.duplicate().unwrap()), expected);
        heap.write_page(3, &[5; PAGE]).unwrap();
        heap.replace(vec![(1, page(0))], true).unwrap();
        (expected[1], expected[3]) = (0, 5);
        assert_eq!((read(&heap), heap.ahead().len()), (expected.clone(), 2));
        heap.set_len(WASM_PAGE).unwrap();
        heap.set_len(2 * WASM_PAGE).unwrap();
        expected[20] = 0;
        assert_eq!(read(&heap), expected, "what was cut off is gone");
        heap.replace(vec![(7, page(6))], false).unwrap();
        expected[7] = 6;
        assert_eq!((read(&heap), heap.ahead().len()), (expected, 0), "what doesn't stay is written, all of it");
        assert!(matches!(heap.replace(vec![(32, page(1))], true), Err(HeapError::OutOfRange { index: 32, pages: 32 })));
    }

    #[test]
    fn only_few_pages_are_ahead() {
        let mut heap = HeapFile::new(64 * WASM_PAGE).unwrap();
        let most = MAX_HOT_PAGES as u32;
        heap.replace((0..most).map(|index| (index, page(1))).collect(), true).unwrap();
        assert_eq!(heap.ahead().len(), MAX_HOT_PAGES);
        heap.replace(vec![(most, page(2))], true).unwrap();
        assert_eq!(
            (heap.ahead().len(), read(&heap)[..=MAX_HOT_PAGES].iter().map(|byte| *byte as u32).sum()),
            (0, most + 2)
        );
    }
}

//! Beginning to write.

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Asks the kernel to begin writing a part of a file to disk, and doesn't wait for it. It is only advice: what is on disk
/// is known after a flush, and where the kernel doesn't take the advice the flush does all of the work.
pub fn begin_writing(file: BorrowedFd<'_>, start: u64, len: u64) {
    let (Ok(start), Ok(len)) = (i64::try_from(start), i64::try_from(len)) else { return };
    // SAFETY: the descriptor is open for as long as it is borrowed, and the call reads no memory of ours.
    unsafe { libc::sync_file_range(file.as_raw_fd(), start, len, libc::SYNC_FILE_RANGE_WRITE) };
}

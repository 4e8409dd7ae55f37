//! The only home of `unsafe` in this crate.
//!
//! A woken agent's heap must appear without being copied, and the pages a turn changed must be found without being
//! read. Both are facts only the kernel knows, and both need `mmap`, `madvise` and one `ioctl` on raw addresses, and
//! wasmtime's two unsafe traits for memories that the host owns. Loading machine code that was compiled earlier is a
//! matter of trust too, and one system call that the store is handed has no safe wrapper. That is all there is here: small
//! files, each block with the reason why it holds. The rest of the crate sees safe functions.

#![expect(unsafe_code, reason = "linear memories owned by the host are mapped, grown and scanned by raw system calls")]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "lazaret-guest needs Linux: agent heaps are memfd mappings and changed pages come from /proc/self/pagemap"
);

pub mod code;
pub(crate) mod file;
pub mod heap;
mod pagemap;
mod region;
mod spare;
pub mod writing;

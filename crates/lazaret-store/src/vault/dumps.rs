//! Keeping memory out of files.

use rustix::process::{Resource, Rlimit};

use crate::error::StoreError;

/// From here on this process leaves no core file, however it ends, and no other process of the same user may read its
/// memory. A program that opens a vault calls it first.
pub fn disable_core_dumps() -> Result<(), StoreError> {
    let failed =
        |why: rustix::io::Errno| StoreError::Io { what: "switching core dumps off".into(), why: why.to_string() };
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(failed)?;
    // The limit doesn't bind a program that the kernel pipes cores to; this does.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).map_err(failed)?;
    Ok(())
}

//! Small files of the data root that people and other processes put there: read with a limit, written whole.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "these files lie in the data root")]

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Reads up to `most` bytes of a file, if it is there. What isn't a file is refused unread: a pipe would be waited for.
pub(crate) fn read(path: &Path, most: u64) -> Result<Option<(Vec<u8>, Metadata)>> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(nonblock).open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some((bytes, about)))
}

/// Whole or not at all, for nobody else, and still there after the power went.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_extension(format!("part-{}", std::process::id()));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&part)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_read_and_only_so_much() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("it");
        assert!(read(&path, 9).unwrap().is_none());
        write(&path, b"hello").unwrap();
        assert_eq!(read(&path, 3).unwrap().unwrap().0, b"hel");
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for other in [&pipe, dir.path()] {
            assert_eq!(read(other, 9).unwrap_err().to_string(), "it is not a file");
        }
    }
}

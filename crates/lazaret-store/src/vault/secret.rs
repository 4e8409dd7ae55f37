//! A value that nothing prints.

#![expect(clippy::disallowed_types, reason = "a passphrase may lie in a file that its owner names")]

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::error::StoreError;
use crate::limits::{MAX_SECRET, MIN_SECRET};

use super::disk::closed_file;
use super::error::VaultError;

/// A secret's value, or a passphrase. It is wiped when dropped, compared in constant time, and has no `Debug`, `Display`,
/// `Clone` or `Serialize`: whoever wants the bytes has to say [`Self::expose`], which is easy to search for.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over. What the caller copied them from is the caller's to wipe.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Reads a value to its end, into a buffer that never moves, so that no copy is left behind.
    pub fn read(from: &mut dyn Read) -> Result<Self, VaultError> {
        let mut room = Zeroizing::new(vec![0; MAX_SECRET + 1]);
        let mut filled = 0;
        while filled < room.len() {
            match from.read(&mut room[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
                Err(why) => return Err(VaultError::Unread { why: why.to_string() }),
            }
        }
        if filled > MAX_SECRET {
            return Err(VaultError::ValueLong);
        }
        Ok(Self::new(room[..filled].to_vec()))
    }

    /// Reads a passphrase from a file that nobody but its owner may open, without the line break at its end.
    pub fn read_file(path: &Path) -> Result<Self, VaultError> {
        // A pipe would wait for ever.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let mut file = opened.map_err(|why| StoreError::io("opening", path, &why))?;
        closed_file(&file, path).map_err(|why| match why {
            VaultError::Damaged { why, .. } => VaultError::Unread { why: format!("`{}`: {why}", path.display()) },
            why => why,
        })?;
        Self::read(&mut file).map(Self::without_line_break)
    }

    /// The same value without the line break that a terminal, `echo` or an editor put behind it.
    pub fn without_line_break(self) -> Self {
        let bytes = self.0.as_slice();
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        Self::new(bytes.strip_suffix(b"\r").unwrap_or(bytes).to_vec())
    }

    /// The value itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it can stand in a header: printable ASCII, and no space at either end, which the way there may drop.
    pub fn fits_header(&self) -> bool {
        let bytes = self.expose();
        let ends = [bytes.first(), bytes.last()];
        bytes.iter().all(|byte| matches!(byte, 0x20..=0x7e)) && !ends.contains(&Some(&b' '))
    }

    /// Whether a vault takes it.
    pub(super) fn check(&self) -> Result<(), VaultError> {
        match self.len() {
            0..MIN_SECRET => Err(VaultError::ValueShort),
            MIN_SECRET..=MAX_SECRET => Ok(()),
            _ => Err(VaultError::ValueLong),
        }
    }
}

impl PartialEq for Secret {
    /// Takes as long for a near miss as for a far one; only the length shows.
    fn eq(&self, other: &Self) -> bool {
        self.expose().ct_eq(other.expose()).into()
    }
}

impl Eq for Secret {}

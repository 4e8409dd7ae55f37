//! Where a response ends: by its length, by its last chunk, or with the connection.

use super::super::link::Coming;
use super::super::{EgressError, Limits};
use memchr::memchr;

/// Digits of a chunk's size: sixteen of base 16 are what a `u64` has, and no body comes near.
const MAX_DIGITS: usize = 15;

/// Bytes besides the data, of all chunks of a response together: what they say about themselves is for nobody, and costs.
const MAX_EXTENSIONS: usize = 16 << 10;

/// A line that says how long a chunk is.
const MAX_LINE: usize = 4 << 10;

/// What still comes.
pub(super) enum Rest {
    /// So many bytes.
    Length(u64),
    Chunks(Chunks),
    /// Everything until the server hangs up.
    All,
}

/// A body in chunks.
pub(super) struct Chunks {
    at: At,
    /// What extensions and trailers may still have.
    spare: usize,
}

#[derive(Clone, Copy)]
enum At {
    /// A line with the size of the next chunk.
    Size,
    /// So many bytes of a chunk.
    Data(u64),
    /// The end of the line behind them.
    DataEnd,
    /// Lines behind the last chunk, until an empty one.
    Trailer,
}

impl Rest {
    pub(super) fn chunks(limits: &Limits) -> Self {
        Self::Chunks(Chunks { at: At::Size, spare: MAX_EXTENSIONS.max(limits.reply_head) })
    }

    /// How many bytes will come, if that is known.
    pub(super) fn length(&self) -> Option<u64> {
        if let Self::Length(length) = self { Some(*length) } else { None }
    }

    /// Takes what belongs to the body from the beginning of `bytes`: how many bytes those are, and whether it is complete.
    pub(super) fn take(&mut self, bytes: &[u8], coming: &mut Coming<'_>) -> Result<(usize, bool), EgressError> {
        match self {
            Self::Length(left) => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                coming.piece(&bytes[..len])?;
                *left -= len as u64;
                Ok((len, *left == 0))
            }
            Self::All => {
                coming.piece(bytes)?;
                Ok((bytes.len(), false))
            }
            Self::Chunks(chunks) => {
                let mut taken = 0;
                loop {
                    match chunks.step(&bytes[taken..], coming)? {
                        Step::Took(len) => taken += len,
                        Step::More => return Ok((taken, false)),
                        Step::Done(len) => return Ok((taken + len, true)),
                    }
                }
            }
        }
    }
}

enum Step {
    Took(usize),
    More,
    Done(usize),
}

impl Chunks {
    fn step(&mut self, bytes: &[u8], coming: &mut Coming<'_>) -> Result<Step, EgressError> {
        let bad = |why: &str| EgressError::protocol(coming.target(), why);
        match self.at {
            At::Size => {
                let Some(line) = line(bytes).map_err(bad)? else { return Ok(Step::More) };
                let (size, extensions) = size(line).ok_or_else(|| bad("a chunk's size is none"))?;
                self.spend(extensions).map_err(bad)?;
                self.at = if size == 0 { At::Trailer } else { At::Data(size) };
                Ok(Step::Took(line.len() + 2))
            }
            At::Data(_) if bytes.is_empty() => Ok(Step::More),
            At::Data(left) => {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                coming.piece(&bytes[..len])?;
                let left = left - len as u64;
                self.at = if left == 0 { At::DataEnd } else { At::Data(left) };
                Ok(Step::Took(len))
            }
            At::DataEnd => match bytes {
                [] | [b'\r'] => Ok(Step::More),
                [b'\r', b'\n', ..] => {
                    self.at = At::Size;
                    Ok(Step::Took(2))
                }
                _ => Err(bad("a chunk is longer than its size")),
            },
            At::Trailer => match line(bytes).map_err(bad)? {
                None => Ok(Step::More),
                Some([]) => Ok(Step::Done(2)),
                Some(line) => {
                    self.spend(line.len() + 2).map_err(bad)?;
                    Ok(Step::Took(line.len() + 2))
                }
            },
        }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.spare = self.spare.checked_sub(bytes).ok_or("chunks say too much besides their data")?;
        Ok(())
    }
}

/// A line without its end, if it is there whole.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, &'static str> {
    let Some(end) = memchr(b'\n', bytes) else {
        return if bytes.len() > MAX_LINE { Err("a line between chunks is too long") } else { Ok(None) };
    };
    let line = bytes[..end].strip_suffix(b"\r").filter(|line| !line.contains(&b'\r'));
    line.map(Some).ok_or("a line between chunks doesn't end as lines do")
}

/// The size that a line says, and how many bytes it says besides.
fn size(line: &[u8]) -> Option<(u64, usize)> {
    let count = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = line.split_at_checked(count).filter(|_| (1..=MAX_DIGITS).contains(&count))?;
    let lawful = rest.trim_ascii_start().first().is_none_or(|byte| *byte == b';');
    let size = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    lawful.then_some((size, rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_strictly() {
        assert_eq!(size(b"0"), Some((0, 0)));
        assert_eq!(size(b"1aF"), Some((0x1af, 0)));
        assert_eq!(size(b"5;a=b"), Some((5, 4)));
        assert_eq!(size(b"5 \t;a"), Some((5, 4)));
        assert_eq!(size(b"5 "), Some((5, 1)));
        for bad in ["", ";a", "+5", "-5", "0x5", "5g", "5 6", " 5", "1234567890abcdef", "\u{665}"] {
            assert_eq!(size(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(line(b"5\r\nab"), Ok(Some(b"5".as_slice())));
        assert_eq!(line(b"5\r"), Ok(None));
        for bad in [b"5\n".as_slice(), b"\n", b"5\r;\r\n", b"5\r\r\n"] {
            assert!(line(bad).is_err(), "{bad:?}");
        }
        assert!(line(&[b'a'; MAX_LINE + 1]).is_err());
    }
}

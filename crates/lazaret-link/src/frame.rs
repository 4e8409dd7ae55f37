//! Lines out of bytes, and what a line must be before anybody reads it.

use zeroize::{Zeroize as _, Zeroizing};

use crate::fault::Fault;
use crate::limits::MAX_DEPTH;

/// A line that is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// Too long, whatever it says.
    #[error("a line of more than {most} bytes; the most grows once a hello has shown the token")]
    TooLarge {
        /// The cap.
        most: usize,
    },
    /// Not UTF-8.
    #[error("a line that is not UTF-8, at byte {at}")]
    NotText {
        /// Where that is seen first.
        at: usize,
    },
    /// A zero byte.
    #[error("a line with a zero byte in it, at byte {at}")]
    Zero {
        /// Where.
        at: usize,
    },
    /// Brackets within brackets.
    #[error("a line with more than {MAX_DEPTH} brackets within brackets")]
    TooDeep,
    /// The connection ended in the middle of a line.
    #[error("the connection ended in the middle of a line; each ends with a line break")]
    Truncated,
    /// It didn't come in time.
    #[error("the line did not end in time; send it whole")]
    Slow,
    /// Not JSON, or not the JSON of a call.
    #[error("not a call: {0}")]
    NotACall(String),
    /// A plain-text command that there isn't.
    #[error("no such command; there are PING, HEALTH, STATUS, AGENTS, REVOKE and KILL, and JSON objects")]
    Unknown,
    /// A plain-text command with the wrong words behind it.
    #[error("`{0}`")]
    Usage(&'static str),
    /// Calls come faster than they are taken.
    #[error("more than {most} calls in a second; wait for answers before asking more")]
    TooFast {
        /// The cap.
        most: u64,
    },
}

impl BadFrame {
    /// The kind, as faults name it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too-large",
            Self::NotText { .. } => "not-text",
            Self::Zero { .. } => "zero-byte",
            Self::TooDeep => "too-deep",
            Self::Truncated => "truncated",
            Self::Slow => "slow",
            Self::NotACall(_) => "not-a-call",
            Self::Unknown => "unknown-command",
            Self::Usage(_) => "usage",
            Self::TooFast { .. } => "too-fast",
        }
    }

    /// Whether nothing that follows on the connection can be believed to be a line.
    pub fn ends(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Truncated | Self::Slow)
    }
}

impl From<&BadFrame> for Fault {
    fn from(why: &BadFrame) -> Self {
        Self::new(why.code(), &why.to_string(), 3)
    }
}

/// Cuts bytes into lines.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// No line break is between there and here.
    seen: usize,
}

impl Lines {
    /// Takes bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        // What was read is dropped now and not line by line: there may be thousands in one piece.
        self.bytes.drain(..self.start);
        self.seen -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// What the line that waits for its end begins with.
    pub fn first(&self) -> Option<u8> {
        self.bytes.get(self.start).copied()
    }

    /// The next line without its break, if it is there whole. `most` is its longest length.
    /// It is wiped here, and where it goes when that is dropped: a token or a value may be in it.
    pub fn next(&mut self, most: usize) -> Option<Result<Zeroizing<Vec<u8>>, BadFrame>> {
        let found = self.bytes[self.seen..].iter().position(|byte| *byte == b'\n').map(|at| at + self.seen);
        let end = found.unwrap_or(self.bytes.len());
        if end - self.start > most {
            return Some(Err(BadFrame::TooLarge { most }));
        }
        self.seen = end;
        found?;
        let mut line = Zeroizing::new(self.bytes[self.start..end].to_vec());
        self.bytes[self.start..end].zeroize();
        line.pop_if(|byte| *byte == b'\r');
        self.start = end + 1;
        self.seen = self.start;
        Some(Ok(line))
    }

    /// Whether the beginning of a line waits for its end.
    pub fn is_partial(&self) -> bool {
        self.start < self.bytes.len()
    }
}

/// A line as text, if it can be one. Whoever parses it afterwards can't be made to recurse.
pub fn check(line: &[u8]) -> Result<&str, BadFrame> {
    if let Some(at) = line.iter().position(|byte| *byte == 0) {
        return Err(BadFrame::Zero { at });
    }
    let text = std::str::from_utf8(line).map_err(|why| BadFrame::NotText { at: why.valid_up_to() })?;
    if text.starts_with('{') && depth(line) > MAX_DEPTH {
        return Err(BadFrame::TooDeep);
    }
    Ok(text)
}

/// The most brackets that are open at once. Those in strings don't count; what isn't JSON is found out later.
fn depth(line: &[u8]) -> usize {
    let (mut open, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in line {
        match (quoted, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, _, b'"') => quoted = !quoted,
            (false, _, b'{' | b'[') => {
                open += 1;
                most = most.max(open);
            }
            (false, _, b'}' | b']') => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let mut lines = Lines::default();
        for byte in b"one\r\n\ntw" {
            lines.push(&[*byte]);
        }
        assert_eq!(lines.next(9), Some(Ok(b"one".to_vec().into())));
        assert_eq!(lines.next(9), Some(Ok(Vec::new().into())));
        assert_eq!(lines.next(9), None);
        assert!(lines.is_partial());
        lines.push(b"o\n");
        assert_eq!(lines.next(3), Some(Ok(b"two".to_vec().into())));
        assert!(!lines.is_partial());
        lines.push(b"four\n");
        assert_eq!(lines.next(3), Some(Err(BadFrame::TooLarge { most: 3 })));
        let mut lines = Lines::default();
        lines.push(b"four");
        assert_eq!(lines.next(3), Some(Err(BadFrame::TooLarge { most: 3 })));
    }

    #[test]
    fn what_no_line_can_be_is_told_before_it_is_parsed() {
        assert_eq!(check(b"a\0b"), Err(BadFrame::Zero { at: 1 }));
        assert_eq!(check(b"ab\xff"), Err(BadFrame::NotText { at: 2 }));
        let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(check(deep(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(check(deep(MAX_DEPTH + 1).as_bytes()), Err(BadFrame::TooDeep));
        let quoted = format!("{{\"a\\\"{}\":1}}", "[".repeat(99));
        assert!(check(quoted.as_bytes()).is_ok());
    }
}

//! The journal's chain: each entry carries the hash of the one before it.

use serde::{Deserialize, Serialize};

use crate::canonical::{self, Digest, NotCanonical};
use crate::limits::MAX_ENTRY;
use crate::record::Body;

/// One journal entry. Its bytes are its canonical JSON; its hash is their BLAKE3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    pub body: Body,
    /// Hash of the entry before, or zeros for the first.
    pub prev: Digest,
    /// Place in the journal, from 0.
    pub seq: u64,
    /// Milliseconds since 1970 when it was written, by the host's word.
    pub time: u64,
}

/// What the first entry names as its predecessor.
pub const NO_ENTRY: Digest = Digest([0; 32]);

/// A journal that isn't one unbroken chain.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// An entry can't be read, or isn't canonical.
    #[error("entry {seq}: {why}")]
    Unreadable {
        /// Where.
        seq: u64,
        /// Why.
        why: String,
    },
    /// An entry says it stands elsewhere.
    #[error("entry {expected}: says it is entry {found}")]
    OutOfPlace {
        /// Where it stands.
        expected: u64,
        /// Where it says it stands.
        found: u64,
    },
    /// An entry doesn't follow the one before it.
    #[error("entry {seq}: follows {found}, but entry {} hashes to {expected}", seq.saturating_sub(1))]
    Unlinked {
        /// Where.
        seq: u64,
        /// Hash of the entry before.
        expected: Digest,
        /// What it names.
        found: Digest,
    },
}

/// Writes an entry from an already canonical body. `body` sorts before `prev`, `seq` and `time`, so the frame can be
/// put round it without parsing it again: the journal's writer is on every turn's path.
pub fn frame(body: &[u8], prev: &Digest, seq: u64, time: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 128);
    bytes.extend_from_slice(b"{\"body\":");
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(format!(",\"prev\":\"{prev}\",\"seq\":{seq},\"time\":{time}}}").as_bytes());
    bytes
}

impl Entry {
    /// Reads an entry, insisting on its canonical form.
    pub fn read(bytes: &[u8]) -> Result<Self, NotCanonical> {
        if bytes.len() > MAX_ENTRY {
            return Err(NotCanonical::Unreadable(format!("{} bytes; the most is {MAX_ENTRY}", bytes.len())));
        }
        canonical::decode(bytes)
    }
}

/// Follows a chain from its beginning, entry by entry.
#[derive(Debug)]
pub struct Chain {
    next: u64,
    head: Digest,
}

impl Default for Chain {
    fn default() -> Self {
        Self { next: 0, head: NO_ENTRY }
    }
}

impl Chain {
    /// Goes on after `len` entries of which the last hashes to `head`, as somebody found who followed them.
    pub fn resume(len: u64, head: Digest) -> Self {
        Self { next: len, head }
    }

    /// How many entries were followed.
    pub fn len(&self) -> u64 {
        self.next
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.next == 0
    }

    /// Hash of the last one.
    pub fn head(&self) -> Digest {
        self.head
    }

    /// Checks that these bytes are the next entry, and goes on to it. Reads only the frame: the body's bytes are bound
    /// by the hash, and whoever needs what they say reads them with [`Entry::read`].
    pub fn follow(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let seq = self.next;
        let tail = format!(",\"seq\":{seq},\"time\":");
        let unreadable = |why: &str| Broken::Unreadable { seq, why: why.to_owned() };
        if bytes.len() > MAX_ENTRY || !bytes.starts_with(b"{\"body\":{") {
            return Err(unreadable("not a journal entry"));
        }
        // The frame's end has a known shape: ,"prev":"<64 hex>","seq":<n>,"time":<n>}
        let window = &bytes[bytes.len().saturating_sub(160)..];
        let mark = b",\"prev\":\"";
        let at = window.windows(mark.len()).rposition(|part| part == mark);
        let at = at.ok_or_else(|| unreadable("its frame names no predecessor"))?;
        let frame = str::from_utf8(&window[at + mark.len()..]).map_err(|_| unreadable("its frame is not text"))?;
        let (prev, rest) = frame.split_at_checked(64).ok_or_else(|| unreadable("its frame is cut short"))?;
        let prev = Digest::parse(prev).ok_or_else(|| unreadable("its predecessor is not a digest"))?;
        let rest = rest.strip_prefix('"').ok_or_else(|| unreadable("its frame is malformed"))?;
        let time = rest.strip_prefix(tail.as_str()).and_then(|rest| rest.strip_suffix('}'));
        let time = time.ok_or_else(|| {
            let found = rest.strip_prefix(",\"seq\":").and_then(|rest| rest.split(',').next()?.parse().ok());
            let found = found.filter(|found| *found != seq);
            found.map_or_else(
                || unreadable("its frame is malformed"),
                |found| Broken::OutOfPlace { expected: seq, found },
            )
        })?;
        let plain = time.bytes().all(|byte| byte.is_ascii_digit()) && (time == "0" || !time.starts_with('0'));
        if !plain || time.parse::<u64>().is_err() {
            return Err(unreadable("its time is not a whole number"));
        }
        if prev != self.head {
            return Err(Broken::Unlinked { seq, expected: self.head, found: prev });
        }
        self.head = Digest::of(bytes);
        self.next += 1;
        Ok(())
    }
}

//! What a commit does to the tables, one step after another, as bytes. A committer writes them, and whoever lays them into
//! the tables reads them, be it a moment later or after a crash: both take the same way.

use lazaret_gate::{AgentId, Digest};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    /// Bytes by their digest, as they will lie in the table.
    Blob { digest: Digest, size: u64, packed: bool, bytes: &'a [u8] },
    /// The journal's next entry.
    Entry { bytes: &'a [u8] },
    /// An agent's storage begins.
    Begin { agent: &'a str },
    /// An agent's storage and messages go.
    Clear { agent: &'a str },
    /// A key is written.
    Set { agent: &'a str, key: &'a str, version: u64, value: &'a [u8] },
    /// A key is removed, if it is there.
    Delete { agent: &'a str, key: &'a str },
    /// A message waits.
    Enqueue { agent: &'a str, id: u64, message: &'a [u8] },
    /// A message was answered.
    Dequeue { agent: &'a str, id: u64 },
    /// An agent's row as the commit leaves it.
    Row { agent: &'a str, row: &'a [u8] },
    /// Where everything stands then.
    End(End),
}

/// The last step of every commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The note over this journal is kept.
    pub(crate) keeps_note: bool,
    pub(crate) size: u64,
    pub(crate) hash: Digest,
    pub(crate) agents: u64,
    pub(crate) checkpoints: u64,
    pub(crate) messages: u64,
}

fn put(out: &mut Vec<u8>, tag: u8, numbers: &[u64], parts: &[&[u8]]) {
    out.push(tag);
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    for part in parts {
        out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        out.extend_from_slice(part);
    }
}

/// What is left to read. `None` from any of these means that the bytes are not what was written.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().filter(|byte| *byte < 2).map(|byte| byte == 1)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn digest(&mut self) -> Option<Digest> {
        self.take(32)?.try_into().ok().map(Digest)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }

    fn text(&mut self) -> Option<&'a str> {
        str::from_utf8(self.bytes()?).ok()
    }
}

impl<'a> Op<'a> {
    /// Adds the step to a commit.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Blob { digest, size, packed, bytes } => {
                out.extend_from_slice(&[1, u8::from(packed)]);
                out.extend_from_slice(&digest.0);
                out.extend_from_slice(&size.to_le_bytes());
                out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Entry { bytes } => put(out, 2, &[], &[bytes]),
            Self::Begin { agent } => put(out, 3, &[], &[agent.as_bytes()]),
            Self::Clear { agent } => put(out, 4, &[], &[agent.as_bytes()]),
            Self::Set { agent, key, version, value } => {
                put(out, 5, &[version], &[agent.as_bytes(), key.as_bytes(), value]);
            }
            Self::Delete { agent, key } => put(out, 6, &[], &[agent.as_bytes(), key.as_bytes()]),
            Self::Enqueue { agent, id, message } => put(out, 7, &[id], &[agent.as_bytes(), message]),
            Self::Dequeue { agent, id } => put(out, 8, &[id], &[agent.as_bytes()]),
            Self::Row { agent, row } => put(out, 9, &[], &[agent.as_bytes(), row]),
            Self::End(End { keeps_note, size, hash, agents, checkpoints, messages }) => {
                out.extend_from_slice(&[10, u8::from(keeps_note)]);
                out.extend_from_slice(&hash.0);
                for number in [size, agents, checkpoints, messages] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
    }

    /// Name, size, whether it is packed, and bytes, if it is a blob.
    pub(crate) fn blob(&self) -> Option<(Digest, u64, bool, &'a [u8])> {
        match *self {
            Self::Blob { digest, size, packed, bytes } => Some((digest, size, packed, bytes)),
            _ => None,
        }
    }

    fn read(rest: &mut Rest<'a>) -> Option<Self> {
        Some(match rest.byte()? {
            1 => {
                let (packed, digest, size) = (rest.flag()?, rest.digest()?, rest.number()?);
                Self::Blob { digest, size, packed, bytes: rest.bytes()? }
            }
            2 => Self::Entry { bytes: rest.bytes()? },
            3 => Self::Begin { agent: rest.text()? },
            4 => Self::Clear { agent: rest.text()? },
            5 => {
                let version = rest.number()?;
                Self::Set { version, agent: rest.text()?, key: rest.text()?, value: rest.bytes()? }
            }
            6 => Self::Delete { agent: rest.text()?, key: rest.text()? },
            7 => {
                let id = rest.number()?;
                Self::Enqueue { id, agent: rest.text()?, message: rest.bytes()? }
            }
            8 => {
                let id = rest.number()?;
                Self::Dequeue { id, agent: rest.text()? }
            }
            9 => Self::Row { agent: rest.text()?, row: rest.bytes()? },
            10 => {
                let (keeps_note, hash, size, agents) = (rest.flag()?, rest.digest()?, rest.number()?, rest.number()?);
                let (checkpoints, messages) = (rest.number()?, rest.number()?);
                Self::End(End { keeps_note, size, hash, agents, checkpoints, messages })
            }
            _ => return None,
        })
    }
}

/// All steps of a commit. `None` if they can't be read, or don't end as every commit does.
pub(crate) fn steps(bytes: &[u8]) -> Option<Vec<Op<'_>>> {
    let (mut rest, mut steps) = (Rest(bytes), Vec::new());
    while !rest.0.is_empty() {
        steps.push(Op::read(&mut rest)?);
    }
    matches!(steps.last(), Some(Op::End(_))).then_some(steps)
}

/// The agent that a step names.
pub(crate) fn agent(name: &str) -> Option<AgentId> {
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Op<'static>> {
        let hash = Digest::of(b"x");
        vec![
            Op::Blob { digest: hash, size: 7, packed: true, bytes: b"packed" },
            Op::Entry { bytes: b"{}" },
            Op::Begin { agent: "a" },
            Op::Clear { agent: "b" },
            Op::Set { agent: "a", key: "", version: u64::MAX, value: &[0; 300] },
            Op::Delete { agent: "a", key: "k" },
            Op::Enqueue { agent: "a", id: 3, message: b"m" },
            Op::Dequeue { agent: "a", id: 3 },
            Op::Row { agent: "a", row: b"{\"x\":1}" },
            Op::End(End { keeps_note: true, size: 1, hash, agents: 2, checkpoints: 3, messages: 4 }),
        ]
    }

    #[test]
    fn steps_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        all().iter().for_each(|op| op.write(&mut bytes));
        assert_eq!(steps(&bytes), Some(all()));
    }

    #[test]
    fn a_cut_commit_is_not_a_commit() {
        let mut bytes = Vec::new();
        all().iter().for_each(|op| op.write(&mut bytes));
        for cut in 0..bytes.len() {
            assert_eq!(steps(&bytes[..cut]), None, "cut at {cut}");
        }
        bytes.push(99);
        assert_eq!(steps(&bytes), None);
    }
}

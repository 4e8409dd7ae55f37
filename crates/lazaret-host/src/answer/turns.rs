//! Turns on record: read, run again, handed out.

use lazaret_gate::Bytes;
use lazaret_link::limits::{MAX_ANSWER, MAX_NAMED};
use lazaret_link::{Replayed, Reply, TurnsRequest, Verdict as Told};

use super::Keeper;
use crate::bundles::Selection;
use crate::error::HostError;
use crate::replay::Verdict;

impl From<Verdict> for Told {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Match => Self::Match,
            Verdict::Mismatch(where_) => Self::Mismatch(where_),
            Verdict::Unverifiable { missing } => Self::Unverifiable { missing },
        }
    }
}

impl From<Told> for Verdict {
    fn from(told: Told) -> Self {
        match told {
            Told::Match => Self::Match,
            Told::Mismatch(where_) => Self::Mismatch(where_),
            Told::Unverifiable { missing } => Self::Unverifiable { missing },
        }
    }
}

impl Keeper {
    pub(super) fn turns(&self, request: TurnsRequest) -> Result<Reply, HostError> {
        match request {
            TurnsRequest::Read { turns } => Ok(Reply::Turns(self.host.turns(&turns.parse()?)?)),
            TurnsRequest::Replay { turns } => {
                let (mut told, mut differing) = (Vec::new(), Vec::new());
                self.host.replay(&turns.parse()?, |entry, record, verdict| {
                    let (agent, turn, result) = (record.agent.clone(), record.turn, verdict.clone().into());
                    if let Verdict::Mismatch(differs) = verdict {
                        differing.push((told.len(), record.clone(), differs.clone()));
                    }
                    told.push(Replayed { entry, agent, turn, result, unrecorded: None });
                })?;
                for (at, record, differs) in &differing {
                    // The verdict is what was asked for: that it can't be put on record must not hide it.
                    let noted = self.host.note_mismatch(record, differs, "the keeper");
                    told[*at].unrecorded = noted.err().map(|why| why.to_string());
                }
                Ok(Reply::Replayed(told))
            }
            TurnsRequest::Export { turns } => {
                if turns.len() > MAX_NAMED {
                    return Err(HostError::Selection(format!("{} selections", turns.len())));
                }
                let selections = turns.iter().map(|turns| turns.parse()).collect::<Result<Vec<Selection>, _>>()?;
                Ok(Reply::Bundle(Bytes(self.host.export(&selections)?)))
            }
        }
    }

    /// Whether an answer can be sent to another process.
    pub fn is_sendable(reply: &Reply) -> Result<(), HostError> {
        match reply {
            // In base64, four bytes say what three are.
            Reply::Bundle(bytes) if bytes.0.len() / 3 * 4 > MAX_ANSWER - (1 << 20) => {
                Err(HostError::TooLong { what: "a bundle", len: bytes.0.len(), most: MAX_ANSWER / 4 * 3 })
            }
            _ => Ok(()),
        }
    }
}

//! Following what agents had seen through the turns of a bundle: no label comes off between two of them.

use std::collections::BTreeMap;

use super::BadBundle;
use crate::canonical::{self, Digest};
use crate::entry::Entry;
use crate::id::AgentId;
use crate::labels::{self, Labels};
use crate::record::{Body, TurnRecord};

/// What an agent had seen; none where nobody has counted yet: at its creation, and in records from before anybody did.
type Seen = Option<Labels>;

#[derive(Default)]
struct Lives<'a> {
    /// How many turns each agent had taken, and what it had seen by then, as far as the bundle tells.
    now: BTreeMap<&'a AgentId, (u64, Option<Seen>)>,
    /// By agent and turn; 0 is how it began.
    left: BTreeMap<(&'a AgentId, u64), Seen>,
}

/// Holds each turn's judgement against what the turns before it left. Entries follow each other as they must, and every blob
/// is there: that was checked before.
pub(super) fn follow(entries: &[Entry], blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<(), BadBundle> {
    let mut lives = Lives::default();
    for entry in entries {
        lives.entry(&entry.body, blobs).map_err(|why| BadBundle::Whole(format!("entry {}: {why}", entry.seq)))?;
    }
    Ok(())
}

impl<'a> Lives<'a> {
    fn entry(&mut self, body: &'a Body, blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<(), String> {
        let (agent, turn, seen) = match body {
            Body::AgentCreated(it) => (&it.agent, 0, Some(None)),
            Body::AgentForked(it) => (&it.agent, 0, self.left.get(&(&it.from, it.turn)).cloned()),
            Body::AgentRolledBack(it) => {
                let seen = self.left.get(&(&it.agent, it.to)).cloned();
                self.now.insert(&it.agent, (it.taken, seen));
                return Ok(());
            }
            Body::Turn(turn) => {
                let before = before(turn, blobs)?;
                if let Some((taken, Some(seen))) = self.now.get(&turn.agent)
                    && taken + 1 == turn.turn
                    && !goes_on(seen, &before)
                {
                    return Err(format!("turn {} begins with other labels than the agent had", turn.turn));
                }
                let left = before.map(|before| labels::after(Some(&before), turn));
                (&turn.agent, turn.turn, Some(left))
            }
            _ => return Ok(()),
        };
        if let Some(seen) = &seen {
            self.left.insert((agent, turn), seen.clone());
        }
        self.now.insert(agent, (turn, seen));
        Ok(())
    }
}

/// Whether a turn can begin with this after that. Where nobody had counted, somebody may begin to, with nothing.
fn goes_on(seen: &Seen, before: &Seen) -> bool {
    match (seen, before) {
        (None, None) => true,
        (None, Some(before)) => before.is_empty(),
        (Some(_), None) => false,
        (Some(seen), Some(before)) => seen == before,
    }
}

/// What a turn's judgement says that the agent had seen before it. Only that is read of it here.
fn before(turn: &TurnRecord, blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<Seen, String> {
    let bad = |why: String| format!("judged {}: {why}", turn.judged);
    let bytes = blobs.get(&turn.judged).ok_or_else(|| bad("it is missing".into()))?;
    let judged: serde_json::Value = canonical::decode(bytes).map_err(|why| bad(why.to_string()))?;
    let Some(labels) = judged.get("labels") else { return Ok(None) };
    let listed: Vec<String> =
        serde_json::from_value(labels.clone()).map_err(|_| bad("its labels are malformed".into()))?;
    let ordered = listed.windows(2).all(|two| two[0] < two[1]);
    if ordered { Ok(Some(listed.into_iter().collect())) } else { Err(bad("its labels are malformed".into())) }
}

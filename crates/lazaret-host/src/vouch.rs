//! Whether an agent's row says what the journal says.

use lazaret_gate::Digest;
use lazaret_gate::entry::Entry;
use lazaret_gate::lineage::{BIRTHS, CHAINED};
use lazaret_gate::record::Body;
use lazaret_store::{AgentRow, AgentState};

use crate::error::HostError;
use crate::host::Host;

impl Host {
    /// An agent's row sums up what the journal says of it, and the journal is what is signed: an agent takes no turn on
    /// terms, or from an image, that its entries don't name, and none while they say that it is quarantined.
    pub(crate) fn vouched(&self, row: &AgentRow) -> Result<(), HostError> {
        let unlike = || HostError::Unvouched(row.agent.clone());
        let trail = self.store.trail(&row.agent)?;
        let last_of = |kinds: &[&str]| trail.iter().rev().find(|(_, kind, _)| kinds.contains(&kind.as_str()));
        let read = |kinds: &[&str]| -> Result<(Vec<u8>, Body), HostError> {
            let (seq, ..) = last_of(kinds).ok_or_else(unlike)?;
            let bytes = self.store.entry_bytes(*seq)?;
            let body = Entry::read(&bytes)?.body;
            Ok((bytes, body))
        };
        let (bytes, last) = read(&CHAINED)?;
        let (taken, image) = match &last {
            Body::Turn(it) => (it.turn, it.image_after),
            Body::AgentRolledBack(it) => (it.taken, Some(it.image)),
            body => (0, body.birth().ok_or_else(unlike)?.image),
        };
        let labels = match &last {
            Body::Turn(it) => self.labels_after(it)?,
            _ => self.labels_of(&row.agent)?,
        };
        let (_, first) = read(&BIRTHS)?;
        let birth = first.birth().ok_or_else(unlike)?;
        let caps = match read(&["caps-set"]) {
            Ok((_, Body::CapsSet(it))) => it.caps,
            Err(HostError::Unvouched(_)) => birth.caps.clone(),
            Err(why) => return Err(why),
            Ok(_) => return Err(unlike()),
        };
        let quarantined =
            last_of(&["agent-quarantined", "agent-woken"]).is_some_and(|(_, kind, _)| kind == "agent-quarantined");
        let same = birth.component == row.component
            && birth.world == row.world
            && birth.engine == row.engine
            && *birth.grants == row.grants
            && *birth.budget == row.budget
            && *birth.slots == row.slots
            && caps == row.caps
            && image == row.image
            && taken == row.turn
            && labels == row.labels
            && quarantined == (row.state == AgentState::Quarantined)
            && Digest::of(&bytes) == row.last_entry;
        if same { Ok(()) } else { Err(unlike()) }
    }
}

//! Following each agent's life through the entries of a bundle: how it began, its turns, and where it was put back to.

use std::collections::BTreeMap;

use super::BadBundle;
use crate::canonical::Digest;
use crate::entry::Entry;
use crate::id::AgentId;
use crate::lineage::Birth;
use crate::record::{AgentForked, AgentRolledBack, Body, Ending, TurnRecord, World};

/// A state that was taken from an earlier turn: a fork's first, or the one that an agent was rolled back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descent {
    /// The place in the journal of the entry that says so.
    pub seq: u64,
    /// Whose state it became.
    pub agent: AgentId,
    /// Whose turn had left it: another agent's for a fork, its own for a rollback.
    pub from: AgentId,
    /// Which turn; 0 is before the first.
    pub turn: u64,
    /// Whether the bundle has the entry of that turn, so that the image was shown to be the one it left.
    pub shown: bool,
}

/// What an agent was like after a turn, as an entry of the bundle says.
#[derive(Clone, Copy)]
struct Left {
    hash: Digest,
    image: Option<Digest>,
}

/// What is known of an agent while its entries are followed.
struct Known<'a> {
    birth: Birth<'a>,
    hash: Digest,
    last: Option<(&'a TurnRecord, Digest)>,
    /// Its last rollback since that turn.
    back: Option<(&'a AgentRolledBack, Digest)>,
    removed: bool,
    quarantined: bool,
}

impl Known<'_> {
    /// Turns taken, the last entry of its chain, and the image that its next turn wakes from: as far as the bundle tells.
    fn now(&self) -> (u64, Digest, Option<Digest>) {
        match (self.back, self.last) {
            (Some((back, hash)), _) => (back.taken, hash, Some(back.image)),
            (None, Some((last, hash))) => (last.turn, hash, last.image_after),
            (None, None) => (0, self.hash, self.birth.image),
        }
    }
}

/// All agents of a bundle.
#[derive(Default)]
struct Lives<'a> {
    agents: BTreeMap<&'a AgentId, Known<'a>>,
    /// By agent and turn; 0 is how it began.
    left: BTreeMap<(&'a AgentId, u64), Left>,
    descents: Vec<Descent>,
}

/// Follows all entries after the first, each with its hash.
pub(super) fn follow(entries: &[Entry], hashes: &[Digest]) -> Result<Vec<Descent>, BadBundle> {
    let mut lives = Lives::default();
    for (entry, hash) in entries.iter().zip(hashes).skip(1) {
        lives.entry(entry, *hash).map_err(|why| BadBundle::Whole(format!("entry {}: {why}", entry.seq)))?;
    }
    for Descent { seq, from, turn, .. } in lives.descents.iter().filter(|descent| !descent.shown) {
        if lives.left.contains_key(&(from, *turn)) {
            return Err(BadBundle::Whole(format!("entry {seq}: turn {turn} of `{from}` comes after it")));
        }
    }
    Ok(lives.descents)
}

impl<'a> Lives<'a> {
    fn entry(&mut self, entry: &'a Entry, hash: Digest) -> Result<(), String> {
        if let Some(birth) = entry.body.birth() {
            let known = Known { birth, hash, last: None, back: None, removed: false, quarantined: false };
            if birth.image.is_some() != (birth.world == World::Durable) {
                return Err("a durable agent has an image, another has none".into());
            }
            if let Some(lacking) = birth.slots.grants().find(|wanted| !birth.grants.iter().any(|grant| grant == wanted))
            {
                return Err(format!("it declares a slot and isn't granted `{lacking}`"));
            }
            if self.agents.insert(birth.agent, known).is_some() {
                return Err(format!("agent `{}` is created twice", birth.agent));
            }
            self.left.insert((birth.agent, 0), Left { hash, image: birth.image });
        }
        match &entry.body {
            Body::Genesis(_) => return Err("a second beginning".into()),
            Body::AgentForked(fork) => self.forked(entry.seq, fork)?,
            Body::AgentRolledBack(back) => self.rolled_back(entry.seq, back, hash)?,
            Body::Turn(turn) => {
                let known = self.agents.get_mut(&turn.agent).ok_or("its agent's creation is missing")?;
                check_turn(known, turn)?;
                (known.last, known.back) = (Some((&**turn, hash)), None);
                self.left.insert((&turn.agent, turn.turn), Left { hash, image: turn.image_after });
            }
            Body::AgentRemoved(_) | Body::AgentQuarantined(_) | Body::AgentWoken(_) => {
                if let Some(known) = entry.body.agent().and_then(|agent| self.agents.get_mut(agent)) {
                    known.removed |= matches!(entry.body, Body::AgentRemoved(_));
                    known.quarantined = matches!(entry.body, Body::AgentQuarantined(_));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A fork runs what its source runs, under the same terms, and begins where that turn ended. Its image is compared with
    /// that turn's later, among the blobs.
    fn forked(&mut self, seq: u64, fork: &'a AgentForked) -> Result<(), String> {
        if fork.from == fork.agent {
            return Err(format!("agent `{}` is made from itself", fork.agent));
        }
        if let Some(Known { birth: source, .. }) = self.agents.get(&fork.from) {
            let same_terms = fork.component == source.component
                && fork.world == source.world
                && fork.engine == source.engine
                && fork.grants == *source.grants
                && fork.slots == *source.slots
                && fork.budget == *source.budget;
            if !same_terms {
                return Err("the fork's component, world, engine, grants, slots or budget are not its source's".into());
            }
        }
        let left = self.left.get(&(&fork.from, fork.turn));
        if left.is_some_and(|left| left.hash != fork.entry) {
            return Err(format!("turn {} of `{}` is another entry than the one that it names", fork.turn, fork.from));
        }
        let (agent, from) = (fork.agent.clone(), fork.from.clone());
        self.descents.push(Descent { seq, agent, from, turn: fork.turn, shown: left.is_some() });
        Ok(())
    }

    fn rolled_back(&mut self, seq: u64, back: &'a AgentRolledBack, hash: Digest) -> Result<(), String> {
        let known = self.agents.get_mut(&back.agent).ok_or("its agent's creation is missing")?;
        if known.removed {
            return Err("its agent was removed before it".into());
        }
        if known.birth.world == World::Stateless {
            return Err("a stateless agent has no image to go back to".into());
        }
        let (taken, previous, _) = known.now();
        let follows = back.taken > taken || (back.taken == taken && back.previous == previous);
        if back.to > back.taken || !follows {
            return Err(format!("the rollback to turn {} doesn't follow the agent's turn before it", back.to));
        }
        let left = self.left.get(&(&back.agent, back.to));
        if left.is_some_and(|left| left.hash != back.entry || left.image != Some(back.image)) {
            return Err(format!("turn {} of `{}` left another image than the one it names", back.to, back.agent));
        }
        known.back = Some((back, hash));
        let (agent, from) = (back.agent.clone(), back.agent.clone());
        self.descents.push(Descent { seq, agent, from, turn: back.to, shown: left.is_some() });
        Ok(())
    }
}

/// A turn must be of the agent that was created, under the same terms, and follow that agent's last turn, or its rollback if
/// there was one since.
fn check_turn(known: &Known<'_>, turn: &TurnRecord) -> Result<(), String> {
    let birth = known.birth;
    let same_terms = turn.component == birth.component
        && turn.engine == birth.engine
        && turn.grants == *birth.grants
        && turn.budget == *birth.budget;
    if !same_terms {
        return Err("the turn's component, engine, grants or budget are not the agent's".into());
    }
    if known.removed {
        return Err("its agent was removed before it".into());
    }
    if known.quarantined {
        return Err("its agent was quarantined before it, and not woken".into());
    }
    let durable = birth.world == World::Durable;
    if turn.image_before.is_some() != durable || turn.image_after.is_some() != durable {
        return Err("a durable agent's turn has images, another has none".into());
    }
    if !matches!(turn.ending, Ending::Replied(_)) && turn.image_after != turn.image_before {
        return Err("the turn didn't end well, and yet its image is kept".into());
    }
    let (taken, previous, image) = known.now();
    let follows = match turn.turn.checked_sub(taken) {
        None | Some(0) => false,
        Some(1) => turn.previous == previous && turn.image_before == image,
        // Turns were left out between.
        Some(_) => true,
    };
    if follows { Ok(()) } else { Err(format!("turn {} doesn't follow the agent's turn before it", turn.turn)) }
}

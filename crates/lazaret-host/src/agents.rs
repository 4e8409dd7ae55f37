//! Making agents, and removing them.

use std::sync::Arc;

use lazaret_gate::grant::EgressMode;
use lazaret_gate::image::Image;
use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{AgentCreated, AgentRemoved, Body, CapsSet, EffectClosed, Message, World};
use lazaret_gate::{AgentId, Blob, Budget, Digest, Grants, Labels, Outcome, Slots};
use lazaret_guest::State;
use lazaret_store::{AgentRow, AgentState, Batch, Change, StoreError};

use crate::error::HostError;
use crate::host::{Host, lock};

/// What a new agent is given.
#[derive(Clone, Debug)]
pub struct NewAgent {
    /// Its name.
    pub agent: AgentId,
    /// What it may ask for.
    pub grants: Grants,
    /// What each turn may cost.
    pub budget: Budget,
    /// What it may spend beyond one turn.
    pub caps: Caps,
    /// The slots that its author declares. Each is granted with it.
    pub slots: Slots,
}

impl Host {
    /// Admits a component and makes an agent of it.
    pub fn create(&self, new: NewAgent, component: &[u8]) -> Result<AgentRow, HostError> {
        new.budget.check()?;
        new.caps.check()?;
        // Said before anything is compiled for it, and before anybody waits for the turn of the one that has it.
        if self.store.agent(&new.agent)?.is_some() {
            return Err(StoreError::NameTaken { agent: new.agent }.into());
        }
        self.preflight(&new.grants)?;
        let program = self.admit(component)?;
        let digest = program.digest();
        let mut changes = Vec::new();
        let image = match program.lives() {
            World::Stateless => None,
            World::Durable => {
                let (image, state) = self.birth_image(&new.agent, &digest, &mut changes)?;
                let slot = self.slot(&new.agent);
                self.keep_warm(&mut lock(&slot), image, state);
                Some(image)
            }
        };
        let created = AgentCreated {
            agent: new.agent.clone(),
            component: digest,
            world: program.lives(),
            engine: self.engine.digest(),
            grants: new.grants.and(new.slots.grants()),
            budget: new.budget,
            caps: new.caps,
            slots: new.slots,
            image,
        };
        changes.push(Change::CreateAgent(Box::new(row_of(&created))));
        let mut entries = vec![Body::AgentCreated(created)];
        let start = self.station.rules.now().0.start();
        self.trust_at_birth(&new.agent, start, &mut entries, &mut changes);
        self.store.commit(Batch { entries, changes })?;
        self.known(&new.agent).map(Arc::unwrap_or_clone)
    }

    /// Looks granted hosts up and checks where they lead, for an agent whose requests won't be checked.
    pub(crate) fn preflight(&self, grants: &Grants) -> Result<(), HostError> {
        if grants.egress() != EgressMode::Preflight {
            return Ok(());
        }
        for origin in grants.origins() {
            let failed = |why: String| HostError::Preflight { origin: origin.to_string(), why };
            let target = origin.target().map_err(|why| failed(why.to_string()))?;
            let found = self.egress.look_up(&target, &grants.strict_destinations(&target));
            found.map_err(|why| failed(why.to_string()))?;
        }
        Ok(())
    }

    /// The image an agent of this component begins with.
    fn birth_image(
        &self,
        agent: &AgentId,
        component: &Digest,
        changes: &mut Vec<Change>,
    ) -> Result<(Digest, State), HostError> {
        let birth = self.program(component)?.birth()?;
        let mut state = State::default();
        let sealed = state.advance(&birth);
        let image = Image {
            agent: agent.clone(),
            component: *component,
            engine: self.engine.digest(),
            turn: 0,
            memories: sealed.memories,
            globals: sealed.globals,
        };
        let image = Blob::of_value(&image)?;
        let digest = image.digest();
        changes.extend(sealed.blobs.into_iter().chain([image]).map(Change::Blob));
        state.settle(birth)?;
        Ok((digest, state))
    }

    /// An agent that exists.
    pub fn known(&self, agent: &AgentId) -> Result<Arc<AgentRow>, HostError> {
        let row = self.store.agent(agent)?.ok_or_else(|| HostError::NoAgent(agent.to_string()))?;
        if row.state == AgentState::Removed { Err(HostError::Removed(agent.clone())) } else { Ok(row) }
    }

    /// Changes what an agent may spend beyond one turn.
    pub fn set_caps(&self, agent: &AgentId, caps: Caps) -> Result<(), HostError> {
        caps.check()?;
        let slot = self.slot(agent);
        let _turn = lock(&slot);
        self.known(agent)?;
        let entry = Body::CapsSet(CapsSet { agent: agent.clone(), caps: caps.clone() });
        let changes = vec![Change::SetCaps { agent: agent.clone(), caps: Box::new(caps) }];
        self.store.commit(Batch { entries: vec![entry], changes })?;
        Ok(())
    }

    /// Removes an agent: its storage and mailbox go, its records stay.
    pub fn remove(&self, agent: &AgentId) -> Result<(), HostError> {
        // Not in the middle of its turn.
        let slot = self.slot(agent);
        let mut slot = lock(&slot);
        self.known(agent)?;
        let entry = Body::AgentRemoved(AgentRemoved { agent: agent.clone() });
        let changes = vec![Change::RemoveAgent { agent: agent.clone() }];
        self.store.commit(Batch { entries: vec![entry], changes })?;
        self.take_warm(&mut slot);
        Ok(())
    }

    /// Puts a message into an agent's mailbox for a later turn.
    pub fn post(&self, agent: &AgentId, message: Message) -> Result<(), HostError> {
        self.enqueue(agent, message).map(drop)
    }

    /// A person says that an effect in doubt did not happen, or that its outcome is lost: the agent is told that it failed,
    /// and its turn goes on at the next start.
    pub fn settle(&self, agent: &AgentId, word: &str) -> Result<(), HostError> {
        // Of two who settle it at once, one is too late.
        let slot = self.slot(agent);
        let _turn = lock(&slot);
        let row = self.known(agent)?;
        let Some(turn) = row.unfinished else { return Err(HostError::NotInDoubt(agent.clone())) };
        if !self.doubts(&row)? {
            return Err(HostError::NotInDoubt(agent.clone()));
        }
        let cut = self.cut_off(agent, turn)?;
        let Some((number, _)) = cut.open else { return Err(HostError::NotInDoubt(agent.clone())) };
        let outcome = Outcome::Failed(format!("settled by a person: {word}"));
        let settled = Body::Settled(Box::new(EffectClosed { agent: agent.clone(), turn, number, outcome }));
        // A person may settle it while it is quarantined; waking it is another decision.
        let state = if row.state == AgentState::Quarantined { row.state } else { AgentState::Asleep };
        let changes = vec![Change::SetState { agent: agent.clone(), state }];
        self.store.commit(Batch { entries: vec![settled], changes })?;
        Ok(())
    }
}

/// The row that goes with an agent's first entry, which is the batch's only one.
fn row_of(created: &AgentCreated) -> lazaret_store::NewAgent {
    lazaret_store::NewAgent {
        agent: created.agent.clone(),
        component: created.component,
        world: created.world,
        engine: created.engine,
        grants: created.grants.clone(),
        budget: created.budget.clone(),
        caps: created.caps.clone(),
        slots: created.slots.clone(),
        image: created.image,
        labels: Labels::new(),
        entry: 0,
    }
}

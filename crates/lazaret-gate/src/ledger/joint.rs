//! Two accounts at once: the agent's and its app's. Both or none.

use super::account::{Account, NotOpen, Reservation, Settled};
use super::amounts::{Amounts, Ask, Point};
use super::caps::Caps;
use super::line::Crossing;
use super::short::Short;

/// A reservation on an agent's account and on its app's.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is reserved stays so until it is settled or released"]
pub struct Joint {
    /// On the agent's account.
    pub agent: Reservation,
    /// On the app's.
    pub app: Reservation,
}

/// Reserves on both accounts, or on none. The agent's caps are asked first.
pub fn reserve_both(
    (agent, agent_caps): (&mut Account, &Caps),
    (app, app_caps): (&mut Account, &Caps),
    ask: &Ask,
    at: &Point,
) -> Result<Joint, Short> {
    agent.admit(agent_caps, ask, at)?;
    app.admit(app_caps, ask, at)?;
    Ok(Joint { agent: agent.book(agent_caps, ask, at), app: app.book(app_caps, ask, at) })
}

impl Joint {
    /// The lines of both that reached a mark.
    pub fn crossings(&self) -> impl Iterator<Item = &Crossing> {
        self.agent.crossings().iter().chain(self.app.crossings())
    }

    /// Settles on both. If one of them isn't open, the other is settled all the same: it was used.
    pub fn settle(
        self,
        (agent, agent_caps): (&mut Account, &Caps),
        (app, app_caps): (&mut Account, &Caps),
        actual: &Amounts,
    ) -> Result<Settled, NotOpen> {
        let first = agent.settle(agent_caps, self.agent, actual);
        let second = app.settle(app_caps, self.app, actual);
        let (mut settled, more) = (first?, second?);
        settled.crossings.extend(more.crossings);
        settled.overdrawn.extend(more.overdrawn);
        Ok(settled)
    }

    /// Releases on both. If one of them isn't open, the other is released all the same.
    pub fn release(self, agent: &mut Account, app: &mut Account) -> Result<(), NotOpen> {
        let first = agent.release(self.agent);
        let second = app.release(self.app);
        first.and(second)
    }
}

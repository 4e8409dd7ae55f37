//! How far agents are trusted, and what that means for their turns.

use lazaret_gate::AgentId;
use lazaret_gate::record::{Body, Divergence, Ending, TurnRecord};
use lazaret_gate::trust::{self, Conduct, Revoked, Score, TrustChange, TrustEvent};
use lazaret_guest::Ran;
use lazaret_store::{AgentRow, Change};

use crate::error::HostError;
use crate::host::Host;
use crate::present::Esteem;
use crate::revocations::{InForce, conduct_of};

impl Host {
    /// That an agent is revoked at this moment; none if it isn't.
    pub fn revoked(&self, row: &AgentRow) -> Option<Revoked> {
        self.station.rules.standing(&row.agent, (row.revoked.as_ref(), None)).0
    }

    /// Looks whether rules, switches or revocations have changed, and puts into the journal what happened to them. A turn
    /// does so by itself; whoever keeps a data root open without taking turns calls this now and then.
    pub fn look(&self) -> Result<(), HostError> {
        self.station.rules.save();
        self.station.rules.switches();
        Ok(self.station.note()?)
    }

    /// Who is revoked at this moment, whatever file says so or can't be made to.
    pub fn in_force(&self) -> InForce {
        self.station.rules.in_force()
    }

    /// Puts on record that a replay found a turn not to be as recorded. A turn counts once, however often it is found.
    pub fn note_mismatch(&self, record: &TurnRecord, differs: &Divergence, by: &str) -> Result<(), HostError> {
        let row = self.store.agent(&record.agent)?.ok_or_else(|| HostError::NoAgent(record.agent.to_string()))?;
        self.station.rules.tell(TrustEvent {
            agent: record.agent.clone(),
            change: TrustChange::Mismatch,
            score: row.score(),
            by: by.to_owned(),
            at: crate::asking::now().moment.wall_ms,
            reason: differs.place.chars().take(200).collect(),
            turn: Some(record.turn),
        });
        Ok(self.station.note()?)
    }

    /// Whether an agent may take turns and messages.
    pub(crate) fn trusted(&self, row: &AgentRow) -> Result<(), HostError> {
        match self.revoked(row) {
            Some(revoked) => {
                let agent = row.agent.clone();
                Err(HostError::Revoked { why: revoked.say(&agent), remedy: revoked.remedy(&agent), agent })
            }
            None => {
                if row.revoked.is_some() {
                    self.station.rules.restored(row);
                }
                Ok(())
            }
        }
    }

    /// What a turn's rules are told of the agent.
    pub(crate) fn esteem(&self, row: &AgentRow) -> Result<Esteem, HostError> {
        Ok(Esteem { conduct: self.conduct(&row.agent, row.conduct)?, base: row.base })
    }

    /// The score that its conduct gives an agent, whether it is revoked or not.
    pub(crate) fn by_conduct(&self, row: &AgentRow) -> Result<Score, HostError> {
        let (_, base) = self.station.rules.standing(&row.agent, (None, row.base));
        Ok(trust::score(&self.conduct(&row.agent, row.conduct)?, base.unwrap_or(Score::START)))
    }

    /// How an agent has behaved: as its row says, or counted anew if the row is from before anybody counted.
    fn conduct(&self, agent: &AgentId, row: Option<Conduct>) -> Result<Conduct, HostError> {
        row.map_or_else(|| conduct_of(&self.store, agent), Ok)
    }

    /// What a turn adds to its agent's conduct, to be committed with it.
    pub(crate) fn behaved(
        &self,
        agent: &AgentId,
        row: Option<Conduct>,
        record: &TurnRecord,
    ) -> Result<Change, HostError> {
        let before = self.conduct(agent, row)?;
        Ok(Change::Behaved { agent: agent.clone(), before, more: Conduct::of_turn(record) })
    }

    /// A turn whose agent was revoked before it was over leaves nothing behind, even if the guest had just replied.
    pub(crate) fn unless_revoked(&self, agent: &AgentId, mut ran: Ran) -> Ran {
        if let (Ok(Ending::Replied(_)), Some(stop)) = (&ran.ending, self.station.revoked(agent)) {
            ran.ending = Ok(Ending::Stopped(stop));
            ran.change = None;
        }
        ran
    }

    /// A base that isn't the usual one is on record from the beginning, so that the journal alone tells the score.
    pub(crate) fn trust_at_birth(
        &self,
        agent: &AgentId,
        base: Score,
        entries: &mut Vec<Body>,
        changes: &mut Vec<Change>,
    ) {
        if base == Score::START {
            return;
        }
        let event = TrustEvent {
            agent: agent.clone(),
            change: TrustChange::Set,
            score: base,
            by: "the host".to_owned(),
            at: crate::asking::now().moment.wall_ms,
            reason: "what new agents begin with".to_owned(),
            turn: None,
        };
        entries.push(Body::TrustChanged(event.clone()));
        changes.push(Change::Trust(event));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test changes a file")]

    use lazaret_gate::record::{Cause, Reply, Stop};
    use lazaret_gate::{Effect, Halt, Outcome};
    use lazaret_guest::World;

    use super::*;

    struct Nowhere;

    impl World for Nowhere {
        fn ask(&mut self, _: Effect) -> Result<Outcome, Halt> {
            Err(Halt::Stopped("nothing can be asked".into()))
        }
    }

    #[test]
    fn a_reply_that_comes_after_the_revocation_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let host = Host::open(&root).unwrap();
        let agent: AgentId = "a".parse().unwrap();
        let ran = |ending: Ending| {
            let ran = Ran { ending: Ok(ending), fuel: 7, memory: 0, change: None, world: Box::new(Nowhere) };
            host.unless_revoked(&agent, ran).ending.unwrap()
        };
        let replied = || Ending::Replied(Reply { content_type: String::new(), body: "done".into() });
        let trapped = || Ending::Stopped(Stop { cause: Cause::Trap, detail: "x".into() });
        assert_eq!(ran(replied()), replied());
        std::fs::write(root.join("revocations.json"), r#"{"revoked": {"a": {}}}"#).unwrap();
        assert!(matches!(ran(replied()), Ending::Stopped(Stop { cause: Cause::Revoked, .. })));
        assert_eq!(ran(trapped()), trapped(), "it kept nothing anyway");
    }
}

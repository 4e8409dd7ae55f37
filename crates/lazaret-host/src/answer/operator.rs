//! What operators ask: how things are, budgets, switches, the journal, and to stop.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lazaret_gate::ledger::{Caps, Change as Turned, SwitchEvent};
use lazaret_gate::trust::{Revoked, Score, TrustChange, TrustEvent};
use lazaret_gate::{AgentId, Bytes};
use lazaret_link::limits::{MAX_NOTE, MAX_TROUBLES};
use lazaret_link::{
    BudgetRequest, Checkpoint, JournalRequest, KillRequest, Reply, ScheduleRequest, Status, Trouble, TrustRequest,
};
use lazaret_store::{AgentState, Batch, Change};

use super::Keeper;
use crate::asking::now;
use crate::error::HostError;
use crate::revocations::{self, change_trust};
use crate::switchboard::{self, set_switch};

/// The longest that a keeper can be told to wait for what is under way: a day, as long as a turn can last.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What is said of a stop whose file can't be written. That nothing else can be either goes without saying.
fn in_memory(file: &'static str, why: std::io::Error, recorded: Result<Reply, HostError>) -> HostError {
    let acting = recorded.err().filter(|why| matches!(why, HostError::StillActing { .. })).map(Box::new);
    HostError::InMemory { file, why, acting }
}

/// A reason or note as people write them.
pub(super) fn short(what: &'static str, text: &str) -> Result<(), HostError> {
    let len = text.len();
    if len > MAX_NOTE { Err(HostError::TooLong { what, len, most: MAX_NOTE }) } else { Ok(()) }
}

impl Keeper {
    pub(super) fn status(&self) -> Result<Reply, HostError> {
        let mut agents = self.host.store.agents_now()?;
        agents.retain(|row| row.state != AgentState::Removed);
        let (_, switches, problems) = self.host.rules();
        let troubles = self.supervisor().map(|supervisor| supervisor.status().troubles).unwrap_or_default();
        Ok(Reply::Status(Box::new(Status {
            program: concat!("lazaret ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            since: self.since,
            health: self.health(),
            agents: agents.len() as u64,
            in_doubt: agents.iter().filter(|row| row.state == AgentState::InDoubt).count() as u64,
            mail: agents.iter().map(|row| row.queued.len() as u64).sum(),
            // Not counting the one who asks.
            under_way: self.under_way().saturating_sub(1),
            journal: self.host.store.acknowledged(),
            switches,
            held: self.host.in_force().held().cloned().collect(),
            questions: self.host.approvals().pending()?.len() as u64,
            problems: problems.iter().map(ToString::to_string).collect(),
            unwritten: self.host.store.unwritten().map(|why| why.to_string()),
            troubled: troubles.len() as u64,
            troubles: troubles
                .into_iter()
                .take(MAX_TROUBLES)
                .map(|(agent, (why, again_ms))| Trouble { agent, why, again_ms })
                .collect(),
        })))
    }

    /// Looks at the files that others may have changed, and puts into the journal what happened to them. Whatever was stopped
    /// by that has stopped when this returns; if something can't be cut off, that is the error.
    pub(super) fn record(&self) -> Result<Reply, HostError> {
        self.heeded(|| self.host.station.settle())
    }

    /// The same, and `settle` waits for what was stopped.
    fn heeded(&self, settle: impl FnOnce() -> Result<(), HostError>) -> Result<Reply, HostError> {
        let (_, switches, _) = self.host.rules();
        // Also if it can't be put on record: it is in force.
        let noted = self.host.station.note();
        if let Some(supervisor) = self.supervisor() {
            supervisor.heed_switches();
        }
        let settled = settle();
        let nudged = self.nudge_changed();
        // What may still happen is what whoever stops something has to know first.
        settled?;
        noted?;
        nudged?;
        Ok(Reply::Switches(switches))
    }

    /// Looks whether somebody has changed rules, switches or revocations by hand, and puts that on record. What it means for
    /// agents is heeded at once.
    pub fn look(&self) -> Result<(), HostError> {
        let noted = self.host.look();
        // A turn may have looked before, and put it on record.
        let changes = self.host.station.rules.changes();
        if self.heeded.swap(changes, Ordering::SeqCst) != changes {
            if let Some(supervisor) = self.supervisor() {
                supervisor.heed_switches();
            }
            self.nudge_changed()?;
        }
        noted
    }

    pub(super) fn stop_within(&self, within_ms: u64) -> Result<Reply, HostError> {
        let surroundings = self.surroundings.as_ref().ok_or(HostError::Unserved("stop"))?;
        self.stop();
        let under_way = self.under_way().saturating_sub(1);
        surroundings.stop(Duration::from_millis(within_ms).min(LONGEST));
        Ok(Reply::Stopping { under_way })
    }

    pub(super) fn budget(&self, request: BudgetRequest) -> Result<Reply, HostError> {
        let BudgetRequest::Set { agent, caps } = request;
        let mut changed = self.host.known(&agent)?.caps.clone();
        set_caps(&mut changed, &caps)?;
        self.host.set_caps(&agent, changed)?;
        Ok(Reply::Caps(Box::new(self.host.known(&agent)?.caps.clone())))
    }

    pub(super) fn kill(&self, request: KillRequest) -> Result<Reply, HostError> {
        let KillRequest { switch, lift, by, reason } = request;
        short("a name", &by)?;
        short("a reason", &reason)?;
        let change = if lift { Turned::Lifted } else { Turned::Thrown };
        let event = SwitchEvent { switch, change, by, at: now().moment.wall_ms, reason };
        let rules = &self.host.station.rules;
        let was_thrown = rules.switches().thrown(switch).is_some();
        // To lift what isn't thrown is no event.
        if lift && !was_thrown {
            return self.record();
        }
        if lift {
            // If it can be: what was held until now is told of first.
            rules.save();
        }
        match set_switch(&self.host.root, &event) {
            // Nobody goes on because a disk is full.
            Err(HostError::Unsaved { why, .. }) if !lift && !was_thrown => {
                rules.hold_switch(&event);
                Err(in_memory(switchboard::FILE, why, self.record()))
            }
            // It is in force now; the journal is told by whoever comes first.
            written => written.and_then(|_| self.record()),
        }
    }

    pub(super) fn trust(&self, request: TrustRequest) -> Result<Reply, HostError> {
        let (agent, by, reason, change, score) = match request {
            TrustRequest::Revoke { agent, by, reason } => (agent, by, reason, TrustChange::Revoked, Some(Score::NONE)),
            TrustRequest::Restore { agent, by, reason } => (agent, by, reason, TrustChange::Restored, None),
            TrustRequest::Set { agent, score, by, reason } => (agent, by, reason, TrustChange::Set, Some(score)),
        };
        short("a name", &by)?;
        short("a reason", &reason)?;
        let row = self.host.known(&agent)?;
        let was_revoked = self.host.revoked(&row).is_some();
        if change == TrustChange::Restored && !was_revoked {
            // To restore whoever isn't revoked is no event; to have done so by hand is one.
            self.record()?;
            self.nudge(&agent);
            return Ok(Reply::Done);
        }
        let (score, at) = (score.map_or_else(|| self.host.by_conduct(&row), Ok)?, now().moment.wall_ms);
        let event = TrustEvent { agent: agent.clone(), change, score, by, at, reason, turn: None };
        if change == TrustChange::Restored {
            // If it can be: what was held until now is told of first.
            self.host.station.rules.save();
        }
        let written = change_trust(&self.host.root, &self.host.store, std::slice::from_ref(&event));
        let answer = match written {
            // Nobody goes on because a disk is full.
            Err(HostError::Unsaved { why, .. }) if change == TrustChange::Revoked && !was_revoked => {
                let TrustEvent { by, at, reason, .. } = event;
                self.host.station.rules.hold_revocation(&agent, Revoked { by, at, reason });
                // What was approved for it before doesn't come back with it.
                self.host.station.approvals.end_agent(&agent);
                Err(in_memory(revocations::FILE, why, self.stopped(&agent)))
            }
            // It is in force now; the journal is told by whoever comes first.
            written => written.and_then(|()| self.stopped(&agent)).map(|_| Reply::Done),
        };
        self.nudge(&agent);
        answer
    }

    /// As [`Self::record`], and nobody waits for other agents.
    fn stopped(&self, agent: &AgentId) -> Result<Reply, HostError> {
        self.heeded(|| self.host.station.settle_of(agent))
    }

    pub(super) fn schedule(&self, request: ScheduleRequest) -> Result<Reply, HostError> {
        match request {
            ScheduleRequest::Add(added) => {
                short("a name", &added.by)?;
                let agent = added.agent.clone();
                let next = self.host.add_schedule(*added)?;
                self.nudge(&agent);
                Ok(Reply::Scheduled { next })
            }
            ScheduleRequest::Remove { agent, schedule, by, reason } => {
                short("a name", &by)?;
                short("a reason", &reason)?;
                self.host.remove_schedule(&agent, &schedule, &by, &reason)?;
                self.nudge(&agent);
                Ok(Reply::Done)
            }
        }
    }

    pub(super) fn journal(&self, request: JournalRequest) -> Result<Reply, HostError> {
        let JournalRequest::Checkpoint = request;
        self.host.store.commit(Batch { entries: Vec::new(), changes: vec![Change::Checkpoint] })?;
        let (checkpoint, note) = self.host.store.head()?;
        let root = Bytes(checkpoint.root.to_vec());
        Ok(Reply::Checkpoint(Checkpoint { size: checkpoint.size, root, note }))
    }
}

/// Changes caps by `CAP=VALUE` each.
fn set_caps(caps: &mut Caps, pairs: &[String]) -> Result<(), HostError> {
    // The currency first: an amount of money means nothing without one.
    let (first, rest): (Vec<_>, Vec<_>) = pairs.iter().partition(|pair| pair.starts_with("currency="));
    for pair in first.into_iter().chain(rest) {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| HostError::BadCap(format!("`{pair}` is not CAP=VALUE")))?;
        caps.set(key, value).map_err(|why| HostError::BadCap(why.to_string()))?;
    }
    Ok(())
}

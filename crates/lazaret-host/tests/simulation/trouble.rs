//! Operators and faults: what goes wrong, and how it is set right.

use lazaret_gate::AgentId;
use lazaret_host::schedule::Timetable;
use lazaret_host::supervisor::core::{Core, Event};

use super::{Doing, Verdict, World};
use crate::disk::Agent;

impl World {
    pub(super) fn operator(&mut self) -> Verdict {
        if self.healing {
            return Ok(());
        }
        let after = 500 + self.dice.below(20_000);
        self.plan(after, Doing::Operator);
        let agent = self.someone();
        let what = self.dice.below(12);
        let it = self.disk.agent(&agent);
        match what {
            0 | 1 => {
                self.revocations += u64::from(!it.revoked);
                it.revoked = true;
            }
            2..=4 => it.revoked = false,
            5 => it.quarantined = true,
            6..=8 => (it.quarantined, it.streak) = (false, 0),
            9 | 10 => it.in_doubt = settle(it),
            _ if self.dice.below(8) == 0 => {
                it.removed = true;
                it.mail.clear();
                it.begun = None;
                it.schedules.clear();
            }
            _ => {}
        }
        self.tell(|| format!("operator {what} on `{agent}`"));
        // The supervisor hears of it at once, or a little later.
        let late = if self.dice.below(4) == 0 { self.dice.below(200) } else { 0 };
        if late == 0 {
            return self.look(&agent);
        }
        self.plan(late, Doing::Nudge(agent));
        Ok(())
    }

    pub(super) fn fault(&mut self) -> Verdict {
        if self.healing {
            return Ok(());
        }
        let after = 1_000 + self.dice.below(30_000);
        self.plan(after, Doing::Fault);
        match self.dice.below(9) {
            0..=3 => self.crash(),
            4 if self.core.is_none() => Ok(()),
            4 => {
                self.tell(|| "the keeper drains".into());
                self.watch.drained();
                self.hear(Event::Drain)
            }
            5 => self.hold(true),
            6 => self.hold(false),
            7 => {
                self.tell(|| "the disk is full".into());
                self.full += u64::from(!self.disk.full);
                self.disk.full = true;
                Ok(())
            }
            _ => {
                self.tell(|| "there is room on the disk".into());
                self.disk.full = false;
                Ok(())
            }
        }
    }

    pub(super) fn hold(&mut self, held: bool) -> Verdict {
        self.disk.stopped = held;
        self.watch.held(held);
        self.hear(Event::Hold(held))
    }

    /// The power fails. Of the writes that are in line some are on disk, and nobody was told.
    pub(super) fn crash(&mut self) -> Verdict {
        if self.core.take().is_none() {
            return Ok(());
        }
        self.crashes += 1;
        let many = self.dice.below(self.line.len() as u64 + 1) as usize;
        self.tell(|| format!("crash: {many} writes made it"));
        for (write, _) in self.line.drain(..).take(many).collect::<Vec<_>>() {
            if !self.disk.full {
                self.disk.apply(&write)?;
            }
        }
        self.doings.retain(|_, doing| !matches!(doing, Doing::Written | Doing::Step(_) | Doing::Nudge(_)));
        self.flights.clear();
        self.table = Timetable::default();
        self.watch.crashed();
        let down = [100, 5_000, 100_000][self.dice.below(3) as usize];
        let after = self.dice.below(down);
        self.plan(after, Doing::Restart);
        Ok(())
    }

    /// Everything that was wrong is set right.
    pub(super) fn heal(&mut self) -> Verdict {
        self.tell(|| "healing".into());
        (self.healing, self.disk.full) = (true, false);
        self.hold(false)?;
        if self.core.as_ref().is_none_or(Core::is_draining) {
            self.crash()?;
            self.doings.retain(|_, doing| !matches!(doing, Doing::Restart));
            self.start()?;
        }
        self.start()?;
        let agents: Vec<AgentId> = self.disk.agents.keys().cloned().collect();
        for agent in agents {
            let it = self.disk.agent(&agent);
            (it.revoked, it.quarantined, it.streak) = (false, false, 0);
            it.in_doubt = settle(it);
            self.look(&agent)?;
        }
        // What was in line when the disk was healed may still quarantine or bring into doubt.
        for again in [5_000, 60_000] {
            self.plan(again, Doing::Restart);
        }
        Ok(())
    }
}

/// A person says how the effect ended: the turn goes on from there.
fn settle(it: &mut Agent) -> bool {
    if let Some(begun) = it.begun.as_mut().filter(|_| it.in_doubt) {
        begun.idempotent = true;
    }
    false
}

//! The circumstances of a turn that is happening: the rules in force, the clocks, and the people who can be asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_exec::{Recorded, Then};
use lazaret_gate::ledger::{Point, Switch, Thrown};
use lazaret_gate::policy::Facts;
use lazaret_gate::record::{Body, Cause, RulebookInForce, Stop};
use lazaret_gate::ruling::Asked;
use lazaret_gate::stages::Matter;
use lazaret_gate::trust::{self, Conduct, Score, TrustChange};
use lazaret_gate::{AgentId, Blob, Circumstance, Circumstances, Digest, Halt, Rulebook};
use lazaret_store::{Batch, Change, Store, StoreError};

use crate::acts::Acts;
use crate::asking::{self, Approvals, Asking, Person};
use crate::books;
use crate::error::HostError;
use crate::limits::SETTLE_MS;
use crate::promises::Promises;
use crate::rules::Rules;
use crate::seats::{Seat, Seats};

/// How a guest's code is confined: WebAssembly.
const TIER: &str = "A";

/// The day that is spent on: days since 1970, UTC.
pub(crate) fn today() -> u32 {
    u32::try_from(asking::now().moment.wall_ms / 86_400_000).unwrap_or(u32::MAX)
}

/// What every turn of a host shares.
#[derive(Clone)]
pub(crate) struct Station {
    pub(crate) rules: Arc<Rules>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) person: Option<Arc<dyn Person>>,
    pub(crate) patience_ms: u64,
    pub(crate) store: Arc<Store>,
    pub(crate) promises: Arc<Promises>,
    pub(crate) acts: Arc<Acts>,
    pub(crate) seats: Arc<Seats>,
}

type FindBook = Box<dyn FnMut(&Digest) -> Result<Arc<Rulebook>, String> + Send>;

/// One turn's circumstances.
pub(crate) struct Present {
    station: Station,
    agent: AgentId,
    run: String,
    esteem: Esteem,
    /// How far the turn had come when it was cut off: up to there, things are as they were.
    before: Then<FindBook>,
    known: usize,
    waited: Duration,
    seat: Arc<Seat>,
    /// Somebody was asked in this turn.
    asked: bool,
}

/// What is known of an agent's trust when its turn begins. An operator may set another base in the middle of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Esteem {
    pub(crate) conduct: Conduct,
    pub(crate) base: Option<Score>,
}

impl Drop for Present {
    /// The run is over, and with it what was approved for it.
    fn drop(&mut self) {
        if self.asked {
            self.station.approvals.end_run(&self.run);
        }
    }
}

impl Station {
    /// The circumstances of a turn that goes on after `known`.
    pub(crate) fn present(
        &self,
        agent: &AgentId,
        turn: u64,
        esteem: Esteem,
        known: Recorded,
        seat: Arc<Seat>,
    ) -> Present {
        let station = self.clone();
        let find: FindBook = Box::new(move |digest| station.rulebook(digest));
        Present {
            station: self.clone(),
            agent: agent.clone(),
            run: format!("{agent}-{turn}"),
            esteem,
            known: known.len(),
            before: Then::new(known, find),
            waited: Duration::ZERO,
            seat,
            asked: false,
        }
    }

    /// A rulebook by its digest: the one in force, or one that was.
    pub(crate) fn rulebook(&self, digest: &Digest) -> Result<Arc<Rulebook>, String> {
        // Which one it has to be is known: nothing is looked at again.
        let book = self.rules.last();
        if book.digest() == *digest {
            return Ok(book);
        }
        let bytes = self.store.blob(digest).map_err(|why| why.to_string())?;
        books::read(&bytes).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    /// Puts into the journal what happened to the rules and isn't there yet.
    pub(crate) fn note(&self) -> Result<(), StoreError> {
        let news = self.rules.news();
        let (mut entries, mut changes) = (Vec::new(), Vec::new());
        if let Some(book) = &news.book {
            let files = book.files().map(str::to_owned).collect();
            entries.push(Body::RulebookInForce(RulebookInForce { rulebook: book.digest(), files }));
            changes.push(Change::Blob(Blob::of(book.bytes())));
        }
        entries.extend(news.events.iter().cloned().map(Body::SwitchChanged));
        entries.extend(news.trust.iter().cloned().map(Body::TrustChanged));
        changes.extend(news.trust.iter().cloned().map(Change::Trust));
        if entries.is_empty() {
            return Ok(());
        }
        let written = self.store.commit(Batch { entries, changes });
        if written.is_err() {
            self.rules.unwritten(news);
            return written.map(|_| ());
        }
        // What was approved for an agent before it was revoked doesn't come back with it.
        let revoked = news.trust.iter().filter(|event| event.change == TrustChange::Revoked);
        revoked.for_each(|event| self.approvals.end_agent(&event.agent));
        Ok(())
    }

    /// Why everything has to stop, if it has to.
    pub(crate) fn stopped(&self) -> Option<String> {
        let switches = self.rules.switches();
        let said = |thrown: &Thrown| thrown.say(Switch::All);
        switches.all.as_ref().map(|thrown| format!("{}; `lazaret kill --lift all` lets agents go on", said(thrown)))
    }

    /// Why an agent's turn has to stop, if it has to.
    fn stop(&self, agent: &AgentId) -> Option<Stop> {
        if let Some(detail) = self.stopped() {
            return Some(Stop { cause: Cause::Killed, detail });
        }
        self.revoked(agent)
    }

    /// That an agent's turn has to stop because the agent is revoked.
    pub(crate) fn revoked(&self, agent: &AgentId) -> Option<Stop> {
        let revoked = self.rules.standing(agent, (None, None)).0?;
        let detail = format!("{}; {}", revoked.say(agent), revoked.remedy(agent));
        Some(Stop { cause: Cause::Revoked, detail })
    }

    /// Waits until nothing is under way any more of what is stopped: from there on no effect of it happens. An error if something
    /// can't be cut off in time.
    pub(crate) fn settle(&self) -> Result<(), HostError> {
        // Looked at before anything is waited for: whoever acts later sees what is seen here.
        let all = self.rules.switches().all.is_some();
        let stopped = |agent: &AgentId| all || self.rules.standing(agent, (None, None)).0.is_some();
        self.settle_all(stopped)
    }

    /// The same of one agent.
    pub(crate) fn settle_of(&self, agent: &AgentId) -> Result<(), HostError> {
        let is_stopped = self.stop(agent).is_some();
        self.settle_all(|other| is_stopped && other == agent)
    }

    fn settle_all(&self, stopped: impl Fn(&AgentId) -> bool) -> Result<(), HostError> {
        let agents = self.acts.settle(stopped, Duration::from_millis(SETTLE_MS));
        if agents.is_empty() { Ok(()) } else { Err(HostError::StillActing { agents }) }
    }

    /// What holds now. A rulebook that is new is in the journal before anything is judged by it.
    fn now(&self, agent: &AgentId, run: &str, esteem: Esteem) -> Result<Circumstance, Halt> {
        let (book, switches, (revoked, base)) = self.rules.now_of(agent, esteem.base);
        let trust = match &revoked {
            Some(_) => Score::NONE,
            None => trust::score(&esteem.conduct, base.unwrap_or(Score::START)),
        };
        self.note().map_err(|why| Halt::Unwritten(why.to_string()))?;
        // To the second: a thousand asks of one turn are then judged in the same circumstances.
        let time = asking::now().moment.wall_ms / 1000 * 1000;
        let (run, tier, trust) = (run.to_owned(), TIER.to_owned(), Some(trust));
        let facts = Facts { run, tier, time, trust, ..Facts::default() };
        Ok(Circumstance { rulebook: book.digest(), facts, switches, revoked })
    }
}

impl Present {
    /// The day, run and turn that spending is booked on.
    pub(crate) fn point(&self) -> Point {
        Point { day: today(), run: self.run.clone(), turn: self.run.clone() }
    }

    /// How long people were waited for: that is not the guest's time.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Why the turn has to stop, if it has to.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.station.stop(&self.agent)
    }
}

impl Circumstances for Present {
    fn now(&mut self, number: u32) -> Result<Circumstance, Halt> {
        if (number as usize) < self.known {
            self.before.now(number)
        } else {
            self.station.now(&self.agent, &self.run, self.esteem)
        }
    }

    fn rulebook(&mut self, digest: &Digest) -> Result<Arc<Rulebook>, Halt> {
        self.before.rulebook(digest)
    }

    fn ask(&mut self, number: u32, matter: Matter<'_>, under: &Circumstance) -> Result<Asked, Halt> {
        if (number as usize) < self.known {
            return self.before.ask(number, matter, under);
        }
        #[expect(clippy::disallowed_methods, reason = "waiting for a person is measured on a real clock")]
        let begun = Instant::now();
        let asking = Asking {
            agent: &self.agent,
            matter,
            under,
            present: self.station.person.as_deref(),
            patience_ms: self.station.patience_ms,
        };
        let mut unread = None;
        let mut then = || match self.station.now(&self.agent, &self.run, self.esteem) {
            Ok(now) => now,
            Err(halt) => {
                unread = Some(halt);
                under.clone()
            }
        };
        let over = || self.station.rules.halted(&self.agent, matter.effect).is_some();
        self.asked = true;
        self.seat.leave();
        let asked = self.station.approvals.ask(&asking, &mut then, &over);
        #[expect(clippy::disallowed_methods, reason = "waiting for a person is measured on a real clock")]
        let waited = begun.elapsed();
        self.waited += waited;
        match unread {
            Some(halt) => Err(halt),
            None => asked,
        }
    }
}

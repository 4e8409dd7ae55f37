//! The life of an effect: the whole security model, top to bottom.

use std::sync::Arc;

use crate::budget::{Budget, Meter};
use crate::canonical::Digest;
use crate::effect::Effect;
use crate::grant::Grants;
use crate::id::AgentId;
use crate::labels::{self, Labels};
use crate::ledger::{Amounts, Reservation};
use crate::outcome::{Answer, Outcome};
use crate::policy::{Facts, Who};
use crate::record::Divergence;
use crate::refusal::{Code, Refusal};
use crate::response::ResponseLimit;
use crate::rulebook::Rulebook;
use crate::ruling::{Asked, Circumstance, Ruling};
use crate::stages::{self, Matter, Permit, Purse};

/// Who asks, with what it was granted and what it has used.
pub struct Caller<'a> {
    /// Which agent.
    pub agent: &'a AgentId,
    /// As rules speak of it.
    pub who: &'a Who,
    /// What the agent was granted.
    pub grants: &'a Grants,
    /// The turn's caps.
    pub budget: &'a Budget,
    /// What the turn has used.
    pub meter: &'a mut Meter,
    /// What outlives the turn.
    pub purse: Purse<'a>,
    /// What the agent has seen by now, to which the gate adds; none in a replay of a turn from before labels were counted.
    pub labels: Option<&'a mut Labels>,
}

impl Caller<'_> {
    /// Puts in what the gate itself has counted. Nobody else's word is taken for it, also not a record's.
    fn counted(&self, facts: &mut Facts) {
        facts.spent = self.purse.spent_today();
        facts.labels = self.labels.as_deref().cloned().unwrap_or_default();
    }

    /// Marks the agent with the labels of what it is about to be told.
    fn sees(&mut self, effect: &Effect, outcome: &Outcome) {
        if let Some(labels) = &mut self.labels {
            labels.extend(labels::added(effect, outcome, self.grants));
        }
    }
}

/// What the gate is told of the moment in which it decides, and whom it can ask. Live, the host tells it; in a replay, the
/// record does.
pub trait Circumstances {
    /// What holds now, for this ask.
    fn now(&mut self, number: u32) -> Result<Circumstance, Halt>;

    /// The rulebook with this digest.
    fn rulebook(&mut self, digest: &Digest) -> Result<Arc<Rulebook>, Halt>;

    /// Puts a question to a person and waits for the answer, or for its time to pass.
    fn ask(&mut self, number: u32, matter: Matter<'_>, under: &Circumstance) -> Result<Asked, Halt>;
}

/// Where asks and outcomes are written down.
pub trait Journal {
    /// Notes an ask. Nothing is decided or done before this returns.
    fn open(&mut self, number: u32, effect: &Effect) -> Result<(), Halt>;

    /// Puts everything noted so far on disk, with how the ask was judged: called after the permit and before an effect
    /// leaves the host.
    fn flush(&mut self, number: u32, ruling: &Ruling) -> Result<(), Halt>;

    /// Notes how the ask opened last was judged and how it ended; of an effect that left the host, on disk. There is no
    /// ruling if it was refused before any rule was read.
    fn close(&mut self, number: u32, effect: Effect, ruling: Option<Ruling>, outcome: &Outcome) -> Result<(), Halt>;
}

/// What does effects. It is given a permit or it is given nothing.
pub trait Executor {
    /// Does it, or says why it has no answer.
    fn run(&mut self, permit: Permit) -> Result<Answer, Undone>;
}

/// Why an effect has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It failed; the agent is told so.
    Failed(String),
    /// It was let pass and then stopped: by a kill switch or a revocation, perhaps while it was under way, and then it may
    /// have happened; or because whom it is for takes nothing any more.
    Cut(Box<Refusal>),
    /// It was done, and its answer is larger than the permit lets come back. What the agent is told is for the gate to say.
    TooLarge,
}

impl From<String> for Undone {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<&str> for Undone {
    fn from(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

/// Why a turn can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Halt {
    /// The journal can't be written, so nothing was done.
    #[error("the journal can't be written: {0}")]
    Unwritten(String),
    /// An effect may have happened and that can't be recorded: a person has to settle it.
    #[error("in doubt: {0}")]
    InDoubt(String),
    /// In a replay: the agent did something else than the record says.
    #[error("{0}")]
    Diverged(Box<Divergence>),
    /// In a replay of an unfinished turn: the tape ends here.
    #[error("the tape ends at effect {0}")]
    TapeEnds(u32),
    /// The turn was stopped from outside.
    #[error("stopped: {0}")]
    Stopped(String),
}

/// The only way from an ask to an outcome.
pub fn mediate<C, J, X>(
    caller: &mut Caller<'_>,
    effect: Effect,
    circumstances: &mut C,
    journal: &mut J,
    executor: &mut X,
) -> Result<Outcome, Halt>
where
    C: Circumstances + ?Sized,
    J: Journal + ?Sized,
    X: Executor + ?Sized,
{
    let number = caller.meter.effects;
    journal.open(number, &effect)?;
    let (ruling, admitted) = admit(caller, effect.clone(), circumstances)?;
    let outcome = match admitted {
        Err(refusal) => {
            // The tape keeps a refused ask as well, so its bytes are spent as well.
            caller.meter.bytes = caller.meter.bytes.saturating_add(effect.weight());
            Outcome::Refused(refusal)
        }
        Ok((permit, reservation)) => {
            if let Some(ruling) = ruling.as_ref().filter(|_| permit.effect().leaves_host()) {
                // No journal, no effect.
                journal.flush(number, ruling)?;
            }
            let limit = permit.response_limit().cloned();
            let ran = executor.run(permit);
            pay(caller, reservation, &ran)?;
            let outcome = settle(caller, &effect, limit.as_ref(), ran);
            let heard = heard(&outcome, limit.as_ref());
            caller.purse.account.heard_host(caller.purse.caps, &effect, heard);
            outcome
        }
    };
    caller.sees(&effect, &outcome);
    journal.close(number, effect, ruling, &outcome)?;
    Ok(outcome)
}

type Admitted = Result<(Permit, Reservation), Refusal>;

/// Every stage, in order.
fn admit<C: Circumstances + ?Sized>(
    caller: &mut Caller<'_>,
    effect: Effect,
    circumstances: &mut C,
) -> Result<(Option<Ruling>, Admitted), Halt> {
    let number = caller.meter.effects;
    let declared = stages::count(&effect, caller.budget, caller.meter)
        .and_then(|_| stages::form(effect))
        .and_then(|formed| stages::declared(formed, caller.grants));
    let declared = match declared {
        Ok(declared) => declared,
        Err(refusal) => return Ok((None, Err(refusal))),
    };
    let mut under = circumstances.now(number)?;
    caller.counted(&mut under.facts);
    let mut rulebook = circumstances.rulebook(&under.rulebook)?;
    let weighed = stages::weigh(declared, &rulebook, caller.grants);
    let mut ruling =
        Ruling { under, risk: weighed.risk().clone(), rules: Vec::new(), warnings: Vec::new(), asked: Vec::new() };
    let running = match stages::switches(weighed, caller.agent, &ruling.under, &rulebook) {
        Ok(running) => running,
        Err(refusal) => return Ok((Some(ruling), Err(refusal))),
    };
    let (rules, ruled) = stages::policy(running, caller.who, &rulebook, &ruling.under);
    ruling.rules = rules;
    let ruled = match ruled {
        Ok(ruled) => ruled,
        Err(refusal) => return Ok((Some(ruling), Err(refusal))),
    };
    if let Some(matter) = ruled.question() {
        let asked = counted(caller, circumstances.ask(number, matter, &ruling.under)?);
        rulebook = circumstances.rulebook(&asked.then.rulebook)?;
        ruling.asked.push(asked);
    }
    let approved =
        match stages::approval(ruled, (caller.who, caller.agent), ruling.asked.first(), &rulebook, caller.meter) {
            Ok(approved) => approved,
            Err(refusal) => return Ok((Some(ruling), Err(refusal))),
        };
    let turn = (caller.budget, &mut *caller.meter);
    let when = (number, ruling.under.facts.time);
    let paused = match stages::budget(approved, turn, &mut caller.purse, &rulebook, when, None) {
        Ok(funded) => return Ok(sealed(ruling, Ok(funded))),
        Err(unfunded) => match unfunded.pause() {
            Ok(paused) => paused,
            Err(refusal) => return Ok((Some(ruling), Err(refusal))),
        },
    };
    let asked = counted(caller, circumstances.ask(number, paused.question(), &ruling.under)?);
    let let_pass = paused.answered(caller.agent, &asked, &rulebook, caller.meter);
    ruling.asked.push(asked);
    let funded = let_pass.and_then(|(approved, caps)| {
        let turn = (caller.budget, &mut *caller.meter);
        let funded = stages::budget(approved, turn, &mut caller.purse, &rulebook, when, Some(&caps));
        funded.map_err(|unfunded| unfunded.refusal)
    });
    Ok(sealed(ruling, funded))
}

/// What came of a question. The rules are read again after it, about an agent that has seen and spent what it had before: a
/// turn that waits does nothing else. A record from before labels were counted has neither, and stays as it is.
fn counted(caller: &Caller<'_>, mut asked: Asked) -> Asked {
    if caller.labels.is_some() {
        caller.counted(&mut asked.then.facts);
    }
    asked
}

/// Ends the stages: a permit, and on record what its reservation has brought near a cap.
fn sealed(mut ruling: Ruling, funded: Result<stages::Funded, Refusal>) -> (Option<Ruling>, Admitted) {
    let admitted = funded.map(|funded| stages::seal(funded, ruling.under.facts.labels.clone()));
    if let Ok((_, reservation)) = &admitted {
        ruling.warnings.extend(reservation.crossings().iter().map(ToString::to_string));
    }
    (Some(ruling), admitted)
}

/// Settles what was reserved: what failed has cost its bytes and no money. What was cut off may have cost it all.
fn pay(caller: &mut Caller<'_>, reservation: Reservation, ran: &Result<Answer, Undone>) -> Result<(), Halt> {
    let Purse { caps, account, at: _ } = &mut caller.purse;
    let held = account.open().iter().find(|hold| hold.id == reservation.id()).map(|hold| hold.amounts.clone());
    let mut actual = held.unwrap_or_else(|| Amounts { effects: 1, ..Amounts::default() });
    if matches!(ran, Err(Undone::Failed(_))) {
        actual.money = None;
    }
    account.settle(caps, reservation, &actual).map(|_| ()).map_err(|why| Halt::Stopped(why.to_string()))
}

/// Charges what came back. An answer over the byte budget, or larger than the rules let come back, is withheld: it happened,
/// and the record says so.
fn settle(
    caller: &mut Caller<'_>,
    effect: &Effect,
    limit: Option<&ResponseLimit>,
    ran: Result<Answer, Undone>,
) -> Outcome {
    let outcome = match (ran, limit) {
        // An executor stops early. That it does is not what holds the agent to the limit.
        (Ok(answer), Some(limit)) if limit.is_passed_by(&answer) => return Outcome::Refused(limit.refusal(effect)),
        (Err(Undone::TooLarge), Some(limit)) => return Outcome::Refused(limit.refusal(effect)),
        (Err(Undone::TooLarge), None) => Outcome::Failed("its answer is too large, and no rule says so".to_owned()),
        (Ok(answer), _) => Outcome::Done(answer),
        (Err(Undone::Failed(why)), _) => Outcome::Failed(why),
        (Err(Undone::Cut(refusal)), _) => return Outcome::Refused(*refusal),
    };
    let before = caller.meter.bytes;
    caller.meter.bytes = before.saturating_add(outcome.weight());
    if caller.meter.bytes <= caller.budget.bytes {
        return outcome;
    }
    let refusal = stages::bytes_spent(effect, caller.budget);
    let outcome = Outcome::Failed(format!("done, but the answer is withheld: {}", refusal.reason));
    // Charge what the agent really got, so that a replay, which only knows that, counts the same.
    caller.meter.bytes = before.saturating_add(outcome.weight());
    outcome
}

/// Bytes that count as heard from a host: what the agent got, or as much as was read of an answer before it was withheld.
fn heard(outcome: &Outcome, limit: Option<&ResponseLimit>) -> u64 {
    match (outcome, limit) {
        (Outcome::Refused(refusal), Some(limit)) if refusal.code == Code::ResponseTooLarge => {
            limit.bytes().max(outcome.weight())
        }
        _ => outcome.weight(),
    }
}

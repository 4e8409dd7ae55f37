//! The life of an effect: the whole security model, top to bottom.

use std::sync::Arc;

use crate::budget::{Budget, Meter};
use crate::canonical::Digest;
use crate::effect::Effect;
use crate::grant::Grants;
use crate::id::AgentId;
use crate::ledger::{Amounts, Reservation};
use crate::outcome::{Answer, Outcome};
use crate::policy::Who;
use crate::record::Divergence;
use crate::refusal::Refusal;
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
            let ran = executor.run(permit);
            pay(caller, reservation, &ran)?;
            let outcome = settle(caller, &effect, ran);
            caller.purse.account.heard_host(caller.purse.caps, &effect, &outcome);
            outcome
        }
    };
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
    under.facts.spent = caller.purse.spent_today();
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
        let asked = circumstances.ask(number, matter, &ruling.under)?;
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
    let asked = circumstances.ask(number, paused.question(), &ruling.under)?;
    let let_pass = paused.answered(caller.agent, &asked, &rulebook, caller.meter);
    ruling.asked.push(asked);
    let funded = let_pass.and_then(|(approved, caps)| {
        let turn = (caller.budget, &mut *caller.meter);
        let funded = stages::budget(approved, turn, &mut caller.purse, &rulebook, when, Some(&caps));
        funded.map_err(|unfunded| unfunded.refusal)
    });
    Ok(sealed(ruling, funded))
}

/// Ends the stages: a permit, and on record what its reservation has brought near a cap.
fn sealed(mut ruling: Ruling, funded: Result<stages::Funded, Refusal>) -> (Option<Ruling>, Admitted) {
    let admitted = funded.map(stages::seal);
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

/// Charges what came back. An answer over the byte budget is withheld: it happened, and the record says so.
fn settle(caller: &mut Caller<'_>, effect: &Effect, ran: Result<Answer, Undone>) -> Outcome {
    let outcome = match ran {
        Ok(answer) => Outcome::Done(answer),
        Err(Undone::Failed(why)) => Outcome::Failed(why),
        Err(Undone::Cut(refusal)) => return Outcome::Refused(*refusal),
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

//! The life of an effect: the whole security model, top to bottom.

use crate::budget::{Budget, Meter};
use crate::effect::Effect;
use crate::grant::Grants;
use crate::outcome::{Answer, Outcome};
use crate::record::Divergence;
use crate::refusal::Refusal;
use crate::stages::{self, Permit};

/// Who asks, with what it was granted and what its turn has used.
pub struct Caller<'a> {
    /// What the agent was granted.
    pub grants: &'a Grants,
    /// The turn's caps.
    pub budget: &'a Budget,
    /// What the turn has used.
    pub meter: &'a mut Meter,
}

/// Where asks and outcomes are written down.
pub trait Journal {
    /// Notes an ask. Nothing is decided or done before this returns.
    fn open(&mut self, number: u32, effect: &Effect) -> Result<(), Halt>;

    /// Puts everything noted so far on disk: called after the permit and before an effect leaves the host.
    fn flush(&mut self, number: u32) -> Result<(), Halt>;

    /// Notes the outcome of the ask opened last; of an effect that left the host, on disk.
    fn close(&mut self, number: u32, effect: Effect, outcome: &Outcome) -> Result<(), Halt>;
}

/// What does effects. It is given a permit or it is given nothing.
pub trait Executor {
    /// Does it. An `Err` is a failure that the agent is told of.
    fn run(&mut self, permit: Permit) -> Result<Answer, String>;
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
pub fn mediate<J, X>(
    caller: &mut Caller<'_>,
    effect: Effect,
    journal: &mut J,
    executor: &mut X,
) -> Result<Outcome, Halt>
where
    J: Journal + ?Sized,
    X: Executor + ?Sized,
{
    let number = caller.meter.effects;
    journal.open(number, &effect)?;
    let outcome = match admit(caller, effect.clone()) {
        Err(refusal) => {
            // The tape keeps a refused ask as well, so its bytes are spent as well.
            caller.meter.bytes = caller.meter.bytes.saturating_add(effect.weight());
            Outcome::Refused(refusal)
        }
        Ok(permit) => {
            if permit.effect().leaves_host() {
                // No journal, no effect.
                journal.flush(number)?;
            }
            settle(caller, &effect, executor.run(permit))
        }
    };
    journal.close(number, effect, &outcome)?;
    Ok(outcome)
}

/// Every stage, in order.
fn admit(caller: &mut Caller<'_>, effect: Effect) -> Result<Permit, Refusal> {
    let number = stages::count(&effect, caller.budget, caller.meter)?;
    let formed = stages::form(effect)?;
    let declared = stages::declared(formed, caller.grants)?;
    let funded = stages::budget(declared, caller.budget, caller.meter, number)?;
    Ok(stages::seal(funded))
}

/// Charges what came back. An answer over the byte budget is withheld: it happened, and the record says so.
fn settle(caller: &mut Caller<'_>, effect: &Effect, ran: Result<Answer, String>) -> Outcome {
    let outcome = match ran {
        Ok(answer) => Outcome::Done(answer),
        Err(why) => Outcome::Failed(why),
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

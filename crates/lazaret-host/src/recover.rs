//! After a crash: turns that were cut off are taken up where their record on disk ends.

use lazaret_gate::record::{Body, Message, TapeEntry};
use lazaret_gate::{AgentId, Effect, Rulings, canonical};
use lazaret_store::AgentState;

use crate::error::HostError;
use crate::host::{Host, lock};
use crate::live::Resume;
use crate::turns::Turn;

/// What became of the turns that were cut off.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Taken up and finished.
    pub finished: Vec<Turn>,
    /// In doubt: a person has to settle them.
    pub in_doubt: Vec<AgentId>,
    /// Could not be taken up; they can be tried again.
    pub failed: Vec<(AgentId, HostError)>,
}

/// A cut-off turn, as the journal has it.
pub(crate) struct CutOff {
    pub(crate) message: u64,
    input: Message,
    tape: Vec<TapeEntry>,
    rulings: Rulings,
    /// The effect that was opened and not closed, and how it was judged.
    pub(crate) open: Option<(u32, Effect)>,
    ruling: Option<u32>,
}

impl Host {
    /// Takes up every turn that was cut off. Called once after a data root was opened.
    pub fn recover(&self) -> Result<Recovered, HostError> {
        let mut recovered = Recovered::default();
        for row in self.store.agents()? {
            let Some(turn) = row.unfinished else { continue };
            // What was cut off in a quarantined agent waits with its mail.
            if matches!(row.state, AgentState::Removed | AgentState::Quarantined) {
                continue;
            }
            if row.state == AgentState::InDoubt {
                recovered.in_doubt.push(row.agent);
                continue;
            }
            let slot = self.slot(&row.agent);
            let _turn = lock(&slot);
            match self.resume(&row.agent, turn) {
                Ok(turn) => recovered.finished.push(turn),
                Err(HostError::InDoubt { agent, .. }) => recovered.in_doubt.push(agent),
                Err(why) => recovered.failed.push((row.agent, why)),
            }
        }
        Ok(recovered)
    }

    /// Reads a cut-off turn from the journal.
    pub(crate) fn cut_off(&self, agent: &AgentId, turn: u64) -> Result<CutOff, HostError> {
        let broken = |why: &str| HostError::Unresumable { agent: agent.clone(), turn, why: why.to_owned() };
        let mut cut: Option<CutOff> = None;
        for entry in self.store.unfinished_entries(agent, turn)? {
            match entry.body {
                Body::EffectOpened(opened) => {
                    let cut = match (&mut cut, opened.input) {
                        (Some(cut), _) => cut,
                        (cut @ None, Some(input)) => cut.insert(CutOff {
                            message: opened.message,
                            input,
                            tape: Vec::new(),
                            rulings: Rulings::default(),
                            open: None,
                            ruling: None,
                        }),
                        (None, None) => return Err(broken("its input is missing")),
                    };
                    cut.tape.extend(opened.tape);
                    cut.rulings.extend(canonical::decode(&self.store.blob(&opened.judged)?)?);
                    cut.open = Some((opened.number, opened.effect));
                    cut.ruling = opened.ruling;
                }
                Body::EffectClosed(closed) | Body::Settled(closed) => {
                    let cut = cut.as_mut().ok_or_else(|| broken("an effect is closed that was never opened"))?;
                    match cut.open.take() {
                        Some((number, effect)) if number == closed.number && number as usize == cut.tape.len() => {
                            cut.tape.push(TapeEntry { effect, outcome: closed.outcome, ruling: cut.ruling });
                        }
                        _ => return Err(broken("an effect is closed that was not open")),
                    }
                }
                _ => {}
            }
        }
        cut.ok_or_else(|| broken("nothing of it is in the journal"))
    }

    /// Replays a cut-off turn to the end of its tape and goes on from there.
    pub(crate) fn resume(&self, agent: &AgentId, turn: u64) -> Result<Turn, HostError> {
        self.running()?;
        let row = self.known(agent)?;
        self.trusted(&row)?;
        self.check_engine(agent, &row.engine)?;
        let cut = self.cut_off(agent, turn)?;
        let reopened = match &cut.open {
            None => false,
            Some((_, effect)) if effect.is_idempotent() => true,
            Some((number, _)) => {
                self.mark_in_doubt(agent, turn, *number)?;
                return Err(self.in_doubt(agent, turn)?);
            }
        };
        let resume = Resume { tape: cut.tape, rulings: cut.rulings, reopened, begun: true };
        // The slot's lock is the caller's when it came here through `send`; a fresh slot serves as well, because the
        // state is woken from disk either way.
        let mut slot = crate::host::Slot::default();
        let turn = self.take_turn(&mut slot, row, cut.message, cut.input, resume);
        self.take_warm(&mut slot);
        turn
    }
}

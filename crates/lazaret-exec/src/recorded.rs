//! The world as it was: a journal and an executor that answer from a tape, and hold the agent to it.

use std::sync::Arc;

use lazaret_gate::record::{Divergence, TapeEntry, TurnRecord};
use lazaret_gate::{Answer, Effect, Executor, Halt, Journal, Outcome, Permit};

/// A turn's tape, played back.
#[derive(Clone)]
pub struct Recorded {
    record: Arc<TurnRecord>,
}

impl Recorded {
    /// Plays this turn's tape.
    pub fn new(record: Arc<TurnRecord>) -> Self {
        Self { record }
    }

    fn at(&self, number: u32) -> Option<&TapeEntry> {
        self.record.tape.get(number as usize)
    }

    /// What differs if a turn ends after `asked` asks, though the tape goes on.
    pub fn unasked(&self, asked: u32) -> Option<Divergence> {
        let missing = self.at(asked)?;
        Some(Divergence {
            place: format!("effect {asked}"),
            expected: describe(&missing.effect),
            actual: "the end of the turn".to_owned(),
        })
    }
}

/// A recorded thing, as a mismatch shows it: whole, in canonical form, unless it is long.
fn describe<T: serde::Serialize>(what: &T) -> String {
    const MOST: usize = 400;
    let text = lazaret_gate::canonical::encode(what)
        .map_or_else(|why| why.to_string(), |b| String::from_utf8_lossy(&b).into_owned());
    if text.len() <= MOST {
        return text;
    }
    let digest = lazaret_gate::Digest::of(text.as_bytes());
    let start: String = text.chars().take(MOST).collect();
    format!("{start}… ({} bytes, digest {})", text.len(), digest.short())
}

fn differs(number: u32, part: &str, expected: String, actual: String) -> Halt {
    Halt::Diverged(Box::new(Divergence { place: format!("effect {number}{part}"), expected, actual }))
}

impl Journal for Recorded {
    fn open(&mut self, number: u32, effect: &Effect) -> Result<(), Halt> {
        match self.at(number) {
            None => Err(differs(number, "", "the end of the turn".to_owned(), describe(effect))),
            Some(entry) if entry.effect != *effect => {
                Err(differs(number, "", describe(&entry.effect), describe(effect)))
            }
            Some(_) => Ok(()),
        }
    }

    fn flush(&mut self, _: u32) -> Result<(), Halt> {
        Ok(())
    }

    fn close(&mut self, number: u32, _: Effect, outcome: &Outcome) -> Result<(), Halt> {
        match self.at(number) {
            Some(entry) if entry.outcome == *outcome => Ok(()),
            // The executor only repeats the tape, so what differs is the gate's decision.
            Some(entry) => Err(differs(number, " (verdict)", describe(&entry.outcome), describe(outcome))),
            None => Err(Halt::TapeEnds(number)),
        }
    }
}

impl Executor for Recorded {
    fn run(&mut self, permit: Permit) -> Result<Answer, String> {
        match self.at(permit.number()).map(|entry| &entry.outcome) {
            Some(Outcome::Done(answer)) => Ok(answer.clone()),
            Some(Outcome::Failed(why)) => Err(why.clone()),
            // `close` compares this with the recorded refusal and reports the verdict that changed.
            Some(Outcome::Refused(_)) | None => Err("permitted now, but not when it was recorded".to_owned()),
        }
    }
}

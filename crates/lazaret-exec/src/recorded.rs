//! The world as it was: a journal and an executor that answer from a tape, and hold the agent to it.

use std::sync::Arc;

use lazaret_gate::record::{Divergence, TapeEntry, TurnRecord};
use lazaret_gate::refusal::Code;
use lazaret_gate::ruling::Asked;
use lazaret_gate::stages::Matter;
use lazaret_gate::{
    Answer, Circumstance, Circumstances, Digest, Effect, Executor, Halt, Journal, Outcome, Permit, Rulebook, Ruling,
    Rulings, Undone,
};

/// A turn's tape, played back.
#[derive(Clone)]
pub struct Recorded {
    tape: Tape,
    rulings: Arc<Rulings>,
}

/// Where the tape lies: nothing is copied to play it.
#[derive(Clone)]
enum Tape {
    Record(Arc<TurnRecord>),
    Part(Arc<Vec<TapeEntry>>),
}

impl Recorded {
    /// Plays a turn's tape, whose asks were judged so.
    pub fn new(record: Arc<TurnRecord>, rulings: Arc<Rulings>) -> Self {
        Self { tape: Tape::Record(record), rulings }
    }

    /// Plays as much of a tape as there is of a turn that was cut off.
    pub fn part(tape: Vec<TapeEntry>, rulings: Rulings) -> Self {
        Self { tape: Tape::Part(Arc::new(tape)), rulings: Arc::new(rulings) }
    }

    fn tape(&self) -> &[TapeEntry] {
        match &self.tape {
            Tape::Record(record) => &record.tape,
            Tape::Part(tape) => tape,
        }
    }

    /// How many asks there are on it.
    pub fn len(&self) -> usize {
        self.tape().len()
    }

    /// Whether nothing was asked.
    pub fn is_empty(&self) -> bool {
        self.tape().is_empty()
    }

    /// How an ask was judged when it happened.
    pub fn ruling(&self, number: u32) -> Option<&Ruling> {
        self.entry(number)?.ruling.and_then(|place| self.rulings.get(place))
    }

    /// One ask and how it ended.
    pub fn entry(&self, number: u32) -> Option<&TapeEntry> {
        self.tape().get(number as usize)
    }

    /// How the asks were judged.
    pub fn rulings(&self) -> &Rulings {
        &self.rulings
    }

    /// What differs if a turn ends after `asked` asks, though the tape goes on.
    pub fn unasked(&self, asked: u32) -> Option<Divergence> {
        let missing = self.entry(asked)?;
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
        match self.entry(number) {
            None => Err(differs(number, "", "the end of the turn".to_owned(), describe(effect))),
            Some(entry) if entry.effect != *effect => {
                Err(differs(number, "", describe(&entry.effect), describe(effect)))
            }
            Some(_) => Ok(()),
        }
    }

    fn flush(&mut self, _: u32, _: &Ruling) -> Result<(), Halt> {
        Ok(())
    }

    fn close(&mut self, number: u32, _: Effect, ruling: Option<Ruling>, outcome: &Outcome) -> Result<(), Halt> {
        match self.entry(number) {
            Some(entry) if entry.outcome == *outcome && self.ruling(number) == ruling.as_ref() => Ok(()),
            Some(entry) if entry.outcome == *outcome => {
                Err(differs(number, " (ruling)", describe(&self.ruling(number)), describe(&ruling)))
            }
            // The executor only repeats the tape, so what differs is the gate's decision.
            Some(entry) => Err(differs(number, " (verdict)", describe(&entry.outcome), describe(outcome))),
            None => Err(Halt::TapeEnds(number)),
        }
    }
}

impl Executor for Recorded {
    fn run(&mut self, permit: Permit) -> Result<Answer, Undone> {
        match self.entry(permit.number()).map(|entry| &entry.outcome) {
            Some(Outcome::Done(answer)) => Ok(answer.clone()),
            Some(Outcome::Failed(why)) => Err(why.clone().into()),
            // The gate's word, on what came back: it has to find the same limit again.
            Some(Outcome::Refused(refusal)) if refusal.code == Code::ResponseTooLarge => Err(Undone::TooLarge),
            // Not the gate's word: it had let it pass.
            Some(Outcome::Refused(cut)) if cut.layer.follows_permit() => Err(Undone::Cut(Box::new(cut.clone()))),
            // `close` compares this with the recorded refusal and reports the verdict that changed.
            Some(Outcome::Refused(_)) | None => Err("permitted now, but not when it was recorded".into()),
        }
    }
}

/// The circumstances of a turn that has happened: as its rulings have them.
pub struct Then<F> {
    tape: Recorded,
    rulebook: F,
    /// How many questions of the present ask were answered from the record.
    answered: (u32, usize),
}

impl<F: FnMut(&Digest) -> Result<Arc<Rulebook>, String>> Then<F> {
    /// Those of this tape; `rulebook` finds a rulebook by its digest.
    pub fn new(tape: Recorded, rulebook: F) -> Self {
        Self { tape, rulebook, answered: (0, 0) }
    }
}

impl<F: FnMut(&Digest) -> Result<Arc<Rulebook>, String>> Circumstances for Then<F> {
    fn now(&mut self, number: u32) -> Result<Circumstance, Halt> {
        match self.tape.ruling(number) {
            Some(ruling) => Ok(ruling.under.clone()),
            None => Err(differs(number, " (ruling)", "none".to_owned(), "the rules are read".to_owned())),
        }
    }

    fn rulebook(&mut self, digest: &Digest) -> Result<Arc<Rulebook>, Halt> {
        (self.rulebook)(digest).map_err(|why| Halt::Stopped(format!("the rulebook {digest}: {why}")))
    }

    fn ask(&mut self, number: u32, matter: Matter<'_>, _: &Circumstance) -> Result<Asked, Halt> {
        if self.answered.0 != number {
            self.answered = (number, 0);
        }
        let at = self.answered.1;
        self.answered.1 += 1;
        let asked = self.tape.ruling(number).and_then(|ruling| ruling.asked.get(at));
        asked.cloned().ok_or_else(|| {
            differs(number, " (ruling)", "nobody is asked".to_owned(), format!("rule `{}` asks", matter.rule))
        })
    }
}

//! Runs commands: admits a component and takes one turn of it.

use std::any::Any;
use std::path::{Path, PathBuf};

use lazaret_gate::record::{Ending, Message};
use lazaret_gate::{Budget, Effect, Halt, Outcome, TapeEntry};
use lazaret_guest::{Engine, Program, State, Terms, World, turn};

/// A world that answers by a function, and remembers.
pub struct Fake {
    answer: fn(&Effect) -> Outcome,
    pub tape: Vec<TapeEntry>,
}

/// A world that answers from a tape, and insists on being asked what the tape says.
pub struct Played(std::vec::IntoIter<TapeEntry>);

impl World for Fake {
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        let outcome = (self.answer)(&effect);
        self.tape.push(TapeEntry { effect, outcome: outcome.clone(), ruling: None });
        Ok(outcome)
    }
}

impl World for Played {
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        let entry = self.0.next().ok_or_else(|| Halt::Stopped(format!("asked {effect:?} after the tape's end")))?;
        if entry.effect == effect {
            Ok(entry.outcome)
        } else {
            Err(Halt::Stopped(format!("asked {effect:?} instead of {:?}", entry.effect)))
        }
    }
}

impl Played {
    /// How much of the tape wasn't asked for.
    pub fn left(&self) -> usize {
        self.0.len()
    }
}

/// A turn that is over.
pub struct Took {
    pub ending: Result<Ending, Halt>,
    pub fuel: u64,
    pub world: Box<dyn Any>,
}

impl Took {
    /// The world it was given.
    pub fn world<W: World>(self) -> W {
        *self.world.downcast().unwrap_or_else(|_| panic!("a turn hands its own world back"))
    }

    /// The reply's body, as text.
    pub fn reply(&self) -> String {
        match &self.ending {
            Ok(Ending::Replied(reply)) => String::from_utf8(reply.body.0.clone()).expect("a reply in UTF-8"),
            other => panic!("no reply: {other:?}"),
        }
    }
}

pub fn admit(bytes: &[u8]) -> Program {
    let engine = Engine::new().expect("the engine starts");
    engine.admit(bytes).unwrap_or_else(|why| panic!("{why}")).program
}

pub fn take(program: &Program, input: &str, budget: &Budget, world: impl World) -> Took {
    let input = Message::outside("text/plain", input.as_bytes().to_vec());
    let ran = turn::run(program, &State::default(), &Terms { input: &input, budget }, Box::new(world));
    Took { ending: ran.ending, fuel: ran.fuel, world: ran.world }
}

pub fn fake(answer: fn(&Effect) -> Outcome) -> Fake {
    Fake { answer, tape: Vec::new() }
}

pub fn played(tape: Vec<TapeEntry>) -> Played {
    Played(tape.into_iter())
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A component that `cargo xtask guests` builds.
pub fn built(name: &str) -> Vec<u8> {
    let path = root().join(format!("guests/build/{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}; run `cargo xtask guests`", path.display()))
}

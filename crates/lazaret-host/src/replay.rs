//! Running a recorded turn again, with its tape as the world.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use lazaret_exec::Recorded;
use lazaret_gate::canonical;
use lazaret_gate::image::{Image, Node};
use lazaret_gate::record::{Cause, Divergence, Ending, Stop, TurnRecord, World as Lives};
use lazaret_gate::{Budget, Caller, Digest, Effect, Grants, Halt, Meter, Outcome, mediate};
use lazaret_guest::{Engine, Program, State, Terms, World, turn};
use serde::Serialize;

/// What a replay says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "verdict")]
pub enum Verdict {
    /// The same output, fuel, effects, verdicts and image, byte for byte.
    Match,
    /// Something differs, first here.
    Mismatch(Divergence),
    /// It can't be told.
    Unverifiable {
        /// What is missing.
        missing: String,
    },
}

/// Where a replay gets components and images from. What it gives has the digest it was asked for.
pub trait Source {
    /// The blob with this digest, or why it can't be had.
    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, String>;

    /// A program, if there is a quicker way than compiling its component.
    fn program(&self, component: &Digest) -> Option<Program> {
        let _ = component;
        None
    }
}

/// Replays turns, keeping the state from one to the next so that a run of turns wakes once.
pub struct Replayer<'a, S: Source> {
    engine: &'a Engine,
    source: &'a S,
    programs: HashMap<Digest, Program>,
    warm: Option<(Digest, State)>,
    /// Nodes that replay made, to name the page that differs.
    nodes: HashMap<Digest, Vec<u8>>,
}

/// The world of a turn that has happened.
struct Past {
    grants: Grants,
    budget: Budget,
    meter: Meter,
    journal: Recorded,
    executor: Recorded,
}

impl World for Past {
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        let mut caller = Caller { grants: &self.grants, budget: &self.budget, meter: &mut self.meter };
        mediate(&mut caller, effect, &mut self.journal, &mut self.executor)
    }
}

fn differs<T: Serialize>(place: &str, expected: &T, actual: &T) -> Verdict {
    let show = |what: &T| {
        let text =
            canonical::encode(what).map_or_else(|why| why.to_string(), |b| String::from_utf8_lossy(&b).into_owned());
        if text.len() <= 600 {
            text
        } else {
            format!("{}… ({} bytes)", text.chars().take(600).collect::<String>(), text.len())
        }
    };
    Verdict::Mismatch(Divergence { place: place.to_owned(), expected: show(expected), actual: show(actual) })
}

fn missing(what: impl Into<String>) -> Verdict {
    Verdict::Unverifiable { missing: what.into() }
}

impl<'a, S: Source> Replayer<'a, S> {
    /// Replays what `source` has, on this engine.
    pub fn new(engine: &'a Engine, source: &'a S) -> Self {
        Self { engine, source, programs: HashMap::new(), warm: None, nodes: HashMap::new() }
    }

    fn program(&mut self, component: &Digest) -> Result<Program, Verdict> {
        if let Some(program) = self.programs.get(component) {
            return Ok(program.clone());
        }
        let program = match self.source.program(component) {
            Some(program) => program,
            None => {
                let bytes = self.source.blob(component).map_err(|why| missing(format!("the component: {why}")))?;
                let admitted = self.engine.admit(&bytes).map_err(|why| missing(format!("the component: {why}")))?;
                admitted.program
            }
        };
        self.programs.insert(*component, program.clone());
        Ok(program)
    }

    fn image(&self, digest: &Digest) -> Result<Image, Verdict> {
        let bytes = self.source.blob(digest).map_err(|why| missing(format!("the image before: {why}")))?;
        canonical::decode(&bytes).map_err(|why| missing(format!("the image before: {why}")))
    }

    fn state(&mut self, record: &TurnRecord) -> Result<State, Verdict> {
        let Some(digest) = record.image_before else { return Ok(State::default()) };
        if let Some((warm, state)) = self.warm.take()
            && warm == digest
        {
            return Ok(state);
        }
        let image = self.image(&digest)?;
        let bound = image.agent == record.agent && image.component == record.component && image.engine == record.engine;
        if !bound || image.turn >= record.turn {
            return Err(missing("the image before is bound to another agent, component, engine or turn"));
        }
        State::wake(&image, |digest| self.source.blob(digest))
            .map_err(|why| missing(format!("the image before: {why}")))
    }

    /// Runs a recorded turn again and compares.
    pub fn verify(&mut self, record: &TurnRecord) -> Verdict {
        self.compare(record).unwrap_or_else(|verdict| verdict)
    }

    fn compare(&mut self, record: &TurnRecord) -> Result<Verdict, Verdict> {
        if record.engine != self.engine.digest() {
            return Err(missing(format!("engine {}; this is {}", record.engine.short(), self.engine.digest().short())));
        }
        let program = self.program(&record.component)?;
        if (program.lives() == Lives::Durable) != record.image_before.is_some() {
            return Err(missing("an image, or there is one of an agent that has none"));
        }
        let mut state = self.state(record)?;
        let tape = Recorded::new(Arc::new(record.tape.clone()));
        let world = Past {
            grants: record.grants.clone(),
            budget: record.budget.clone(),
            meter: Meter::default(),
            journal: tape.clone(),
            executor: tape.clone(),
        };
        let terms = Terms { input: &record.input, budget: &record.budget };
        let ran = turn::run(&program, &state, &terms, Box::new(world));
        if let Ending::Stopped(Stop { cause: Cause::WallClock, .. }) = &record.ending {
            return Err(missing("a clock that runs as the recording one did: the turn was stopped by wall time"));
        }
        let ending = match ran.ending {
            Ok(ending) => ending,
            Err(Halt::Diverged(divergence)) => return Ok(Verdict::Mismatch(*divergence)),
            Err(halt) => return Err(missing(halt.to_string())),
        };
        if matches!(&ending, Ending::Stopped(Stop { cause: Cause::WallClock, .. })) {
            return Err(missing("time: the replay itself ran into the turn's wall-time limit"));
        }
        let world: Box<dyn Any> = ran.world;
        let asked = world.downcast::<Past>().map_or(0, |past| past.meter.effects);
        if let Some(divergence) = tape.unasked(asked) {
            return Ok(Verdict::Mismatch(divergence));
        }
        if ending != record.ending {
            return Ok(differs("output", &record.ending, &ending));
        }
        if ran.fuel != record.fuel {
            return Ok(differs("fuel", &record.fuel, &ran.fuel));
        }
        let after = match ran.change {
            None => record.image_before,
            Some(change) => {
                let sealed = state.advance(&change);
                let image = Image {
                    agent: record.agent.clone(),
                    component: record.component,
                    engine: record.engine,
                    turn: record.turn,
                    memories: sealed.memories,
                    globals: sealed.globals,
                };
                let bytes = canonical::encode(&image).map_err(|why| missing(why.to_string()))?;
                let digest = Digest::of(&bytes);
                if record.image_after != Some(digest) {
                    self.nodes = sealed.blobs.into_iter().collect();
                    return Ok(self.image_differs(record, &image, digest));
                }
                state.settle(change).map_err(|why| missing(why.to_string()))?;
                Some(digest)
            }
        };
        if after != record.image_after {
            return Ok(differs("image", &record.image_after, &after));
        }
        self.warm = after.map(|after| (after, state));
        Ok(Verdict::Match)
    }

    /// Names the first page that differs, if the recorded image is there to compare with.
    fn image_differs(&self, record: &TurnRecord, actual: &Image, digest: Digest) -> Verdict {
        let expected = record.image_after.and_then(|name| self.image(&name).ok());
        let Some(expected) = expected else { return differs("image", &record.image_after, &Some(digest)) };
        let node = |name: &Digest| {
            let bytes = self.nodes.get(name).cloned().or_else(|| self.source.blob(name).ok())?;
            Node::decode(&bytes)
        };
        let (place, expected, actual) = lazaret_guest::state::first_difference(&expected, actual, node);
        Verdict::Mismatch(Divergence { place, expected, actual })
    }
}

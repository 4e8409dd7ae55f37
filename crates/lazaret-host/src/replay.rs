//! Running a recorded turn again, with its tape as the world.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use lazaret_exec::{Recorded, Then};
use lazaret_gate::canonical;
use lazaret_gate::image::{Image, Node};
use lazaret_gate::ledger::{Account, Caps, Point};
use lazaret_gate::policy::Who;
use lazaret_gate::record::{Cause, Divergence, Ending, Judged, Stop, TurnRecord, World as Lives};
use lazaret_gate::refusal::Code;
use lazaret_gate::stages::Purse;
use lazaret_gate::{
    AgentId, Blob, Caller, Digest, Effect, Halt, Labels, Meter, Outcome, Rulebook, Rulings, labels, mediate,
};
use lazaret_guest::{Awake, Change, Engine, Program, State, Terms, World};
use serde::Serialize;

use crate::books;

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

    /// Many blobs at once, in the order asked, if that is quicker and all can be had.
    fn blobs(&self, digests: &[Digest]) -> Option<Vec<Vec<u8>>> {
        let _ = digests;
        None
    }

    /// A program, if there is a quicker way than compiling its component.
    fn program(&self, component: &Digest) -> Option<Program> {
        let _ = component;
        None
    }
}

/// Replays turns, keeping the agent from one to the next so that a run of turns wakes once.
pub struct Replayer<'a, S: Source> {
    engine: &'a Engine,
    source: &'a S,
    programs: HashMap<Digest, Program>,
    books: HashMap<Digest, Arc<Rulebook>>,
    /// How the next turns were judged, fetched together.
    ahead: HashMap<Digest, Vec<u8>>,
    warm: Option<Warm>,
    keeps: bool,
    misled: usize,
}

/// An agent as a turn left it.
struct Warm {
    image: Digest,
    bound: Bound,
    awake: Awake,
}

/// What an image binds together, besides the agent's state.
#[derive(PartialEq, Eq)]
struct Bound {
    agent: AgentId,
    component: Digest,
    engine: Digest,
    turn: u64,
}

impl Bound {
    /// Whether a turn can begin with it.
    fn precedes(&self, record: &TurnRecord) -> bool {
        self.agent == record.agent
            && self.component == record.component
            && self.engine == record.engine
            && self.turn < record.turn
    }
}

type FindBook = Box<dyn FnMut(&Digest) -> Result<Arc<Rulebook>, String>>;

/// The day, run and turn that a recorded turn's spending was booked on.
fn point(record: &TurnRecord, day: u32) -> Point {
    let name = format!("{}-{}", record.agent, record.turn);
    Point { day, run: name.clone(), turn: name }
}

/// The world of a turn that has happened.
struct Past {
    record: Arc<TurnRecord>,
    who: Who,
    caps: Caps,
    account: Account,
    labels: Option<Labels>,
    at: Point,
    meter: Meter,
    then: Then<FindBook>,
    journal: Recorded,
    executor: Recorded,
}

impl World for Past {
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        let mut caller = Caller {
            agent: &self.record.agent,
            who: &self.who,
            grants: &self.record.grants,
            budget: &self.record.budget,
            meter: &mut self.meter,
            purse: Purse { caps: &self.caps, account: &mut self.account, at: &self.at },
            labels: self.labels.as_mut(),
        };
        mediate(&mut caller, effect, &mut self.then, &mut self.journal, &mut self.executor)
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

fn ends_with_refusal(record: &TurnRecord) -> bool {
    matches!(record.tape.last().map(|last| &last.outcome), Some(Outcome::Refused(refusal)) if matches!(refusal.code, Code::Killed | Code::Revoked))
}

fn missing(what: impl Into<String>) -> Verdict {
    Verdict::Unverifiable { missing: what.into() }
}

impl<'a, S: Source> Replayer<'a, S> {
    /// Replays what `source` has, on this engine.
    pub fn new(engine: &'a Engine, source: &'a S) -> Self {
        let (programs, books, ahead) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { engine, source, programs, books, ahead, warm: None, keeps: true, misled: 0 }
    }

    /// Takes every turn on a fresh instance, as live turns are taken. It is slower and says the same.
    pub fn without_keeping(mut self) -> Self {
        self.keeps = false;
        self
    }

    /// How often a turn was as recorded, but only on a fresh instance. That it ever happens would be a fault of this host,
    /// found in time.
    pub fn misled(&self) -> usize {
        self.misled
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

    /// Fetches what these turns will need, if it can be had together. A judgement repeats what is on the tape and adds little to
    /// each ask, so whoever bounds the records bounds this.
    pub(crate) fn look_ahead<'r>(&mut self, records: impl Iterator<Item = &'r TurnRecord>) {
        let digests: Vec<Digest> = records.map(|record| record.judged).collect();
        let blobs = self.source.blobs(&digests).unwrap_or_default();
        self.ahead = digests.into_iter().zip(blobs).collect();
    }

    fn judged(&mut self, record: &TurnRecord) -> Result<Judged, Verdict> {
        let unknown = |why: &dyn std::fmt::Display| missing(format!("how it was judged: {why}"));
        let judged = match self.ahead.get(&record.judged) {
            Some(bytes) => canonical::decode(bytes),
            None => canonical::decode(&self.source.blob(&record.judged).map_err(|why| unknown(&why))?),
        };
        judged.map_err(|why| unknown(&why))
    }

    /// The rulebooks that a turn was judged by.
    fn rulebooks(&mut self, rulings: &Rulings) -> Result<HashMap<Digest, Arc<Rulebook>>, Verdict> {
        let mut books = HashMap::new();
        for digest in rulings.rulebooks() {
            if !self.books.contains_key(&digest) {
                let bytes = self.source.blob(&digest).map_err(|why| missing(format!("the rulebook: {why}")))?;
                let book = books::read(&bytes).map_err(|problems| {
                    missing(format!(
                        "a rulebook that can be read: {}",
                        problems.first().map_or_else(String::new, |p| p.to_string())
                    ))
                })?;
                self.books.insert(digest, book);
            }
            books.extend(self.books.get(&digest).map(|book| (digest, book.clone())));
        }
        Ok(books)
    }

    fn image(&self, digest: &Digest) -> Result<Image, Verdict> {
        let bytes = self.source.blob(digest).map_err(|why| missing(format!("the image before: {why}")))?;
        canonical::decode(&bytes).map_err(|why| missing(format!("the image before: {why}")))
    }

    /// The agent as the image before the turn has it: still warm, or woken.
    fn warm(&mut self, program: &Program, image: Digest, record: &TurnRecord) -> Result<Warm, Verdict> {
        let unbound = || missing("the image before is bound to another agent, component, engine or turn");
        if let Some(warm) = self.warm.take().filter(|warm| warm.image == image) {
            return if warm.bound.precedes(record) { Ok(warm) } else { Err(unbound()) };
        }
        let described = self.image(&image)?;
        let Image { agent, component, engine, turn, .. } = &described;
        let bound = Bound { agent: agent.clone(), component: *component, engine: *engine, turn: *turn };
        if !bound.precedes(record) {
            return Err(unbound());
        }
        let state = State::wake(&described, |digest| self.source.blob(digest))
            .map_err(|why| missing(format!("the image before: {why}")))?;
        Ok(Warm { image, bound, awake: Awake::new(program.clone(), state) })
    }

    /// Wakes the agent as it was before this turn, if it isn't warm. False if it can't be woken.
    pub(crate) fn ready(&mut self, record: &TurnRecord) -> bool {
        let Some(image) = record.image_before else { return true };
        let Ok(program) = self.program(&record.component) else { return false };
        self.warm = self.warm(&program, image, record).ok();
        self.warm.is_some()
    }

    /// Runs a recorded turn again and compares.
    pub fn verify(&mut self, record: &TurnRecord) -> Verdict {
        self.verify_shared(&Arc::new(record.clone()))
    }

    /// The same, without a copy of the record: its tape outlives the call in the guest's store.
    pub(crate) fn verify_shared(&mut self, record: &Arc<TurnRecord>) -> Verdict {
        self.compare(record).unwrap_or_else(|verdict| verdict)
    }

    fn compare(&mut self, record: &Arc<TurnRecord>) -> Result<Verdict, Verdict> {
        if record.engine != self.engine.digest() {
            return Err(missing(format!("engine {}; this is {}", record.engine.short(), self.engine.digest().short())));
        }
        match &record.ending {
            Ending::Stopped(Stop { cause: Cause::WallClock, .. }) => {
                return Err(missing("a clock that runs as the recording one did: the turn was stopped by wall time"));
            }
            // A refusal that ended it comes again by itself; an interruption in the middle doesn't.
            Ending::Stopped(Stop { cause: Cause::Killed, .. }) if !ends_with_refusal(record) => {
                return Err(missing("an operator: the turn was stopped by a kill switch"));
            }
            Ending::Stopped(Stop { cause: Cause::Revoked, .. }) if !ends_with_refusal(record) => {
                return Err(missing("an operator: the turn was stopped because its agent was revoked"));
            }
            _ => {}
        }
        let program = self.program(&record.component)?;
        let image = match (program.lives(), record.image_before) {
            (Lives::Durable, Some(image)) => image,
            (Lives::Stateless, None) => {
                return self.take(&mut Awake::new(program, State::default()), record).map(|_| Verdict::Match);
            }
            _ => return Err(missing("an image, or there is one of an agent that has none")),
        };
        let mut warm = self.warm(&program, image, record)?;
        let kept = warm.awake.is_kept();
        let mut taken = self.take(&mut warm.awake, record);
        if kept && taken.is_err() {
            // Never say so on the word of an instance that isn't fresh.
            warm.awake.sleep().map_err(|why| missing(why.to_string()))?;
            taken = self.take(&mut warm.awake, record);
            self.misled += usize::from(taken.is_ok());
        }
        if let Some(after) = taken? {
            warm.image = after;
            warm.bound.turn = record.turn;
        }
        if !self.keeps {
            warm.awake.sleep().map_err(|why| missing(why.to_string()))?;
        }
        self.warm = Some(warm);
        Ok(Verdict::Match)
    }

    /// The world as it was in a recorded turn.
    fn past(&mut self, record: &Arc<TurnRecord>) -> Result<(Recorded, Past), Verdict> {
        let Judged { caps, spending, day, rulings, labels } = self.judged(record)?;
        let books = self.rulebooks(&rulings)?;
        let find: FindBook =
            Box::new(move |digest| books.get(digest).cloned().ok_or_else(|| "it is not among the turn's".to_owned()));
        let tape = Recorded::new(record.clone(), Arc::new(rulings));
        let past = Past {
            record: record.clone(),
            who: Who::agent(&record.agent, None),
            caps,
            account: spending,
            labels: labels.map(|before| labels::at_start(&before, &record.input)),
            at: point(record, day),
            meter: Meter::default(),
            then: Then::new(tape.clone(), find),
            journal: tape.clone(),
            executor: tape.clone(),
        };
        Ok((tape, past))
    }

    /// Takes a recorded turn. If everything is as recorded: the image that it left, if it left another one.
    fn take(&mut self, awake: &mut Awake, record: &Arc<TurnRecord>) -> Result<Option<Digest>, Verdict> {
        let (tape, world) = self.past(record)?;
        let terms = Terms { input: &record.input, budget: &record.budget };
        let ran = awake.run(&terms, Box::new(world));
        let ending = match ran.ending {
            Ok(ending) => ending,
            Err(Halt::Diverged(divergence)) => return Err(Verdict::Mismatch(*divergence)),
            Err(halt) => return Err(missing(halt.to_string())),
        };
        if matches!(&ending, Ending::Stopped(Stop { cause: Cause::WallClock, .. })) {
            return Err(missing("time: the replay itself ran into the turn's wall-time limit"));
        }
        let world: Box<dyn Any> = ran.world;
        let asked = world.downcast::<Past>().map_or(0, |past| past.meter.effects);
        if let Some(divergence) = tape.unasked(asked) {
            return Err(Verdict::Mismatch(divergence));
        }
        if ending != record.ending {
            return Err(differs("output", &record.ending, &ending));
        }
        if ran.fuel != record.fuel {
            return Err(differs("fuel", &record.fuel, &ran.fuel));
        }
        match ran.change {
            Some(change) => self.settle(awake, change, record).map(Some),
            None if record.image_after == record.image_before => Ok(None),
            None => Err(differs("image", &record.image_after, &record.image_before)),
        }
    }

    /// Compares the image that a turn left, and lets the agent go on from it.
    fn settle(&self, awake: &mut Awake, change: Change, record: &TurnRecord) -> Result<Digest, Verdict> {
        let sealed = awake.advance(&change);
        let image = Image {
            agent: record.agent.clone(),
            component: record.component,
            engine: record.engine,
            turn: record.turn,
            memories: sealed.memories,
            globals: sealed.globals,
        };
        match Digest::of_value(&image) {
            Ok(digest) if record.image_after == Some(digest) => {
                awake.settle(change).map_err(|why| missing(why.to_string()))?;
                Ok(digest)
            }
            other => {
                awake.refuse(&change);
                let digest = other.map_err(|why| missing(why.to_string()))?;
                Err(self.image_differs(record, &image, digest, sealed.blobs))
            }
        }
    }

    /// Names the first page that differs, if the recorded image is there to compare with.
    fn image_differs(&self, record: &TurnRecord, actual: &Image, digest: Digest, made: Vec<Blob>) -> Verdict {
        let nodes: HashMap<Digest, Blob> = made.into_iter().map(|node| (node.digest(), node)).collect();
        let expected = record.image_after.and_then(|name| self.image(&name).ok());
        let Some(expected) = expected else { return differs("image", &record.image_after, &Some(digest)) };
        let node = |name: &Digest| match nodes.get(name) {
            Some(node) => Node::decode(node.bytes()),
            None => Node::decode(&self.source.blob(name).ok()?),
        };
        let (place, expected, actual) = lazaret_guest::state::first_difference(&expected, actual, node);
        Verdict::Mismatch(Divergence { place, expected, actual })
    }
}

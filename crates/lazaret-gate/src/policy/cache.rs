//! Answers that were given before.
//!
//! A key is the rules in question, by digest, and exactly those parts of the request that they can read, each with its
//! length, so that two requests share a key only if no rule can tell them apart. The checks that need no rule run every
//! time, and so does the choice of rules whose heads fit.
//!
//! A request that is new as a whole is seldom new to every rule: rules that read the same parts of it are remembered
//! together, and only those are asked that read something new.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::context::Fact;
use super::decide::{Decision, Finding};
use super::load::Policies;
use super::reads::{Much, Reads};
use super::request::{BadRequest, Question, Request};
use super::slice::{Fitting, Part};

/// A bounded memory of decisions, for any number of sets and askers. Sharing it between threads is fine.
pub struct Cached {
    memory: Memories<Decision>,
    parts: Memories<Arc<Finding>>,
}

/// Nearly all who come only look, and what they look for is nearly always young: they don't wait for each other.
struct Memories<T>(RwLock<Memory<T>>);

/// Two generations: when the young one is full it becomes the old one, and what nobody asks again is dropped.
struct Memory<T> {
    most: usize,
    young: HashMap<Vec<u8>, T>,
    old: HashMap<Vec<u8>, T>,
}

/// A key longer than this is not kept: a guest chooses paths, and must not choose the host's memory.
const MAX_KEY: usize = 4 << 10;

impl<T: Clone> Memory<T> {
    /// Puts what is old and asked for again among the young.
    fn recall(&mut self, key: &[u8]) -> Option<T> {
        let (key, known) = self.old.remove_entry(key)?;
        self.keep(key, known.clone());
        Some(known)
    }

    fn keep(&mut self, key: Vec<u8>, value: T) {
        if key.len() > MAX_KEY || self.most < 2 {
            return;
        }
        if self.young.len() >= self.most / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

impl<T: Clone> Memories<T> {
    fn new(most: usize) -> Self {
        Self(RwLock::new(Memory { most, young: HashMap::new(), old: HashMap::new() }))
    }

    // A map is whole at every step, so a panic elsewhere leaves nothing half done here.
    fn look(&self) -> RwLockReadGuard<'_, Memory<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Memory<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn recall(&self, key: &[u8]) -> Option<T> {
        let memory = self.look();
        if let Some(known) = memory.young.get(key) {
            return Some(known.clone());
        }
        let is_old = memory.old.contains_key(key);
        drop(memory);
        if is_old { self.change().recall(key) } else { None }
    }
}

impl Cached {
    /// Keeps at most so many decisions.
    pub fn new(most: usize) -> Self {
        Self { memory: Memories::new(most), parts: Memories::new(most) }
    }

    /// The same answer as [`Policies::decide`].
    pub fn decide(&self, policies: &Policies, request: &Request) -> Decision {
        match request.check() {
            Ok(action) => self.answer(policies, &Question::new(request, action)),
            Err(bad) => Decision::from(&bad),
        }
    }

    /// The same for a request that was checked.
    pub(super) fn answer(&self, policies: &Policies, question: &Question<'_>) -> Decision {
        let fitting = policies.fitting(question.action, question.request);
        let mut key = Vec::with_capacity(256);
        key.extend_from_slice(&policies.digest().0);
        key.extend_from_slice(&fitting.digest.0);
        write(&mut key, question, fitting.reads);
        if let Some(known) = self.memory.recall(&key) {
            return known;
        }
        let decision = match self.ask(policies, &fitting, question) {
            Ok(found) => policies.settle(found.iter().map(AsRef::as_ref)),
            Err(bad) => Decision::from(&bad),
        };
        self.memory.change().keep(key, decision.clone());
        decision
    }

    fn ask(
        &self,
        policies: &Policies,
        fitting: &Fitting,
        question: &Question<'_>,
    ) -> Result<Vec<Arc<Finding>>, BadRequest> {
        let parts = policies.parts(fitting);
        if parts.len() < 2 {
            return Finding::of(question, &fitting.set, fitting.reads).map(|found| vec![Arc::new(found)]);
        }
        let one = |part: &Part| {
            let mut key = Vec::with_capacity(192);
            key.extend_from_slice(&part.digest.0);
            write(&mut key, question, part.reads);
            if let Some(known) = self.parts.recall(&key) {
                return Ok(known);
            }
            let found = Arc::new(Finding::of(question, &part.set, part.reads)?);
            self.parts.change().keep(key, found.clone());
            Ok(found)
        };
        parts.iter().map(one).collect()
    }

    /// How many decisions it holds.
    pub fn len(&self) -> usize {
        let memory = self.memory.look();
        memory.young.len() + memory.old.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What these rules can read of a request.
fn write(key: &mut Vec<u8>, question: &Question<'_>, reads: Reads) {
    let request = question.request;
    key.extend_from_slice(&question.action.to_le_bytes());
    let who = &request.principal;
    if reads.principal >= Much::Kind {
        key.push(who.kind as u8);
    }
    if reads.principal == Much::Whole {
        text(key, &who.id);
        key.extend_from_slice(&who.parents.len().to_le_bytes());
        for parent in &who.parents {
            key.push(parent.kind as u8);
            text(key, &parent.id);
        }
    }
    if reads.resource >= Much::Kind {
        key.push(request.resource.kind as u8);
    }
    if reads.resource == Much::Whole {
        text(key, &request.resource.id);
    }
    // An agent that is asked for belongs to what the asker belongs to if they are the same, and else to nothing.
    if reads.resource == Much::Whole && reads.principal != Much::Whole {
        let same = who.kind == request.resource.kind && who.id == request.resource.id;
        key.push(u8::from(same));
        for parent in who.parents.iter().filter(|_| same) {
            text(key, &parent.id);
        }
    }
    circumstances(key, reads, request);
}

fn circumstances(key: &mut Vec<u8>, reads: Reads, request: &Request) {
    let context = &request.context;
    if reads.fact(Fact::Risk) {
        key.push(context.risk.tier as u8);
        key.extend_from_slice(&context.risk.score.to_le_bytes());
    }
    if reads.fact(Fact::Labels) {
        key.extend_from_slice(&context.labels.len().to_le_bytes());
        context.labels.iter().for_each(|label| text(key, label));
    }
    let texts = [(Fact::Run, &context.run), (Fact::Tier, &context.tier), (Fact::Arguments, &context.arguments)];
    texts.into_iter().filter(|(fact, _)| reads.fact(*fact)).for_each(|(_, value)| text(key, value));
    for (fact, value) in [(Fact::Spent, context.spent), (Fact::Time, context.time), (Fact::Bytes, context.bytes)] {
        if reads.fact(fact) {
            key.extend_from_slice(&value.to_le_bytes());
        }
    }
    let trust = context.trust.map(|score| i64::from(score.hundredths()));
    let numbers = [(Fact::Amount, context.amount), (Fact::Port, context.port.map(i64::from)), (Fact::Trust, trust)];
    for (fact, value) in numbers {
        if reads.fact(fact) {
            key.push(u8::from(value.is_some()));
            key.extend_from_slice(&value.unwrap_or_default().to_le_bytes());
        }
    }
    let texts = [
        (Fact::Device, &context.device),
        (Fact::Method, &context.method),
        (Fact::Scheme, &context.scheme),
        (Fact::Path, &context.path),
        (Fact::ContentType, &context.content_type),
    ];
    for (fact, value) in texts {
        if reads.fact(fact) {
            key.push(u8::from(value.is_some()));
            text(key, value.as_deref().unwrap_or_default());
        }
    }
}

fn text(key: &mut Vec<u8>, text: &str) {
    key.extend_from_slice(&text.len().to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

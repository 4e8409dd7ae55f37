//! Two sets of rules over the recorded past.

use std::fmt;

use super::cache::Cached;
use super::context::Fact;
use super::decide::{Decision, Verdict};
use super::load::Policies;
use super::request::{Question, Request};
use super::schema::Kind;

/// One effect of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// How people find it again.
    pub id: String,
    /// What the rules were asked; `None` if that was not recorded.
    pub request: Option<Box<Request>>,
}

/// One effect about which the two differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// How people find it again.
    pub id: String,
    /// Who, what, for what.
    pub what: String,
    /// The old set's verdict.
    pub was: Verdict,
    /// The new set's verdict.
    pub now: Verdict,
    /// The rules that decide in the new set.
    pub rules: Vec<String>,
}

/// How many effects the two decide alike, and how they differ about the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Decided alike.
    pub same: u64,
    /// Allowed or asked before, denied now.
    pub newly_denied: u64,
    /// Allowed or denied before, asked now.
    pub newly_asked: u64,
    /// Asked or denied before, allowed now.
    pub newly_allowed: u64,
    /// Nobody recorded what the rules were asked.
    pub unknown: u64,
    /// The first few of each sort of difference, in the order of the past.
    pub examples: Vec<Example>,
}

impl Comparison {
    /// How many effects there were.
    pub fn total(&self) -> u64 {
        self.same + self.changed() + self.unknown
    }

    /// Adds what was found in a later part of the past.
    pub fn extend(&mut self, later: Self) {
        self.same += later.same;
        self.newly_denied += later.newly_denied;
        self.newly_asked += later.newly_asked;
        self.newly_allowed += later.newly_allowed;
        self.unknown += later.unknown;
        for example in later.examples {
            if self.wants(&example.now) {
                self.examples.push(example);
            }
        }
    }

    /// Whether another example of this sort is welcome.
    fn wants(&self, now: &Verdict) -> bool {
        self.examples.iter().filter(|known| known.now.name() == now.name()).count() < EXAMPLES
    }

    /// How many the new set decides otherwise.
    pub fn changed(&self) -> u64 {
        self.newly_denied + self.newly_asked + self.newly_allowed
    }
}

/// Examples of each sort of difference.
const EXAMPLES: usize = 5;

/// Decisions that are remembered of either set: the past repeats itself.
const MEMORY: usize = 20_000;

/// Two sets, asked about the past piece by piece.
pub struct Comparing<'a> {
    old: &'a Policies,
    new: &'a Policies,
    cached: Cached,
    found: Comparison,
}

impl<'a> Comparing<'a> {
    /// Nothing was asked yet.
    pub fn new(old: &'a Policies, new: &'a Policies) -> Self {
        Self { old, new, cached: Cached::new(MEMORY), found: Comparison::default() }
    }

    /// Asks both sets again about one effect. The reason of a question is not its verdict: other words for it are no
    /// difference.
    pub fn ask(&mut self, id: &dyn fmt::Display, request: Option<&Request>) {
        let Some(request) = request else {
            self.found.unknown += 1;
            return;
        };
        let (was, now) = match request.check() {
            Ok(action) if lacks_trust(self.old, action, request) || lacks_trust(self.new, action, request) => {
                self.found.unknown += 1;
                return;
            }
            Ok(action) => {
                let question = Question::new(request, action);
                (self.cached.answer(self.old, &question), self.cached.answer(self.new, &question))
            }
            Err(bad) => (Decision::from(&bad), Decision::from(&bad)),
        };
        if was.verdict.name() == now.verdict.name() {
            self.found.same += 1;
            return;
        }
        match &now.verdict {
            Verdict::Deny => self.found.newly_denied += 1,
            Verdict::Ask { .. } => self.found.newly_asked += 1,
            Verdict::Allow => self.found.newly_allowed += 1,
        }
        if self.found.wants(&now.verdict) {
            let (id, what) = (id.to_string(), request.summary());
            self.found.examples.push(Example { id, what, was: was.verdict, now: now.verdict, rules: now.rules });
        }
    }

    /// What came of it since this was last asked.
    pub fn take(&mut self) -> Comparison {
        std::mem::take(&mut self.found)
    }
}

/// Whether these rules read how far the agent was trusted, and nobody wrote that down. Records from before there were
/// scores don't have it, and rules must not be asked as if it had been absent.
fn lacks_trust(policies: &Policies, action: usize, request: &Request) -> bool {
    request.principal.kind == Kind::Agent
        && request.context.trust.is_none()
        && policies.fitting(action, request).reads.fact(Fact::Trust)
}

/// Asks both sets about everything.
pub fn compare(old: &Policies, new: &Policies, past: impl Iterator<Item = Recorded>) -> Comparison {
    let mut comparing = Comparing::new(old, new);
    past.for_each(|Recorded { id, request }| comparing.ask(&id, request.as_deref()));
    comparing.take()
}

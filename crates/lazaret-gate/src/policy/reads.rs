//! What a set of rules can read of a request, found in the rules themselves.
//!
//! Too much is harmless here: it makes the cache forget sooner. Too little would make it lie, so whatever isn't known
//! to read less reads everything.

use cedar_policy::{ActionConstraint, Policy, PrincipalConstraint, ResourceConstraint};
use serde_json::Value;

use super::context::Fact;
use super::scan;

/// How much of the asker, or of what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Much {
    Nothing,
    /// What sort of thing it is.
    Kind,
    /// Its name and what it belongs to.
    Whole,
}

/// The parts of a request that can change what some rules' conditions say. Heads are not among them: those are asked
/// before, and what they answer is which rules are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reads {
    pub(super) principal: Much,
    pub(super) resource: Much,
    /// What is asked; a decision's key has it in any case.
    action: bool,
    /// One bit for each [`Fact`] of the context.
    facts: u32,
}

impl Reads {
    pub(super) const NOTHING: Self =
        Self { principal: Much::Nothing, resource: Much::Nothing, action: false, facts: 0 };

    pub(super) const EVERYTHING: Self =
        Self { principal: Much::Whole, resource: Much::Whole, action: true, facts: u32::MAX };

    /// What either reads.
    pub(super) fn join(self, other: Self) -> Self {
        Self {
            principal: self.principal.max(other.principal),
            resource: self.resource.max(other.resource),
            action: self.action | other.action,
            facts: self.facts | other.facts,
        }
    }

    /// Whether a rule can read this of the context.
    pub(super) fn fact(self, fact: Fact) -> bool {
        self.facts & (1 << fact as u32) != 0
    }

    /// Whether a rule can ask what belongs to what.
    pub(super) fn belongings(self) -> bool {
        self.action || self.principal == Much::Whole || self.resource == Much::Whole
    }

    fn walk(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.walk(item)),
            Value::Object(fields) => {
                for (name, inner) in fields {
                    if !self.known(name, inner) {
                        self.walk(inner);
                    }
                }
            }
            _ => {}
        }
    }

    /// The forms that read less than the whole variable; `false` if this is none of them.
    fn known(&mut self, operator: &str, inner: &Value) -> bool {
        let variable = inner.get("left").and_then(|left| left.get("Var")).and_then(Value::as_str);
        let attribute = inner.get("attr").and_then(Value::as_str);
        match (operator, variable, attribute) {
            ("." | "has", Some("context"), Some(attribute)) => match Fact::named(attribute) {
                Some(fact) => self.facts |= 1 << fact as u16,
                None => *self = Self::EVERYTHING,
            },
            ("is", Some("principal"), _) if inner.get("in").is_none() => {
                self.principal = self.principal.max(Much::Kind);
            }
            ("is", Some("resource"), _) if inner.get("in").is_none() => {
                self.resource = self.resource.max(Much::Kind);
            }
            // What a thing belongs to comes from the request, also when the rule names the thing: `Agent::"a" in App::"b"`.
            ("in", None, _) => *self = Self::EVERYTHING,
            ("is", None, _) if inner.get("in").is_some() => *self = Self::EVERYTHING,
            ("Var", ..) => match inner.as_str() {
                Some("principal") => self.principal = Much::Whole,
                Some("resource") => self.resource = Much::Whole,
                Some("action") => self.action = true,
                _ => *self = Self::EVERYTHING,
            },
            _ => return false,
        }
        true
    }
}

/// A rule without its head, for requests that the head fits: it says the same of them, in less time.
pub(super) struct Conditions {
    pub(super) policy: Policy,
    pub(super) reads: Reads,
}

impl Conditions {
    /// Of a rule whose head says no more than the gate can tell by itself.
    pub(super) fn of(policy: &Policy, text: &str) -> Self {
        let headless = || {
            let bare = Policy::parse(Some(policy.id().clone()), scan::headless(text)?).ok()?;
            let anything = bare.principal_constraint() == PrincipalConstraint::Any
                && bare.action_constraint() == ActionConstraint::Any
                && bare.resource_constraint() == ResourceConstraint::Any;
            let mut reads = Reads::NOTHING;
            reads.walk(bare.to_json().ok()?.get("conditions")?);
            (anything && bare.effect() == policy.effect()).then_some(Self { policy: bare, reads })
        };
        headless().unwrap_or_else(|| Self::whole(policy))
    }

    /// Of a rule that has to be asked as it is.
    pub(super) fn whole(policy: &Policy) -> Self {
        Self { policy: policy.clone(), reads: Reads::EVERYTHING }
    }
}

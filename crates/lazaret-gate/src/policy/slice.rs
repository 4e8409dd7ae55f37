//! The rules that can decide about one request, found without evaluating any. A rule whose head doesn't fit can't match
//! and can't fail, so leaving it out changes no answer; a property test holds this against the whole set.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use cedar_policy::{ActionConstraint, PolicySet};

use super::load::{Policies, Rule};
use super::reads::Reads;
use super::request::Request;
use super::schema::{ACTIONS, Action};
use super::scope::Thing;
use crate::canonical::Digest;

/// The rules that can speak about one action.
pub(super) struct Slice {
    /// Places in [`Policies::rules`].
    pub(super) rules: Vec<usize>,
    /// Those whose heads name nobody and nothing.
    loose: Vec<usize>,
    /// Those whose heads name who asks, and no resource.
    by_principal: HashMap<String, Vec<usize>>,
    /// Those whose heads name what is asked for.
    by_resource: HashMap<String, Vec<usize>>,
    /// What was found for askers of one sort, who share it.
    found: RwLock<HashMap<Vec<usize>, Arc<Fitting>>>,
}

/// Findings that one slice keeps.
const MAX_FOUND: usize = 256;

/// The rules whose heads fit a request.
pub(super) struct Fitting {
    /// Without their heads.
    pub(super) set: PolicySet,
    /// What their conditions read.
    pub(super) reads: Reads,
    /// Names exactly these rules.
    pub(super) digest: Digest,
    rules: Vec<usize>,
    parts: OnceLock<Vec<Part>>,
}

/// Those of them that read the same: a new answer of theirs is needed only when that changes.
pub(super) struct Part {
    pub(super) set: PolicySet,
    pub(super) reads: Reads,
    pub(super) digest: Digest,
}

impl Slice {
    pub(super) fn of(rules: &[Rule], action: &Action) -> Self {
        let mut slice = Self {
            rules: Vec::new(),
            loose: Vec::new(),
            by_principal: HashMap::new(),
            by_resource: HashMap::new(),
            found: RwLock::default(),
        };
        for (place, rule) in rules.iter().enumerate() {
            if !speaks_of(&rule.said.policy.action_constraint(), action) {
                continue;
            }
            slice.rules.push(place);
            let [principal, resource] = &rule.said.head().wants;
            let list = match (principal.named(), resource.named()) {
                (_, Some(id)) => slice.by_resource.entry(id.to_owned()).or_default(),
                (Some(id), None) => slice.by_principal.entry(id.to_owned()).or_default(),
                (None, None) => &mut slice.loose,
            };
            list.push(place);
        }
        slice
    }

    /// The places of the rules whose heads fit, in order.
    fn fitting(&self, rules: &[Rule], request: &Request) -> Vec<usize> {
        let [who, what] = Thing::of(request);
        let mut places = self.loose.clone();
        places.extend(who.names().filter_map(|name| self.by_principal.get(name)).flatten());
        places.extend(what.names().filter_map(|name| self.by_resource.get(name)).flatten());
        places.retain(|place| {
            let [principal, resource] = &rules[*place].said.head().wants;
            principal.fits(&who) && resource.fits(&what)
        });
        places.sort_unstable();
        places.dedup();
        places
    }
}

impl Policies {
    /// The rules that can speak about an action. The others can't match it, and their scopes can't fail.
    pub(super) fn slice(&self, action: usize) -> &Slice {
        self.slices[action].get_or_init(|| Slice::of(&self.rules, &ACTIONS[action]))
    }

    /// The rules that can decide about a request for this action.
    pub(super) fn fitting(&self, action: usize, request: &Request) -> Arc<Fitting> {
        let slice = self.slice(action);
        let places = slice.fitting(&self.rules, request);
        if let Some(known) = slice.found.read().unwrap_or_else(PoisonError::into_inner).get(&places) {
            return Arc::clone(known);
        }
        let reads = places.iter().map(|place| self.rules[*place].said.conditions().reads);
        let reads = reads.fold(Reads::NOTHING, Reads::join);
        let fitting = Arc::new(Fitting {
            set: self.some(&places),
            reads,
            digest: self.digest_of(&places),
            rules: places.clone(),
            parts: OnceLock::new(),
        });
        // Whoever found the same meanwhile has an equal one.
        let mut found = slice.found.write().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= MAX_FOUND {
            found.clear();
        }
        found.insert(places, Arc::clone(&fitting));
        fitting
    }

    /// A request's rules, by what they read.
    pub(super) fn parts<'a>(&self, fitting: &'a Fitting) -> &'a [Part] {
        fitting.parts.get_or_init(|| {
            let mut alike: BTreeMap<Reads, Vec<usize>> = BTreeMap::new();
            for place in &fitting.rules {
                alike.entry(self.rules[*place].said.conditions().reads).or_default().push(*place);
            }
            let part = |(reads, places): (Reads, Vec<usize>)| Part {
                set: self.some(&places),
                reads,
                digest: self.digest_of(&places),
            };
            alike.into_iter().map(part).collect()
        })
    }

    fn some(&self, places: &[usize]) -> PolicySet {
        // Names are unique, so this can't fail; if it did, every rule would still be asked.
        let policies = places.iter().map(|place| self.rules[*place].said.conditions().policy.clone());
        PolicySet::from_policies(policies).unwrap_or_else(|_| self.whole())
    }

    fn digest_of(&self, places: &[usize]) -> Digest {
        let all: Vec<u8> = places.iter().flat_map(|place| self.rules[*place].said.digest.0).collect();
        Digest::of(&all)
    }

    /// All rules as one set, as Cedar would have them.
    pub fn whole(&self) -> PolicySet {
        PolicySet::from_policies(self.rules.iter().map(|rule| rule.said.policy.clone())).unwrap_or_default()
    }
}

/// Whether a rule with this in its head can match an action.
pub(super) fn speaks_of(constraint: &ActionConstraint, action: &Action) -> bool {
    let names = |id: &str| id == action.name || id == action.family;
    match constraint {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(uid) => uid.id().unescaped() == action.name,
        ActionConstraint::In(uids) => uids.iter().any(|uid| names(uid.id().unescaped())),
    }
}

//! Reading rules: all or nothing, and every problem with its place.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use cedar_policy::ffi::DetailedError;
use cedar_policy::{
    Effect, Policy, PolicyId, PolicySet, ValidationError, ValidationMode, ValidationWarning, Validator,
};

use super::nearest::Clause;
use super::reads::Conditions;
use super::request::clip;
use super::scan::{self, Fault};
use super::schema::{ACTIONS, Engine, Shape, actions_of};
use super::scope::Head;
use super::slice::{Slice, speaks_of};
use super::{MAX_FILE, MAX_FILES, MAX_PROBLEMS, MAX_REASON, MAX_RULE_ID, MAX_RULES};
use crate::canonical::{Digest, NotCanonical, decode, encode};
use crate::limits::MAX_VALUE;

/// Where something stands. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// Its line.
    pub line: usize,
    /// The character of that line.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a set of files isn't a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}{}", if hint.is_empty() { String::new() } else { format!(" ({hint})") })]
pub struct Problem {
    /// Where.
    pub at: Place,
    /// What is wrong.
    pub what: String,
    /// What would mend it; may be empty.
    pub hint: String,
}

/// One rule, as it was written.
pub(super) struct Rule {
    pub(super) file: usize,
    pub(super) range: Range<usize>,
    pub(super) said: Arc<Said>,
}

/// What a rule says. All of it comes from its own text, so it holds wherever that text stands, in any set.
pub(super) struct Said {
    pub(super) id: String,
    text: String,
    pub(super) policy: Policy,
    /// `@requireApproval`.
    pub(super) asks: Option<String>,
    /// `@maxResponse`, in bytes.
    pub(super) max_response: Option<u64>,
    /// Of the text.
    pub(super) digest: Digest,
    head: OnceLock<Head>,
    conditions: OnceLock<Conditions>,
    /// What has to hold, piece by piece; parsed when somebody first asks why.
    pub(super) clauses: OnceLock<Vec<Clause>>,
}

impl Said {
    pub(super) fn head(&self) -> &Head {
        self.head.get_or_init(|| Head::of(&self.policy))
    }

    /// What is left to ask once the head fits.
    pub(super) fn conditions(&self) -> &Conditions {
        self.conditions.get_or_init(|| match self.head().exact {
            true => Conditions::of(&self.policy, &self.text),
            false => Conditions::whole(&self.policy),
        })
    }
}

/// A set of rules that parsed and fits the schema. Empty, it denies everything.
pub struct Policies {
    pub(super) texts: Vec<(String, String)>,
    pub(super) rules: Vec<Rule>,
    by_id: BTreeMap<String, usize>,
    digest: Digest,
    /// By action, made when first asked for: an edit should act at once, and most actions are never asked for.
    pub(super) slices: Vec<OnceLock<Slice>>,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policies({} rules, {})", self.rules.len(), self.digest.short())
    }
}

impl Policies {
    /// Reads a set of files, given as name and text. Their order doesn't matter.
    pub fn load<N: AsRef<str>, T: AsRef<str>>(files: &[(N, T)]) -> Result<Self, Vec<Problem>> {
        Self::load_after(files, None)
    }

    /// The same, faster where rules stand word for word in a set that was loaded before: those were parsed and checked.
    pub fn load_after<N: AsRef<str>, T: AsRef<str>>(
        files: &[(N, T)],
        before: Option<&Self>,
    ) -> Result<Self, Vec<Problem>> {
        let mut texts: Vec<_> =
            files.iter().map(|(name, text)| (name.as_ref().to_owned(), text.as_ref().to_owned())).collect();
        texts.sort();
        let before = before.into_iter().flat_map(|set| set.rules.iter().map(|rule| (set.text_of(rule), &rule.said)));
        let (rules, by_id, problems) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut loader = Loader { texts, rules, by_id, fresh: Vec::new(), before: before.collect(), problems };
        loader.files();
        loader.validate();
        loader.finish()
    }

    /// Reads what [`Self::blob`] wrote.
    pub fn from_blob(blob: &[u8]) -> Result<Self, Vec<Problem>> {
        let texts: Vec<(String, String)> = decode(blob).map_err(|why| {
            let at = Place { file: "the stored policy".to_owned(), line: 1, column: 1 };
            vec![Problem { at, what: why.to_string(), hint: String::new() }]
        })?;
        Self::load(&texts)
    }

    /// The files, by name.
    pub fn texts(&self) -> &[(String, String)] {
        &self.texts
    }

    /// The files as one value to store; [`Self::digest`] is its digest.
    pub fn blob(&self) -> Result<Vec<u8>, NotCanonical> {
        encode(&self.texts)
    }

    /// What tells this set from any other.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none, so that everything is denied.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The names of the rules, in the order of the files.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.said.id.as_str())
    }

    /// A rule's text and where it stands.
    pub fn source(&self, id: &str) -> Option<(&str, Place)> {
        self.rule(id).map(|rule| (self.text_of(rule), self.place_of(rule)))
    }

    pub(super) fn rule(&self, id: &str) -> Option<&Rule> {
        self.by_id.get(id).map(|index| &self.rules[*index])
    }

    pub(super) fn text_of(&self, rule: &Rule) -> &str {
        &self.texts[rule.file].1[rule.range.clone()]
    }

    pub(super) fn place_of(&self, rule: &Rule) -> Place {
        let (file, text) = &self.texts[rule.file];
        let (line, column) = scan::place(text, rule.range.start);
        Place { file: file.clone(), line, column }
    }
}

struct Loader<'a> {
    texts: Vec<(String, String)>,
    rules: Vec<Rule>,
    by_id: BTreeMap<String, usize>,
    /// Places of the rules that nobody has checked yet.
    fresh: Vec<usize>,
    /// Rules by their text that somebody has.
    before: HashMap<&'a str, &'a Arc<Said>>,
    problems: Vec<Problem>,
}

/// All that may stand before a rule.
const ANNOTATIONS: [&str; 3] = ["id", "requireApproval", "maxResponse"];

/// Rules that are parsed before anybody looks whether there are problems enough.
const BATCH: usize = 1_000;

/// Fewer rules than this aren't worth a thread.
const FEW: usize = 24;

/// Does the same to many things, on every processor.
fn each<T: Sync, R: Send>(things: &[T], work: impl Fn(&[T]) -> Vec<R> + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = things.len().div_ceil(processors).max(FEW);
    if things.len() <= share {
        return work(things);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let (mine, others) = things.split_at(share);
        let others: Vec<_> = others.chunks(share).map(|share| (share, scope.spawn(move || work(share)))).collect();
        let mut done = work(mine);
        // A thread that could not finish is made up for here, where a second panic is seen.
        others.into_iter().for_each(|(share, other)| done.extend(other.join().unwrap_or_else(|_| work(share))));
        done
    })
}

impl Loader<'_> {
    fn problem(&mut self, file: usize, at: usize, what: impl Into<String>, hint: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            let (name, text) = &self.texts[file];
            let (line, column) = scan::place(text, at);
            let at = Place { file: name.clone(), line, column };
            self.problems.push(Problem { at, what: what.into(), hint: hint.into() });
        }
    }

    fn detailed(&mut self, file: usize, base: usize, error: &DetailedError) {
        let at = base + error.source_locations.first().map_or(0, |label| label.loc.start);
        self.problem(file, at, scan_line(&error.message), scan_line(error.help.as_deref().unwrap_or_default()));
        for related in &error.related {
            self.detailed(file, base, related);
        }
    }

    fn files(&mut self) {
        if self.texts.len() > MAX_FILES {
            self.problem(MAX_FILES, 0, format!("more than {MAX_FILES} files"), "put rules that belong together in one");
            return;
        }
        for file in 0..self.texts.len() {
            let (name, text) = &self.texts[file];
            if file > 0 && self.texts[file - 1].0 == *name {
                self.problem(file, 0, "two files of this name", "rename one");
                continue;
            }
            if text.len() > MAX_FILE {
                let what = format!("the file has {} bytes, the most is {MAX_FILE}", text.len());
                self.problem(file, 0, what, "split it");
                continue;
            }
            match scan::rules(text, MAX_RULES.saturating_sub(self.rules.len())) {
                Ok(found) => found.chunks(BATCH).for_each(|some| self.rules(file, some)),
                Err(Fault { at, what, hint }) => self.problem(file, at, what, hint),
            }
        }
    }

    /// Takes in rules that stand in a file: those that are known, and those that parse.
    fn rules(&mut self, file: usize, ranges: &[Range<usize>]) {
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let text = |range: &Range<usize>| &self.texts[file].1[range.clone()];
        let unknown: Vec<&str> = ranges.iter().map(text).filter(|text| !self.before.contains_key(text)).collect();
        let parse = |text: &&str| Policy::parse(None, text).map_err(|why| Box::new(DetailedError::from(&why)));
        let parsed = each(&unknown, |some| some.iter().map(parse).collect());
        let mut parsed = parsed.into_iter();
        for range in ranges {
            let known = self.before.get(&self.texts[file].1[range.clone()]).map(|said| Arc::clone(said));
            if let Some(said) = known {
                self.rule(file, range.clone(), said);
            } else if let Some(said) = parsed.next().and_then(|parsed| self.parsed(file, range, parsed)) {
                self.fresh.push(self.rules.len());
                self.rule(file, range.clone(), said);
            }
        }
    }

    /// What a rule says, if it is one of ours.
    fn parsed(
        &mut self,
        file: usize,
        range: &Range<usize>,
        parsed: Result<Policy, Box<DetailedError>>,
    ) -> Option<Arc<Said>> {
        let start = range.start;
        let policy = match parsed {
            Ok(policy) => policy,
            Err(error) => {
                self.detailed(file, start, &error);
                return None;
            }
        };
        let marks: BTreeMap<String, String> =
            policy.annotations().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        for name in marks.keys().filter(|name| !ANNOTATIONS.contains(&name.as_str())) {
            let hint = "there are `@id`, `@requireApproval` and `@maxResponse`; a comment starts with `//`";
            self.problem(file, start, format!("`@{name}` is not an annotation"), hint);
        }
        let asks = marks.get("requireApproval").cloned();
        if let Some(reason) = &asks {
            self.reason(file, start, reason, policy.effect());
        }
        let max_response = marks.get("maxResponse").and_then(|size| self.size(file, start, size, &policy));
        let Some(id) = marks.get("id") else {
            self.problem(file, start, "the rule has no name", "put `@id(\"some-name\")` before it");
            return None;
        };
        let lawful = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if id.is_empty() || id.len() > MAX_RULE_ID || !id.bytes().all(lawful) {
            let what = format!("`{}` can't name a rule", id.escape_debug());
            self.problem(file, start, what, format!("use 1 to {MAX_RULE_ID} letters, digits, `-`, `_` and `.`"));
            return None;
        }
        let text = self.texts[file].1[range.clone()].to_owned();
        Some(Arc::new(Said {
            id: id.clone(),
            policy: policy.new_id(PolicyId::new(id)),
            asks,
            max_response,
            digest: Digest::of(text.as_bytes()),
            text,
            head: OnceLock::new(),
            conditions: OnceLock::new(),
            clauses: OnceLock::new(),
        }))
    }

    fn rule(&mut self, file: usize, range: Range<usize>, said: Arc<Said>) {
        if let Some(other) = self.by_id.get(&said.id).map(|index| &self.rules[*index]) {
            let (line, _) = scan::place(&self.texts[other.file].1, other.range.start);
            let hint = format!("rename one; the other stands in {} on line {line}", self.texts[other.file].0);
            self.problem(file, range.start, format!("a second rule named `{}`", said.id), hint);
            return;
        }
        self.by_id.insert(said.id.clone(), self.rules.len());
        self.rules.push(Rule { file, range, said });
    }

    fn reason(&mut self, file: usize, at: usize, reason: &str, effect: Effect) {
        if effect == Effect::Forbid {
            let hint = "only a permit can become a question; drop the annotation, or permit";
            self.problem(file, at, "`@requireApproval` on a forbid", hint);
        }
        if reason.trim().is_empty() || reason.len() > MAX_REASON || reason.chars().any(char::is_control) {
            let hint = format!("say in one line of 1 to {MAX_REASON} bytes what the approver has to judge");
            self.problem(file, at, "`@requireApproval` without a reason that can be shown", hint);
        }
    }

    /// How many bytes a response may have, if it stands where it means something.
    fn size(&mut self, file: usize, at: usize, written: &str, policy: &Policy) -> Option<u64> {
        let constraint = policy.action_constraint();
        let answered = ACTIONS.iter().filter(|action| action.shape == Shape::Http);
        if policy.effect() == Effect::Forbid {
            let hint = "what is forbidden has no response; drop the annotation, or permit";
            self.problem(file, at, "`@maxResponse` on a forbid", hint);
        } else if !answered.into_iter().any(|action| speaks_of(&constraint, action)) {
            let hint = "only `http.fetch` has a response; drop the annotation, or permit that";
            self.problem(file, at, "`@maxResponse` on a permit that no request can match", hint);
        }
        let bytes = bytes_of(written).filter(|bytes| *bytes <= MAX_VALUE as u64);
        if bytes.is_none() {
            let what =
                format!("`@maxResponse` of `{}`, which is not a size", clip(&written.escape_debug().to_string(), 40));
            let hint =
                format!("write bytes, as in \"65536\", \"64KiB\" or \"1MiB\"; the host takes {MAX_VALUE} at most");
            self.problem(file, at, what, hint);
        }
        bytes
    }

    /// Checks types, attributes and actions against the schema. Warnings count: a rule that can never apply, or whose
    /// text isn't what it looks like, is not what its author meant. Each rule is checked by itself, so those that were
    /// checked in another set need it no more.
    fn validate(&mut self) {
        if !self.problems.is_empty() {
            return;
        }
        let engine = match Engine::get() {
            Ok(engine) => engine,
            Err(why) => return self.broken(why),
        };
        let rules = &self.rules;
        let mut alike: BTreeMap<u32, Vec<&Policy>> = BTreeMap::new();
        for policy in self.fresh.iter().map(|place| &rules[*place].said.policy) {
            let constraint = policy.action_constraint();
            alike.entry(actions_of(|action| speaks_of(&constraint, action))).or_default().push(policy);
        }
        let work = alike.into_iter().flat_map(|(actions, policies)| {
            let validator = engine.validator(actions, policies.len());
            policies.into_iter().map(move |policy| (validator.clone(), policy))
        });
        let work: Vec<_> = work.collect();
        let complaints = each(&work, |some| some.iter().flat_map(|(with, policy)| check(with, policy)).collect());
        // One rule is checked once for each sort of asker, so the same complaint comes many times; and that a rule can
        // never apply is worth saying only if nothing else is wrong with it.
        let mut found: BTreeMap<(usize, usize), DetailedError> = BTreeMap::new();
        let mut general: BTreeMap<(usize, usize), DetailedError> = BTreeMap::new();
        for Complaint { id, vague, error } in complaints {
            let Some(index) = self.by_id.get(&id).copied() else { continue };
            let place = error.source_locations.first().map_or(0, |label| label.loc.start);
            let message = error.message.replace(&format!("for policy `{id}`, "), "");
            let list = if vague { &mut general } else { &mut found };
            list.entry((index, place)).or_insert(DetailedError { message, ..error });
        }
        let named: BTreeSet<usize> = found.keys().map(|(index, _)| *index).collect();
        general.retain(|(index, _), _| !named.contains(index));
        for ((index, _), error) in found.into_iter().chain(general) {
            let (file, start) = (self.rules[index].file, self.rules[index].range.start);
            self.detailed(file, start, &error);
        }
        self.problems.sort_by(|a, b| (&a.at.file, a.at.line, a.at.column).cmp(&(&b.at.file, b.at.line, b.at.column)));
    }

    fn broken(&mut self, why: &str) {
        let at = Place { file: "lazaret.cedarschema".to_owned(), line: 1, column: 1 };
        self.problems.push(Problem { at, what: why.to_owned(), hint: String::new() });
    }

    fn finish(self) -> Result<Policies, Vec<Problem>> {
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let digest = Digest::of_value(&self.texts).map_err(|why| {
            let at = Place { file: String::new(), line: 1, column: 1 };
            vec![Problem { at, what: why.to_string(), hint: String::new() }]
        })?;
        let slices = ACTIONS.iter().map(|_| OnceLock::new()).collect();
        Ok(Policies { texts: self.texts, rules: self.rules, by_id: self.by_id, digest, slices })
    }
}

/// A size as rules spell it: decimal digits without a sign or leading zeros, and perhaps a unit.
fn bytes_of(written: &str) -> Option<u64> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("", 1)];
    let (digits, unit) = units.iter().find_map(|(name, unit)| written.strip_suffix(name).map(|rest| (rest, *unit)))?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let lawful = plain && (digits == "0" || !digits.starts_with('0'));
    digits.parse::<u64>().ok().filter(|_| lawful)?.checked_mul(unit)
}

/// A message of the parser on one line.
fn scan_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the schema has against a rule.
struct Complaint {
    id: String,
    /// It only says that the rule can never apply.
    vague: bool,
    error: DetailedError,
}

fn check(validator: &Validator, policy: &Policy) -> Vec<Complaint> {
    let mut set = PolicySet::new();
    if let Err(why) = set.add(policy.clone()) {
        let error = DetailedError { message: why.to_string(), ..DetailedError::default() };
        return vec![Complaint { id: policy.id().to_string(), vague: false, error }];
    }
    let result = validator.validate(&set, ValidationMode::Strict);
    let errors = result.validation_errors().map(|error| Complaint {
        id: error.policy_id().to_string(),
        vague: matches!(error, ValidationError::InvalidActionApplication(_)),
        error: DetailedError::from(error),
    });
    let warnings = result.validation_warnings().map(|warning| Complaint {
        id: warning.policy_id().to_string(),
        vague: matches!(
            warning,
            ValidationWarning::ImpossiblePolicy(_) | ValidationWarning::InvalidActionApplication(_)
        ),
        error: DetailedError::from(warning),
    });
    errors.chain(warnings).collect()
}

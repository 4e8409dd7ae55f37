//! Cedar's denial by default names nothing. This finds the permit that came closest, and the part of it that failed, by
//! asking its parts one by one.

use cedar_policy::{Effect, Entities, EvalResult, Expression, eval_expression};

use super::MAX_CANDIDATES;
use super::load::{Policies, Rule};
use super::reads::Reads;
use super::request::{Question, Request};
use super::scan;
use super::schema::ACTIONS;
use super::scope::{Thing, Want};

/// A `when` or `unless`, ready to be asked.
pub(super) struct Clause {
    unless: bool,
    pieces: Vec<Piece>,
}

struct Piece {
    text: String,
    expression: Expression,
}

/// A rule that nearly permitted, and what was missing.
pub(super) struct Nearest<'a> {
    pub(super) rule: &'a Rule,
    /// As the rule's author wrote it.
    pub(super) failed: String,
}

/// How near: parts of the scope that hold, pieces of clauses that do, and (fewer is nearer) that don't.
type Rank = (usize, usize, std::cmp::Reverse<usize>);

impl Policies {
    /// The permit for this action that came closest.
    pub(super) fn nearest(&self, request: &Request, action: usize) -> Option<Nearest<'_>> {
        let question = Question::new(request, action);
        let (asked, entities) = question.prepare(Reads::EVERYTHING).ok()?;
        let slice = self.slice(action);
        let [who, what] = Thing::of(request);
        let permits = slice.rules.iter().map(|index| &self.rules[*index]);
        let permits = permits.filter(|rule| rule.said.policy.effect() == Effect::Permit);
        let mut candidates: Vec<(usize, Option<String>, &Rule)> = permits
            .map(|rule| {
                let [principal, resource] = &rule.said.head().wants;
                let missed =
                    |name: &str, want: &Want, thing: &Thing<'_>| (!want.fits(thing)).then(|| format!("{name}{want}"));
                let failed = [missed("principal", principal, &who), missed("resource", resource, &what)];
                let holds = failed.iter().filter(|part| part.is_none()).count();
                (holds, failed.into_iter().flatten().next(), rule)
            })
            .collect();
        // Stable: of two that are as near, the one that stands first.
        candidates.sort_by_key(|(holds, ..)| std::cmp::Reverse(*holds));
        candidates.truncate(MAX_CANDIDATES);
        let mut best: Option<(Rank, Nearest<'_>)> = None;
        for (holds, scope, rule) in candidates {
            let (rank, failed) = match scope {
                Some(failed) => ((holds, 0, std::cmp::Reverse(0)), Some(failed)),
                None => {
                    let (held, missed, failed) = ask(self.clauses(rule), &asked, entities);
                    ((holds, held, std::cmp::Reverse(missed)), failed)
                }
            };
            if let (true, Some(failed)) = (best.as_ref().is_none_or(|(best, _)| rank > *best), failed) {
                best = Some((rank, Nearest { rule, failed }));
            }
        }
        best.map(|(_, nearest)| nearest).or_else(|| self.relative(action))
    }

    /// A permit of the same family, if none speaks of the action itself.
    fn relative(&self, action: usize) -> Option<Nearest<'_>> {
        let family = ACTIONS.iter().enumerate().filter(|(_, other)| other.family == ACTIONS[action].family);
        let rules = family.flat_map(|(index, _)| self.slice(index).rules.iter());
        let rule = rules.map(|index| &self.rules[*index]).find(|rule| rule.said.policy.effect() == Effect::Permit)?;
        Some(Nearest { rule, failed: format!("action == Action::\"{}\"", ACTIONS[action].name) })
            .filter(|_| self.slice(action).rules.iter().all(|index| self.rules[*index].said.id != rule.said.id))
    }

    fn clauses<'a>(&self, rule: &'a Rule) -> &'a [Clause] {
        rule.said.clauses.get_or_init(|| {
            let text = self.text_of(rule);
            scan::clauses(text).into_iter().filter_map(|clause| parse(text, clause)).collect()
        })
    }
}

/// Parses the pieces of a clause, or the clause as one piece.
fn parse(rule: &str, clause: scan::Clause) -> Option<Clause> {
    let piece = |range: std::ops::Range<usize>| {
        let text = rule[range].trim();
        text.parse::<Expression>().ok().map(|expression| Piece { text: scan::squeeze(text), expression })
    };
    let whole = clause.pieces.first()?.start..clause.pieces.last()?.end;
    let pieces: Option<Vec<Piece>> = clause.pieces.into_iter().map(piece).collect();
    let pieces = pieces.or_else(|| piece(whole).map(|whole| vec![whole]))?;
    Some(Clause { unless: clause.unless, pieces })
}

/// How many pieces hold and don't, and the first that doesn't.
fn ask(clauses: &[Clause], asked: &cedar_policy::Request, entities: &Entities) -> (usize, usize, Option<String>) {
    let (mut held, mut missed, mut first) = (0, 0, None);
    for clause in clauses {
        for piece in &clause.pieces {
            let wanted = EvalResult::Bool(!clause.unless);
            let answer = eval_expression(asked, entities, &piece.expression);
            if matches!(&answer, Ok(answer) if *answer == wanted) {
                held += 1;
                continue;
            }
            missed += 1;
            let word = if clause.unless { "unless" } else { "when" };
            first.get_or_insert_with(|| format!("{word} {{ {} }}", piece.text));
        }
    }
    (held, missed, first)
}

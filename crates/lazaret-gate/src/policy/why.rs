//! A decision, explained: the same words in refusals, in the journal and on the command line.

use std::fmt;

use super::decide::{Decision, Verdict};
use super::load::{Place, Policies};
use super::request::{Request, clip};
use super::scan;
use super::schema::{ACTIONS, Shape};

/// A rule that the explanation speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its name.
    pub id: String,
    /// Where it stands.
    pub at: Place,
    /// Its text, as it was written.
    pub text: String,
}

/// A verdict with its grounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The verdict itself.
    pub decision: Decision,
    /// Who, what, for what.
    pub asked: String,
    /// The rules that decided.
    pub rules: Vec<Shown>,
    /// For a denial by default: the permit that came closest, and the part of it that failed.
    pub nearest: Option<(Shown, String)>,
    /// The action and the thing it was asked for.
    wanted: String,
    /// Whether it is of a kind that has a response.
    answered: bool,
}

impl Policies {
    /// Asks the rules, and why.
    pub fn why(&self, request: &Request) -> Why {
        self.explain(request, self.decide(request))
    }

    /// Explains a decision that this set has made about this request.
    pub fn explain(&self, request: &Request, decision: Decision) -> Why {
        let show = |rule: &super::load::Rule| Shown {
            id: rule.said.id.clone(),
            at: self.place_of(rule),
            text: self.text_of(rule).to_owned(),
        };
        let by_default = decision.verdict == Verdict::Deny && decision.rules.is_empty() && decision.errors.is_empty();
        let nearest = request.check().ok().filter(|_| by_default).and_then(|action| self.nearest(request, action));
        Why {
            asked: request.summary(),
            rules: decision.rules.iter().filter_map(|id| self.rule(id)).map(show).collect(),
            nearest: nearest.map(|nearest| (show(nearest.rule), nearest.failed)),
            wanted: format!(
                "`{}` on {}",
                clip(&request.action.escape_debug().to_string(), 80),
                clip(&request.resource.to_string(), 120)
            ),
            answered: ACTIONS.iter().any(|action| action.name == request.action && action.shape == Shape::Http),
            decision,
        }
    }
}

/// How much of a clause stands in one line.
const CLAUSE: usize = 200;

impl Why {
    /// The grounds in one line.
    pub fn reason(&self) -> String {
        let because = match &self.decision.verdict {
            Verdict::Allow => format!("{} permits it{}", self.named(), self.limited()),
            Verdict::Ask { reason } => format!("{} asks first: {reason}{}", self.named(), self.limited()),
            Verdict::Deny if !self.decision.errors.is_empty() => {
                format!("it can't be decided: {}", clip(&self.decision.errors.join("; "), 2 * CLAUSE))
            }
            Verdict::Deny if !self.rules.is_empty() => format!("{} forbids it", self.named()),
            Verdict::Deny => match &self.nearest {
                Some((rule, failed)) => format!(
                    "no rule permits it; the nearest is {}, of which failed `{}`",
                    named(rule),
                    clip(failed, CLAUSE)
                ),
                None => "no rule permits it, and none comes near".to_owned(),
            },
        };
        format!("{}: {because}", self.asked)
    }

    /// What an operator or approver would have to change. Never a way round.
    pub fn remedy(&self) -> String {
        match &self.decision.verdict {
            Verdict::Allow => "nothing has to change".to_owned(),
            Verdict::Ask { .. } => "an approver can allow it".to_owned(),
            Verdict::Deny => match (self.rules.first(), &self.nearest) {
                (Some(rule), _) => format!("an operator can change {} in {}", quoted(&rule.id), rule.at.file),
                (None, _) if !self.decision.errors.is_empty() => {
                    "the ask itself has to change; no rule allows this".to_owned()
                }
                (None, Some((rule, _))) => format!(
                    "an operator can widen {} in {}, or add a permit for {}",
                    quoted(&rule.id),
                    rule.at.file,
                    self.wanted
                ),
                (None, None) => format!("an operator can add a permit for {}", self.wanted),
            },
        }
    }

    /// How large a response may be, if it is about one and a rule says so.
    pub fn response(&self) -> Option<String> {
        let most = self.decision.max_response.as_ref().filter(|_| self.answered)?;
        Some(format!("at most {} bytes, by {}", most.bytes, quoted(&most.rule)))
    }

    fn limited(&self) -> String {
        self.response().map_or_else(String::new, |most| format!("; the response may have {most}"))
    }

    fn named(&self) -> String {
        let names: Vec<String> = self.rules.iter().take(3).map(named).collect();
        let more = if self.rules.len() > 3 { format!(" and {} more", self.rules.len() - 3) } else { String::new() };
        format!("{}{more}", names.join(", "))
    }
}

fn quoted(id: &str) -> String {
    format!("rule `{id}`")
}

fn named(rule: &Shown) -> String {
    format!("rule `{}` ({}:{})", rule.id, rule.at.file, rule.at.line)
}

/// The widest line that is printed.
const COLUMNS: usize = 74;

/// Rules that are printed whole.
const SHOWN: usize = 4;

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut page = Page::default();
        page.put("", &format!("{}: {}", self.decision.verdict.name(), self.asked));
        if let Verdict::Ask { reason } = &self.decision.verdict {
            page.put("  reason:  ", reason);
        }
        if let Some(most) = self.response() {
            page.put("  answer:  ", &most);
        }
        for error in &self.decision.errors {
            page.put("  error:   ", &clip(&scan_line(error), 4 * COLUMNS));
        }
        for rule in self.rules.iter().take(SHOWN) {
            page.rule("  rule:    ", rule);
        }
        if self.rules.len() > SHOWN {
            page.put("  ", &format!("and {} rules more", self.rules.len() - SHOWN));
        }
        if let Some((rule, failed)) = &self.nearest {
            page.put("  ", "no rule permits it");
            page.rule("  nearest: ", rule);
            page.put("  failed:  ", &clip(failed, 4 * COLUMNS));
        } else if self.decision.verdict == Verdict::Deny && self.rules.is_empty() && self.decision.errors.is_empty() {
            page.put("  ", "no rule permits it, and none comes near");
        }
        if self.decision.verdict != Verdict::Allow {
            page.put("  remedy:  ", &self.remedy());
        }
        f.write_str(page.0.join("\n").as_str())
    }
}

fn scan_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines of bounded width.
#[derive(Default)]
struct Page(Vec<String>);

impl Page {
    fn rule(&mut self, head: &str, rule: &Shown) {
        self.put(head, &format!("{} ({})", rule.id, rule.at));
        self.put("    ", &clip(&scan::squeeze(&rule.text), 4 * COLUMNS));
    }

    /// Puts a text behind a head, in as many lines as it takes.
    fn put(&mut self, head: &str, text: &str) {
        let indent = head.chars().count();
        let mut line = head.to_owned();
        let mut width = indent;
        for word in text.split(' ') {
            let mut word: Vec<char> = word.chars().collect();
            if width > indent && width + 1 + word.len() > COLUMNS {
                self.0.push(std::mem::replace(&mut line, " ".repeat(indent)));
                width = indent;
            } else if width > indent {
                line.push(' ');
                width += 1;
            }
            while width + word.len() > COLUMNS {
                let rest = word.split_off(COLUMNS - width);
                line.extend(word);
                self.0.push(std::mem::replace(&mut line, " ".repeat(indent)));
                (word, width) = (rest, indent);
            }
            width += word.len();
            line.extend(word);
        }
        self.0.push(line);
    }
}

//! Rules tested as data: a request, the verdict it should get, and the rule that should give it.
//!
//! ```toml
//! policies = "locked-down"          # which set the cases are for; the caller chooses
//!
//! [defaults]                        # for every case that doesn't say otherwise
//! principal = { kind = "Agent", id = "clerk" }
//! context = { run = "r-1", tier = "A" }
//!
//! [[case]]
//! name = "a read goes through"
//! action = "http.fetch"
//! resource = { kind = "Host", id = "example.com" }
//! context = { method = "GET", scheme = "https", port = 443, path = "/", risk = { tier = "medium", score = 400 } }
//! expect = "allow"
//! rule = "web-reads"                # or `rules = ["a", "b"]`; without, any
//! ```

use std::fmt;

use serde::Deserialize;
use toml::{Table, Value};

use super::load::Policies;
use super::request::Request;
use super::scan;

/// The files of cases for the presets, with their names.
pub const SHIPPED: [(&str, &str); 3] = [
    ("locked-down.toml", include_str!("../../../../tests/policy/locked-down.toml")),
    ("balanced.toml", include_str!("../../../../tests/policy/balanced.toml")),
    ("open.toml", include_str!("../../../../tests/policy/open.toml")),
];

/// A file of cases. It is read whole.
pub const MAX_CASES: usize = 10_000;

/// A file that isn't one of cases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadCases {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// What one case gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// The case's name.
    pub name: String,
    /// What the file expects.
    pub expected: String,
    /// What the rules say.
    pub found: String,
    /// Whether that is what was expected.
    pub passed: bool,
}

impl fmt::Display for CaseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, expected, found, passed } = self;
        if *passed { write!(f, "{name}: {found}") } else { write!(f, "{name}: expected {expected}, found {found}") }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    policies: Option<String>,
    #[serde(default)]
    defaults: Table,
    #[serde(default)]
    case: Vec<toml::Spanned<Table>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    name: String,
    expect: Expect,
    #[serde(default)]
    rule: Option<String>,
    #[serde(default)]
    rules: Option<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expect {
    Allow,
    Deny,
    Ask,
}

impl Expect {
    fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

fn read(text: &str) -> Result<File, BadCases> {
    if text.len() > super::MAX_FILE {
        return Err(BadCases { line: 1, what: format!("the file is larger than {} bytes", super::MAX_FILE) });
    }
    let file: File = toml::from_str(text).map_err(|why| {
        let line = why.span().map_or(1, |span| scan::place(text, span.start).0);
        BadCases { line, what: why.message().to_owned() }
    })?;
    if file.case.len() > MAX_CASES {
        return Err(BadCases { line: 1, what: format!("more than {MAX_CASES} cases") });
    }
    Ok(file)
}

/// The set that the cases are for, if the file says so.
pub fn subject(text: &str) -> Result<Option<String>, BadCases> {
    read(text).map(|file| file.policies)
}

/// Asks every case of a file.
pub fn run(policies: &Policies, text: &str) -> Result<Vec<CaseResult>, BadCases> {
    let file = read(text)?;
    let one = |case: toml::Spanned<Table>| {
        let line = scan::place(text, case.span().start).0;
        check(policies, &file.defaults, case.into_inner()).map_err(|what| BadCases { line, what })
    };
    file.case.into_iter().map(one).collect()
}

fn check(policies: &Policies, defaults: &Table, mut case: Table) -> Result<CaseResult, String> {
    let mut expected = Table::new();
    for name in ["name", "expect", "rule", "rules"] {
        expected.extend(case.remove(name).map(|value| (name.to_owned(), value)));
    }
    let expected: Expected = Value::Table(expected).try_into().map_err(|why| plain(&why))?;
    let mut request = defaults.clone();
    merge(&mut request, case);
    let request: Request =
        Value::Table(request).try_into().map_err(|why| format!("case `{}`: {}", expected.name, plain(&why)))?;
    let decision = policies.decide(&request);
    let wanted: Option<Vec<String>> = match (expected.rule, expected.rules) {
        (Some(_), Some(_)) => return Err(format!("case `{}`: `rule` and `rules`: use one", expected.name)),
        (one, many) => one.map(|rule| vec![rule]).or(many),
    };
    let passed = decision.verdict.name() == expected.expect.name()
        && wanted.as_ref().is_none_or(|rules| {
            let mut rules = rules.clone();
            rules.sort();
            rules == decision.rules
        });
    let by = |rules: &[String]| if rules.is_empty() { "no rule".to_owned() } else { rules.join(", ") };
    let mut found = format!("{} by {}", decision.verdict.name(), by(&decision.rules));
    if !decision.errors.is_empty() {
        found = format!("{found} ({})", decision.errors.join("; "));
    }
    let wanted = wanted.map_or(String::new(), |rules| format!(" by {}", by(&rules)));
    Ok(CaseResult { name: expected.name, expected: format!("{}{wanted}", expected.expect.name()), found, passed })
}

fn plain(why: &toml::de::Error) -> String {
    why.message().to_owned()
}

/// Lays a case over the defaults: circumstances one by one, who asks and what for as a whole.
fn merge(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) if key == "context" => under.extend(over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

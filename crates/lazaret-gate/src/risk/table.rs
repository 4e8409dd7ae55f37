//! The table: read strictly, held against effects.

use std::sync::OnceLock;

use serde::Deserialize;

use super::facts::{Facts, ValueIs};
use super::{Around, Known, Risk, RiskTier, Term};
use crate::canonical::Digest;
use crate::effect::Effect;

/// The most rows of a table: every effect is held against each.
const MAX_ROWS: usize = 500;

/// The most bytes of a table.
const MAX_TABLE: usize = 256 << 10;

/// The most that a score can be.
const FULL: u32 = 1000;

/// Every kind of effect, as rows name them.
const KINDS: &[&str] = Effect::KINDS;

/// A table that can't be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Problem {
    /// Not TOML of the expected shape.
    #[error("the risk table can't be read: {0}")]
    Form(String),
    /// Too much of it.
    #[error("the risk table has {found} {what}, at most {limit} are read")]
    Size {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// The most.
        limit: usize,
    },
    /// A row that makes no sense.
    #[error("row `{row}` of the risk table: {why}")]
    Row {
        /// Which.
        row: String,
        /// What is wrong.
        why: String,
    },
    /// The thresholds make no sense.
    #[error("the risk table needs 0 < medium < high <= {FULL}, not medium = {medium} and high = {high}")]
    Thresholds {
        /// Where medium begins.
        medium: u32,
        /// Where high begins.
        high: u32,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    medium: u32,
    high: u32,
    row: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    kinds: Vec<String>,
    #[serde(default)]
    when: When,
    tier: Option<RiskTier>,
    adds: u32,
    reason: String,
    /// One bit per place in [`KINDS`].
    #[serde(skip)]
    mask: u32,
}

/// What must hold for a row to speak.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct When {
    pub(super) methods: Vec<String>,
    pub(super) host: Option<HostIs>,
    pub(super) model: Option<ModelIs>,
    pub(super) words: Vec<String>,
    pub(super) fields: Vec<String>,
    pub(super) value: Option<ValueIs>,
    pub(super) above: Option<u32>,
    pub(super) bytes_above: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HostIs {
    Exact,
    Wildcard,
    Unknown,
    Plain,
    Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ModelIs {
    Local,
    Remote,
}

/// What is risky, and how much.
#[derive(Clone, Debug)]
pub struct Table {
    medium: u32,
    high: u32,
    rows: Vec<Row>,
    digest: Digest,
}

impl Table {
    /// Reads a table. A key that isn't known, a row that can't match or a kind that isn't one refuses the whole.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        over("bytes", text.len(), MAX_TABLE)?;
        let File { medium, high, mut row } = toml::from_str(text).map_err(|why| Problem::Form(why.to_string()))?;
        over("rows", row.len(), MAX_ROWS)?;
        if !(0 < medium && medium < high && high <= FULL) {
            return Err(Problem::Thresholds { medium, high });
        }
        let mut names = std::collections::BTreeSet::new();
        for row in &mut row {
            let problem = |why: String| Problem::Row { row: row.name.chars().take(80).collect(), why };
            let why = wrong(row).or((!names.insert(row.name.clone())).then(|| "there is another of this name".into()));
            if let Some(why) = why {
                return Err(problem(why));
            }
            row.mask = mask(&row.kinds).map_err(|kind| problem(format!("`{kind}` is no kind of effect")))?;
        }
        Ok(Self { medium, high, rows: row, digest: Digest::of(text.as_bytes()) })
    }

    /// The table that comes with the program.
    pub fn shipped() -> &'static Self {
        static SHIPPED: OnceLock<Table> = OnceLock::new();
        SHIPPED.get_or_init(|| {
            // A test reads it too; if it were broken all the same, everything is of the highest risk.
            Self::parse(include_str!("../../../../policy/risk.toml")).unwrap_or_else(|_| Self::strictest())
        })
    }

    fn strictest() -> Self {
        let row = Row {
            name: "no-table".to_owned(),
            kinds: Vec::new(),
            when: When::default(),
            tier: Some(RiskTier::High),
            adds: FULL,
            reason: "There is no risk table.".to_owned(),
            mask: u32::MAX,
        };
        Self { medium: 1, high: 2, rows: vec![row], digest: Digest::of(b"") }
    }

    /// BLAKE3 over the text that it was read from.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// A row's reason, by the name of the term that it gave.
    pub fn reason(&self, name: &str) -> Option<&str> {
        self.rows.iter().find(|row| row.name == name).map(|row| row.reason.as_str())
    }

    /// The names of all rows, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.name.as_str())
    }

    /// Holds an effect against every row. An effect that no row speaks of is of high risk: nobody has thought of it.
    pub fn weigh(&self, effect: &Effect, around: &Around) -> Risk {
        let bit = KINDS.iter().position(|kind| *kind == effect.kind()).map_or(0, |at| 1 << at);
        let facts = Facts::of(effect);
        let mut risk = Risk { tier: RiskTier::Low, score: 0, terms: Vec::new() };
        for row in self.rows.iter().filter(|row| row.mask & bit != 0) {
            if !holds(&row.when, &facts, around) {
                continue;
            }
            risk.score = risk.score.saturating_add(row.adds).min(FULL);
            risk.tier = risk.tier.max(row.tier.unwrap_or(RiskTier::Low));
            risk.terms.push(Term { name: row.name.clone(), adds: row.adds });
        }
        if risk.terms.is_empty() {
            risk.tier = RiskTier::High;
        }
        risk.tier = risk.tier.max(self.tier(risk.score));
        risk
    }

    fn tier(&self, score: u32) -> RiskTier {
        match score {
            score if score >= self.high => RiskTier::High,
            score if score >= self.medium => RiskTier::Medium,
            _ => RiskTier::Low,
        }
    }
}

fn over(what: &'static str, found: usize, limit: usize) -> Result<(), Problem> {
    if found > limit { Err(Problem::Size { what, found, limit }) } else { Ok(()) }
}

fn mask(kinds: &[String]) -> Result<u32, &str> {
    kinds.iter().try_fold(0, |mask, kind| match KINDS.iter().position(|known| known == kind) {
        _ if kind == "*" => Ok(u32::MAX),
        Some(at) => Ok(mask | 1 << at),
        None => Err(kind.as_str()),
    })
}

/// What is wrong with a row, if anything.
fn wrong(row: &Row) -> Option<String> {
    let lawful = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let folded = |word: &String| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let when = &row.when;
    if row.name.is_empty() || row.name.len() > 80 || !row.name.chars().all(lawful) {
        Some("a name is 1 to 80 lower-case letters, digits and `-`".into())
    } else if row.reason.trim().is_empty() {
        Some("it gives no reason".into())
    } else if row.adds > FULL {
        Some(format!("it adds {}, at most {FULL} are possible", row.adds))
    } else if row.kinds.is_empty() {
        Some("it names no kind of effect; for all, write [\"*\"]".into())
    } else if let Some(word) = when.words.iter().chain(&when.fields).find(|word| !folded(word)) {
        Some(format!("`{word}` can't match: words are lower-case letters and digits"))
    } else if when.above.is_some() && when.fields.is_empty() {
        Some("`above` needs `fields`".into())
    } else if when.value == Some(ValueIs::Unreadable) && !when.fields.is_empty() {
        Some("arguments that are unreadable have no `fields`".into())
    } else {
        None
    }
}

fn holds(when: &When, facts: &Facts<'_>, around: &Around) -> bool {
    let host = |is: HostIs| match is {
        HostIs::Exact => around.host == Known::Exact,
        HostIs::Wildcard => around.host == Known::Wildcard,
        HostIs::Unknown => around.host == Known::Unknown,
        HostIs::Plain => facts.is_plain(),
        HostIs::Address => facts.is_address(),
    };
    (when.methods.is_empty() || when.methods.iter().any(|method| facts.is_method(method)))
        && when.host.is_none_or(host)
        && when.model.is_none_or(|is| facts.is_local_model() == Some(is == ModelIs::Local))
        && (when.words.is_empty() || facts.words.iter().any(|word| when.words.contains(word)))
        && when.bytes_above.is_none_or(|limit| facts.bytes > limit)
        && facts.has_argument(when, around.scratch.as_deref())
}

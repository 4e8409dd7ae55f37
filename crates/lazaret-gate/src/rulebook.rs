//! Everything the operator wrote down for the gate, as one thing with one digest: policies, the risk table, the prices.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::canonical::{self, Digest};
use crate::ledger::Prices;
use crate::policy::{Cached, Decision, Place, Policies, Problem, Request};
use crate::risk::Table;
use crate::trust::{self, Score};

/// The name under which the risk table stands among the files.
pub const RISK_FILE: &str = "risk.toml";

/// The name under which the prices stand among the files.
pub const PRICES_FILE: &str = "prices.toml";

/// The name under which it stands what new agents are trusted, if an operator says so.
pub const TRUST_FILE: &str = "trust.toml";

const SHIPPED_RISKS: &str = include_str!("../../../policy/risk.toml");

/// Decisions that are remembered.
const CACHED: usize = 4096;

/// Rules in force. Read-only: a change makes another one.
pub struct Rulebook {
    policies: Policies,
    cache: Cached,
    risks: Arc<Table>,
    prices: Arc<Prices>,
    start: Score,
    /// Digests of the texts of those two.
    tables: [Digest; 2],
    names: Vec<String>,
    bytes: Vec<u8>,
    digest: Digest,
}

/// The files by name, as they are kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    files: BTreeMap<String, String>,
}

fn in_file(name: &str, what: &dyn std::fmt::Display) -> Problem {
    let at = Place { file: name.to_owned(), line: 1, column: 1 };
    Problem { at, what: what.to_string(), hint: String::new() }
}

fn read<T, E: std::fmt::Display>(name: &str, table: Result<T, E>, problems: &mut Vec<Problem>) -> Option<Arc<T>> {
    table.map(Arc::new).map_err(|why| problems.push(in_file(name, &why))).ok()
}

/// The shipped tables are part of what decides, so they are part of what is kept.
fn completed(mut files: BTreeMap<String, String>) -> BTreeMap<String, String> {
    files.entry(RISK_FILE.to_owned()).or_insert_with(|| SHIPPED_RISKS.to_owned());
    files.entry(PRICES_FILE.to_owned()).or_insert_with(|| Prices::shipped_text().to_owned());
    files
}

impl Rulebook {
    /// Reads files: `*.cedar`, `risk.toml` and `prices.toml` where the shipped ones are not wanted, and `trust.toml` where new
    /// agents don't begin with the usual score. Anything wrong in any of them makes no rulebook.
    pub fn load(files: BTreeMap<String, String>) -> Result<Self, Vec<Problem>> {
        Self::load_after(files, None)
    }

    /// The bytes that a rulebook of these files has, or would have if it were one.
    pub fn bytes_of(files: BTreeMap<String, String>) -> Option<Vec<u8>> {
        canonical::encode(&Texts { files: completed(files) }).ok()
    }

    /// The same, faster where rules and tables are those of a rulebook that was read before.
    pub fn load_after(files: BTreeMap<String, String>, before: Option<&Self>) -> Result<Self, Vec<Problem>> {
        let files = completed(files);
        let mut problems = Vec::new();
        let mut policies = Vec::new();
        for (name, text) in &files {
            match name.as_str() {
                RISK_FILE | PRICES_FILE | TRUST_FILE => {}
                name if name.ends_with(".cedar") => policies.push((name.to_owned(), text.clone())),
                name => problems
                    .push(in_file(name, &"only `*.cedar`, `risk.toml`, `prices.toml` and `trust.toml` are read")),
            }
        }
        let policies = Policies::load_after(&policies, before.map(Self::policies));
        let policies = policies.map_err(|found| problems.extend(found)).ok();
        let text = |name: &str| files.get(name).map(String::as_str).unwrap_or_default();
        let tables = [RISK_FILE, PRICES_FILE].map(|name| Digest::of(text(name).as_bytes()));
        let risks = match before.filter(|book| book.tables[0] == tables[0]) {
            Some(book) => Some(book.risks.clone()),
            None => read(RISK_FILE, Table::parse(text(RISK_FILE)), &mut problems),
        };
        let prices = match before.filter(|book| book.tables[1] == tables[1]) {
            Some(book) => Some(book.prices.clone()),
            None => read(PRICES_FILE, Prices::parse(text(PRICES_FILE)), &mut problems),
        };
        let start = files.get(TRUST_FILE).map_or(Ok(Score::START), |text| trust::parse_start(text));
        let start = start.unwrap_or_else(|why| {
            problems.push(in_file(TRUST_FILE, &why));
            Score::START
        });
        match (policies, risks, prices) {
            (Some(policies), Some(risks), Some(prices)) if problems.is_empty() => {
                let names = files.keys().cloned().collect();
                let bytes =
                    canonical::encode(&Texts { files }).map_err(|why| vec![in_file("the files' names", &why)])?;
                let digest = Digest::of(&bytes);
                Ok(Self { policies, cache: Cached::new(CACHED), risks, prices, start, tables, names, bytes, digest })
            }
            _ => Err(problems),
        }
    }

    /// Reads what [`Rulebook::bytes`] gave.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        let texts: Texts = canonical::decode(bytes).map_err(|why| vec![in_file("the kept rulebook", &why)])?;
        Self::load(texts.files)
    }

    /// The files, as they are kept by digest.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The files' names.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Names exactly these files.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The policies.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Asks the policies, or remembers what they said.
    pub fn decide(&self, request: &Request) -> Decision {
        self.cache.decide(&self.policies, request)
    }

    /// The risk table.
    pub fn risks(&self) -> &Table {
        &self.risks
    }

    /// The prices.
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// What new agents are trusted.
    pub fn start(&self) -> Score {
        self.start
    }
}

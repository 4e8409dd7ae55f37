//! How much harm an ask could do, as far as its fields tell.
//!
//! The rules are data: `policy/risk.toml`, one row per reason. This module reads that table and holds an effect against
//! it. Rows only add, so a score has no way down.

mod facts;
mod table;

use serde::{Deserialize, Serialize};

pub use table::{Problem, Table};

use crate::effect::Effect;
use crate::grant::{Coverage, Grants};

/// How much harm it could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RiskTier {
    /// It reads what is the agent's own, or stays on the host.
    Low,
    /// It reaches out.
    Medium,
    /// Money, people, systems: what can't be taken back.
    High,
}

impl RiskTier {
    /// The name, as records and policies spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// One reason for a score, and what it adds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// Thousandths.
    pub adds: u32,
    /// The row of the table that matched.
    pub name: String,
}

/// What the table says about one ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Risk {
    /// 0 to 1000: thousandths, because records hold no fractions.
    pub score: u32,
    /// What the score is made of.
    pub terms: Vec<Term>,
    /// The tier that the score falls into, or a row's own if that is higher.
    pub tier: RiskTier,
}

impl Risk {
    /// Whether only "once" can be said to this effect: it is of high risk and leaves the host.
    pub fn is_once_only(&self, effect: &Effect) -> bool {
        self.tier == RiskTier::High && outward(effect)
    }
}

/// The provider whose models run inside the keeper.
const LOCAL_PROVIDER: &str = "rehearsal/";

/// Whether an effect reaches beyond this host. What a tool does is its author's word, so a tool does.
pub fn outward(effect: &Effect) -> bool {
    match effect {
        Effect::ModelGenerate(prompt) => !prompt.model.starts_with(LOCAL_PROVIDER),
        other => other.leaves_host(),
    }
}

/// How well an agent's grants know the host of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// By its name.
    Exact,
    /// Only as one of many.
    Wildcard,
    /// Not at all.
    #[default]
    Unknown,
}

/// What isn't in the effect but matters for its risk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Around {
    /// How well the grants know the host, if it is a request.
    pub host: Known,
    /// The directory that is the agent's to write in, if it has one.
    pub scratch: Option<String>,
}

impl Around {
    /// What these grants say about this effect.
    pub fn of(effect: &Effect, grants: &Grants, scratch: Option<String>) -> Self {
        let granted = matches!(effect, Effect::HttpFetch(_)) && matches!(grants.coverage(effect), Coverage::Granted);
        Self { host: if granted { Known::Exact } else { Known::Unknown }, scratch }
    }
}

//! "No", in a form that helps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which stage of the gate said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The ask itself is malformed or larger than anything the host carries.
    Form,
    /// The agent was not granted this.
    Declared,
    /// It was granted, but the turn's budget does not reach.
    Budget,
}

impl Layer {
    /// The name, as records and messages spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Declared => "declared",
            Self::Budget => "budget",
        }
    }
}

/// Why, stable for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// A value in the ask is too large or not well-formed.
    BadAsk,
    /// No grant covers it.
    NotGranted,
    /// The turn may ask no more.
    EffectsSpent,
    /// The turn may move no more bytes.
    BytesSpent,
}

impl Code {
    /// The code, as records and messages spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadAsk => "bad-ask",
            Self::NotGranted => "not-granted",
            Self::EffectsSpent => "effects-spent",
            Self::BytesSpent => "bytes-spent",
        }
    }
}

/// The gate's "no". The same text reaches the agent, the journal, the command line and the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Why, for programs.
    pub code: Code,
    /// Which stage decided.
    pub layer: Layer,
    /// What was asked, the nearest thing that is allowed, and the clause of it that failed.
    pub reason: String,
    /// What change by the operator would let it pass. Never a way round.
    pub remedy: String,
}

impl Refusal {
    /// Whether the turn ends with this refusal. A spent budget does: an agent that goes on asking would fill the
    /// tape with noes.
    pub fn ends_turn(&self) -> bool {
        matches!(self.code, Code::EffectsSpent | Code::BytesSpent)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused ({}, {}): {}; {}", self.code.name(), self.layer.name(), self.reason, self.remedy)
    }
}

//! What an ask comes back with.

use serde::{Deserialize, Serialize};

use crate::canonical::{Bytes, Exact};
use crate::effect::Header;
use crate::refusal::Refusal;

/// The end of an ask, as the guest sees it and as the tape keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Permitted and done.
    Done(Answer),
    /// Permitted, tried, and it did not work.
    Failed(String),
    /// The gate said no.
    Refused(Refusal),
}

impl Outcome {
    /// `permit` or `refusal`: what the gate decided.
    pub fn verdict(&self) -> &'static str {
        match self {
            Self::Done(_) | Self::Failed(_) => "permit",
            Self::Refused(_) => "refusal",
        }
    }

    /// How many bytes go back to the agent.
    pub fn weight(&self) -> u64 {
        match self {
            Self::Done(answer) => answer.weight(),
            Self::Failed(text) => text.len() as u64,
            Self::Refused(refusal) => (refusal.reason.len() + refusal.remedy.len()) as u64,
        }
    }
}

/// The answers, one shape per kind of effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It is done and there is nothing to say.
    Nothing,
    /// `storage.get`.
    Entry(Option<Entry>),
    /// `storage.set`: the new version.
    Version(u64),
    /// `storage.delete`: whether there was such a key.
    Existed(bool),
    /// `storage.list`.
    Keys(Vec<KeyInfo>),
    /// The clocks.
    Time(Exact),
    /// `random.bytes`.
    Random(Bytes),
    /// `environment.read`: names and values, in order.
    Environment(Vec<(String, String)>),
    /// `model.generate`.
    Completion(Completion),
    /// `tools.list`.
    Tools(Vec<Tool>),
    /// `tools.call`: JSON text.
    Result(String),
    /// `http.fetch`.
    Response(Response),
    /// `agents.send`: the message's number within the turn.
    Sent(u32),
    /// `secret.use`: the text that stands for the value.
    Handle(String),
}

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The bytes.
    pub value: Bytes,
    /// 1 at the first write of this key, one more at each later one.
    pub version: u64,
}

/// A key in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyInfo {
    /// The key.
    pub key: String,
    /// Bytes of its value.
    pub size: u64,
    /// Its version.
    pub version: u64,
}

/// What a model said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// Tokens read.
    pub input_tokens: u32,
    /// Tokens written.
    pub output_tokens: u32,
    /// The text.
    pub text: String,
}

/// A tool as an agent sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// A JSON Schema for its arguments.
    pub arguments: String,
    /// What it does.
    pub description: String,
    /// Its name.
    pub name: String,
}

/// An HTTP response, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// May be empty.
    pub body: Bytes,
    /// In order.
    pub headers: Vec<Header>,
    /// The status code.
    pub status: u16,
}

impl Answer {
    fn weight(&self) -> u64 {
        let bytes = match self {
            Self::Nothing | Self::Version(_) | Self::Existed(_) | Self::Time(_) | Self::Sent(_) => 8,
            Self::Entry(entry) => entry.as_ref().map_or(0, |entry| entry.value.0.len()),
            Self::Keys(keys) => keys.iter().map(|k| k.key.len() + 16).sum(),
            Self::Random(bytes) => bytes.0.len(),
            Self::Environment(pairs) => pairs.iter().map(|(name, value)| name.len() + value.len()).sum(),
            Self::Completion(completion) => completion.text.len(),
            Self::Tools(tools) => tools.iter().map(|t| t.name.len() + t.description.len() + t.arguments.len()).sum(),
            Self::Result(text) | Self::Handle(text) => text.len(),
            Self::Response(response) => {
                let headers: usize = response.headers.iter().map(|h| h.name.len() + h.value.len()).sum();
                headers + response.body.0.len()
            }
        };
        bytes as u64
    }
}

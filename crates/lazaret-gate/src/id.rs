//! Names that are safe to print, to put in a path and to compare.

use std::fmt;
use std::sync::Arc;

use crate::canonical::spelled;
use crate::limits::MAX_AGENT_ID;

/// An agent's name, unique on its host for ever: the journal speaks of it long after the agent is gone. A turn hands it to
/// everything that it touches, so copies share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(Arc<str>);

/// A string that can't name an agent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` can't name an agent: use 1 to {MAX_AGENT_ID} lower-case letters, digits and `-`, starting with a letter"
)]
pub struct BadAgentId(String);

impl AgentId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AgentId {
    type Error = BadAgentId;

    fn try_from(text: String) -> Result<Self, BadAgentId> {
        let lawful = text.len() <= MAX_AGENT_ID
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if lawful { Ok(Self(text.into())) } else { Err(BadAgentId(text.chars().take(2 * MAX_AGENT_ID).collect())) }
    }
}

impl std::str::FromStr for AgentId {
    type Err = BadAgentId;

    fn from_str(text: &str) -> Result<Self, BadAgentId> {
        text.to_owned().try_into()
    }
}

impl From<AgentId> for String {
    fn from(id: AgentId) -> Self {
        id.0.as_ref().to_owned()
    }
}

spelled!(AgentId);

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

//! Names of secrets, slots, apps and devices; who may have a secret.

use std::fmt;

use lazaret_gate::AgentId;
use serde::{Deserialize, Serialize};

use crate::limits::MAX_NAME;

/// A name that is safe to print, to compare and to type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A text that can't be a name.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` can't be a name here: use 1 to {MAX_NAME} lower-case letters, digits, `-`, `_` and `.`, starting with a letter"
)]
pub struct BadName(String);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
        let lawful =
            text.len() <= MAX_NAME && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(plain);
        // Whoever pasted a value where its name belongs shouldn't find all of it in a log.
        if lawful { Ok(Self(text)) } else { Err(BadName(shortened(&text))) }
    }
}

/// The beginning of a text, for a message.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 12;
    let mut start: String = text.chars().take(SHOWN).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}

impl std::str::FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        text.to_owned().try_into()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a secret reaches. It is sealed with the value and never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Any agent or app that an operator binds it to.
    Global,
    /// One app.
    App(Name),
    /// One agent.
    Agent(AgentId),
    /// Asks that come from one device; who may hold it there is the binding's to say.
    Device(Name),
}

impl Scope {
    /// Whether this holder may have a slot filled with it.
    pub fn admits(&self, holder: &Holder) -> bool {
        match (self, holder) {
            (Self::Global | Self::Device(_), _) => true,
            (Self::App(mine), Holder::App(app)) => mine == app,
            (Self::Agent(mine), Holder::Agent(agent)) => mine == agent,
            (Self::App(_) | Self::Agent(_), _) => false,
        }
    }

    /// Its kind and the name in it, for what is sealed: two scopes never give the same pair.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Global => ("global", ""),
            Self::App(name) => ("app", name.as_str()),
            Self::Agent(agent) => ("agent", agent.as_str()),
            Self::Device(name) => ("device", name.as_str()),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (kind, "") => f.write_str(kind),
            (kind, name) => write!(f, "{kind}:{name}"),
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, BadScope> {
        let bad = || BadScope(shortened(text));
        let scope = match text.split_once(':') {
            None if text == "global" => Some(Self::Global),
            Some(("app", name)) => name.parse().ok().map(Self::App),
            Some(("agent", name)) => name.parse().ok().map(Self::Agent),
            Some(("device", name)) => name.parse().ok().map(Self::Device),
            _ => None,
        };
        scope.ok_or_else(bad)
    }
}

/// A text that isn't a scope.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a scope; write `global`, `app:NAME`, `agent:NAME` or `device:NAME`")]
pub struct BadScope(String);

/// Whose slot it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// One agent.
    Agent(AgentId),
    /// Every agent of one app.
    App(Name),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "agent:{agent}"),
            Self::App(app) => write!(f, "app:{app}"),
        }
    }
}

impl std::str::FromStr for Holder {
    type Err = BadHolder;

    fn from_str(text: &str) -> Result<Self, BadHolder> {
        let holder = match text.split_once(':') {
            Some(("agent", name)) => name.parse().ok().map(Self::Agent),
            Some(("app", name)) => name.parse().ok().map(Self::App),
            _ => None,
        };
        holder.ok_or_else(|| BadHolder(shortened(text)))
    }
}

/// A text that isn't a holder.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` can't hold a secret; write `agent:NAME` or `app:NAME`")]
pub struct BadHolder(String);

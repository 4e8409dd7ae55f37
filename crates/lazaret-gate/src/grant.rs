//! What an agent was granted, and the first stage's question: is this ask covered?

mod origin;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use origin::{BadUrl, Origin, Scheme};

use crate::effect::Effect;
use crate::id::AgentId;

/// One thing that an agent may ask for. Written and recorded as text: `storage`, `tool:mail.list`, `http:example.com`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Grant {
    /// Its own storage.
    Storage,
    /// Log lines.
    Log,
    /// The clocks.
    Clock,
    /// Random bytes.
    Random,
    /// The environment variables that the operator set for it.
    Environment,
    /// A model, `provider/name`; a trailing `*` covers what starts so.
    Model(Pattern),
    /// A tool by name; a trailing `*` covers what starts so.
    Tool(Pattern),
    /// One origin of the web: scheme, host and port.
    Http(Origin),
    /// Messages to one agent.
    Agent(AgentId),
}

/// A name, or the start of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    stem: String,
    open: bool,
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let (stem, open) = text.strip_suffix('*').map_or((text, false), |stem| (stem, true));
        let lawful = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
        // A bare `*` would grant what nobody has thought of yet.
        (!stem.is_empty() && stem.len() <= 128 && stem.chars().all(lawful))
            .then(|| Self { stem: stem.to_owned(), open })
    }

    /// Whether it covers this name.
    pub fn covers(&self, name: &str) -> bool {
        if self.open { name.starts_with(&self.stem) } else { name == self.stem }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stem, if self.open { "*" } else { "" })
    }
}

/// Text that isn't a grant.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is not a grant: {why}")]
pub struct BadGrant {
    text: String,
    why: String,
}

const FORMS: &str = "write storage, log, clock, random, environment, model:PROVIDER/NAME, tool:NAME, http:HOST[:PORT] \
                     (https), http:http://HOST[:PORT] (plain), or agent:NAME";

impl FromStr for Grant {
    type Err = BadGrant;

    fn from_str(text: &str) -> Result<Self, BadGrant> {
        let bad = |why: &str| BadGrant { text: text.chars().take(200).collect(), why: why.to_owned() };
        let (family, rest) = text.split_once(':').unwrap_or((text, ""));
        match (family, rest) {
            ("storage", "") => Ok(Self::Storage),
            ("log", "") => Ok(Self::Log),
            ("clock", "") => Ok(Self::Clock),
            ("random", "") => Ok(Self::Random),
            ("environment", "") => Ok(Self::Environment),
            ("model", name) => Pattern::parse(name).map(Self::Model).ok_or_else(|| bad(FORMS)),
            ("tool", name) => Pattern::parse(name).map(Self::Tool).ok_or_else(|| bad(FORMS)),
            ("http", place) => Origin::of_grant(place).map(Self::Http).map_err(|why| bad(&why.to_string())),
            ("agent", name) => {
                name.parse().map(Self::Agent).map_err(|why: crate::id::BadAgentId| bad(&why.to_string()))
            }
            _ => Err(bad(FORMS)),
        }
    }
}

impl TryFrom<String> for Grant {
    type Error = BadGrant;

    fn try_from(text: String) -> Result<Self, BadGrant> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage => f.write_str("storage"),
            Self::Log => f.write_str("log"),
            Self::Clock => f.write_str("clock"),
            Self::Random => f.write_str("random"),
            Self::Environment => f.write_str("environment"),
            Self::Model(name) => write!(f, "model:{name}"),
            Self::Tool(name) => write!(f, "tool:{name}"),
            Self::Http(origin) => write!(f, "http:{}", origin.as_grant()),
            Self::Agent(name) => write!(f, "agent:{name}"),
        }
    }
}

/// Everything an agent was granted, sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Grants(Vec<Grant>);

impl<'de> Deserialize<'de> for Grants {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::new)
    }
}

/// What the granted things say about one ask.
pub(crate) enum Coverage {
    Granted,
    /// The nearest grant with the clause that failed, if there is one in the family, and the grant that would do.
    Lacking {
        nearest: Option<(Grant, &'static str)>,
        wanted: String,
    },
    /// It is no lawful ask, whatever was granted.
    Malformed(String),
}

impl Grants {
    /// Sorts them and drops repetitions.
    pub fn new(mut grants: Vec<Grant>) -> Self {
        grants.sort();
        grants.dedup();
        Self(grants)
    }

    /// What stays inside the turn and its record: storage, log, clock, random.
    pub fn basic() -> Self {
        Self::new(vec![Grant::Storage, Grant::Log, Grant::Clock, Grant::Random])
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// Whether a tool of this name may be called; `tools.list` shows only those.
    pub fn covers_tool(&self, name: &str) -> bool {
        self.0.iter().any(|grant| matches!(grant, Grant::Tool(pattern) if pattern.covers(name)))
    }

    fn plain(&self, grant: Grant) -> Coverage {
        if self.0.contains(&grant) {
            Coverage::Granted
        } else {
            Coverage::Lacking { nearest: None, wanted: grant.to_string() }
        }
    }

    fn named<'a>(
        &'a self,
        family: &str,
        name: &str,
        pattern_of: impl Fn(&'a Grant) -> Option<&'a Pattern>,
    ) -> Coverage {
        // What no grant can name is no name, and must not end up in the remedy either: `mail.*` there would grant too much.
        if Pattern::parse(name).is_none_or(|pattern| pattern.open) {
            return Coverage::Malformed(format!(
                "`{name}` is not a {family}'s name: use up to 128 letters, digits, `.`, `-`, `_` and `/`"
            ));
        }
        let patterns = || self.0.iter().filter_map(|grant| pattern_of(grant).map(|pattern| (grant, pattern)));
        if patterns().any(|(_, pattern)| pattern.covers(name)) {
            return Coverage::Granted;
        }
        let shared = |stem: &str| stem.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        let nearest = patterns().max_by_key(|(_, pattern)| shared(&pattern.stem));
        Coverage::Lacking {
            nearest: nearest.map(|(grant, _)| (grant.clone(), "the name differs")),
            wanted: format!("{family}:{name}"),
        }
    }

    fn origin(&self, url: &str) -> Coverage {
        let asked = match Origin::of_url(url) {
            Ok(asked) => asked,
            Err(why) => return Coverage::Malformed(why.to_string()),
        };
        let origins =
            || self.0.iter().filter_map(|grant| if let Grant::Http(o) = grant { Some((grant, o)) } else { None });
        if origins().any(|(_, origin)| *origin == asked) {
            return Coverage::Granted;
        }
        let nearest = origins().max_by_key(|(_, origin)| origin.likeness(&asked));
        Coverage::Lacking {
            nearest: nearest.map(|(grant, origin)| (grant.clone(), origin.difference(&asked))),
            wanted: format!("http:{}", asked.as_grant()),
        }
    }

    /// Is this ask covered? Every kind of effect has its line here; a new one doesn't compile without.
    pub(crate) fn coverage(&self, effect: &Effect) -> Coverage {
        match effect {
            Effect::StorageGet { .. }
            | Effect::StorageSet { .. }
            | Effect::StorageDelete { .. }
            | Effect::StorageList { .. } => self.plain(Grant::Storage),
            Effect::LogWrite { .. } => self.plain(Grant::Log),
            Effect::ClockNow {} | Effect::ClockMonotonic {} | Effect::ClockSleep { .. } => self.plain(Grant::Clock),
            Effect::RandomBytes { .. } => self.plain(Grant::Random),
            Effect::EnvironmentRead {} => self.plain(Grant::Environment),
            Effect::ModelGenerate(prompt) => {
                self.named("model", &prompt.model, |g| if let Grant::Model(p) = g { Some(p) } else { None })
            }
            // Naming the granted tools tells an agent only what it was granted.
            Effect::ToolsList {} => Coverage::Granted,
            Effect::ToolsCall { name, .. } => {
                self.named("tool", name, |g| if let Grant::Tool(p) = g { Some(p) } else { None })
            }
            Effect::HttpFetch(request) => self.origin(&request.url),
            Effect::AgentsSend { to, .. } => match to.parse::<AgentId>() {
                Ok(id) => self.plain(Grant::Agent(id)),
                Err(why) => Coverage::Malformed(why.to_string()),
            },
        }
    }
}

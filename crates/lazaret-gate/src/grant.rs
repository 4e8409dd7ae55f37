//! What an agent was granted, and the first stage's question: is this ask covered?

mod mode;
mod origin;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use mode::{BadMode, EgressMode};
pub use origin::{Origin, Scheme};

use crate::address::{Destinations, Forbidden, Net};
use crate::canonical::spelled;
use crate::effect::Effect;
use crate::id::AgentId;
use crate::refusal::{Code, Layer, Refusal};
use crate::secret::Slot;
use crate::target::{Host, Target};

/// One thing that an agent may ask for. Written and recorded as text: `storage`, `tool:mail.list`, `http:example.com`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Addresses that granted names may lead to, though they aren't public.
    Net(Net),
    /// Less than strict checks of what leaves.
    Egress(EgressMode),
    /// The use of a secret that an operator binds to a slot of this name.
    Secret(Slot),
    /// What comes from this origin isn't marked as untrusted. It doesn't let anything go there.
    Trusted(Origin),
    /// What comes from this origin is marked as private. It doesn't let anything go there.
    Private(Origin),
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
                     (https), http:http://HOST[:PORT] (plain), agent:NAME, net:ADDRESS[/LENGTH], egress:preflight, \
                     egress:none, secret:SLOT, trusted:HOST[:PORT] or private:HOST[:PORT]";

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
            ("net", range) => range.parse().map(Self::Net).map_err(|why: crate::address::BadNet| bad(&why.to_string())),
            ("egress", "preflight") => Ok(Self::Egress(EgressMode::Preflight)),
            ("egress", "none") => Ok(Self::Egress(EgressMode::None)),
            ("egress", "strict") => Err(bad("strict is what holds without a grant: leave it out")),
            ("secret", slot) => {
                slot.parse().map(Self::Secret).map_err(|why: crate::secret::BadSlot| bad(&why.to_string()))
            }
            ("trusted", place) => Origin::of_grant(place).map(Self::Trusted).map_err(|why| bad(&why.to_string())),
            ("private", place) => Origin::of_grant(place).map(Self::Private).map_err(|why| bad(&why.to_string())),
            _ => Err(bad(FORMS)),
        }
    }
}

spelled!(Grant);

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
            Self::Net(net) => write!(f, "net:{net}"),
            Self::Egress(mode) => write!(f, "egress:{mode}"),
            Self::Secret(slot) => write!(f, "secret:{slot}"),
            Self::Trusted(origin) => write!(f, "trusted:{}", origin.as_grant()),
            Self::Private(origin) => write!(f, "private:{}", origin.as_grant()),
        }
    }
}

/// Everything an agent was granted, sorted, each once. Nobody changes them, and every turn needs several copies, so these
/// share one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Arc<[Grant]>);

impl Serialize for Grants {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

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
        Self(grants.into())
    }

    /// What stays inside the turn and its record: storage, log, clock, random.
    pub fn basic() -> Self {
        Self::new(vec![Grant::Storage, Grant::Log, Grant::Clock, Grant::Random])
    }

    /// These and more.
    pub fn and(self, more: impl IntoIterator<Item = Grant>) -> Self {
        Self::new(self.0.iter().cloned().chain(more).collect())
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

    /// How strictly requests are held to these grants.
    pub fn egress(&self) -> EgressMode {
        let modes = self.0.iter().filter_map(|grant| if let Grant::Egress(mode) = grant { Some(*mode) } else { None });
        modes.max().unwrap_or_default()
    }

    /// The origins that requests may go to.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.0.iter().filter_map(|grant| if let Grant::Http(origin) = grant { Some(origin) } else { None })
    }

    /// Whether what comes from this origin is not marked as untrusted.
    pub fn trusts(&self, origin: &Origin) -> bool {
        self.0.iter().any(|grant| matches!(grant, Grant::Trusted(known) if known == origin))
    }

    /// Whether what comes from this origin is marked as private.
    pub fn holds_private(&self, origin: &Origin) -> bool {
        self.0.iter().any(|grant| matches!(grant, Grant::Private(known) if known == origin))
    }

    fn nets(&self) -> impl Iterator<Item = Net> {
        self.0.iter().filter_map(|grant| if let Grant::Net(net) = grant { Some(*net) } else { None })
    }

    /// Which addresses a request to this place may go to: by what was granted, however strictly that is taken.
    pub fn strict_destinations(&self, target: &Target) -> Destinations {
        // Whoever granted an address as such meant it. A name that leads to the same address was not meant.
        let literal = match target.host() {
            Host::Ip(address) if self.origins().any(|origin| *origin == Origin::of(target)) => Some((*address).into()),
            Host::Ip(_) | Host::Name(_) => None,
        };
        Destinations::naming(self.nets().chain(literal))
    }

    /// Which addresses a request to this place may go to.
    pub fn destinations(&self, target: &Target) -> Destinations {
        match self.egress() {
            EgressMode::Strict => self.strict_destinations(target),
            EgressMode::Preflight | EgressMode::None => Destinations::everywhere(),
        }
    }

    /// What the agent is told of an address that a request may not go to.
    pub fn denied(&self, target: &Target, why: &Forbidden) -> Refusal {
        let nearest = self.nets().filter(|net| net.is_kin(why.address)).max_by_key(|net| net.likeness(why.address));
        let nearest = match nearest {
            Some(net) => format!("the nearest grant is `net:{net}`: the address is {}", why.beside(&net)),
            None => "nothing of `net` was granted".to_owned(),
        };
        Refusal {
            code: Code::EgressDenied,
            layer: Layer::Executor,
            reason: format!("`http.fetch` to `{}`: {why}; {nearest}", target.host_text()),
            remedy: format!("an operator can allow it with `--grant net:{}`", why.address),
        }
    }

    fn secret(&self, slot: Slot) -> Coverage {
        let wanted = Grant::Secret(slot);
        if self.0.contains(&wanted) {
            return Coverage::Granted;
        }
        let other = self.0.iter().find(|grant| matches!(grant, Grant::Secret(_)));
        Coverage::Lacking {
            nearest: other.map(|grant| (grant.clone(), "the slot differs")),
            wanted: wanted.to_string(),
        }
    }

    fn origin(&self, url: &str) -> Coverage {
        let asked = match Origin::of_url(url) {
            Ok(asked) => asked,
            Err(why) => return Coverage::Malformed(why.to_string()),
        };
        if self.egress() != EgressMode::Strict || self.origins().any(|origin| *origin == asked) {
            return Coverage::Granted;
        }
        let nearest = self.origins().max_by_key(|origin| origin.likeness(&asked));
        Coverage::Lacking {
            nearest: nearest.map(|origin| (Grant::Http(origin.clone()), origin.difference(&asked))),
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
            Effect::SecretUse { slot, .. } => match slot.parse::<Slot>() {
                Ok(slot) => self.secret(slot),
                Err(why) => Coverage::Malformed(why.to_string()),
            },
        }
    }
}

//! A scope wider than once, as a line that a person reads: `http.fetch GET https://api.example.com/v1/*`.
//!
//! A pattern says the kind and what it is about. A `*` stands only at the end and only behind a `/` (or, in names of tools
//! and models, behind `/` or `.`): there is no way to write "everything", another host, or half a word.

use std::fmt;
use std::str::FromStr;

use super::limits::MAX_PATTERN;
use crate::canonical::spelled;
use crate::effect::Effect;
use crate::grant::Origin;
use crate::id::AgentId;

/// Which effects a wider approval covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern(Form);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    /// A method and where: the path up to a slash, or whole.
    Http { method: String, url: String, open: bool },
    /// A kind and its subject, whole or the start of it.
    Named { kind: &'static str, stem: String, open: bool },
}

/// Text that isn't a pattern, or an effect that none can name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadPattern {
    /// Not a pattern.
    #[error("`{text}` is not a pattern: {why}")]
    Text {
        /// What was written, cut to its limit.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An effect whose subject can't be written in one.
    #[error("no pattern can name this `{0}`: approve it once")]
    Unnameable(&'static str),
}

const FORMS: &str = "write `http.fetch METHOD URL`, `tools.call NAME`, `model.generate PROVIDER/NAME`, \
                     `storage.get|set|delete|list KEY`, `agents.send AGENT` or `secret.use SLOT`; a `*` may end a URL, key or name behind `/`";

/// The kinds that a pattern can name by subject, and what may stand before a `*` there.
const NAMED: [(&str, &[char]); 8] = [
    ("tools.call", &['.', '/']),
    ("model.generate", &['.', '/']),
    ("storage.get", &['/']),
    ("storage.set", &['/']),
    ("storage.delete", &['/']),
    ("storage.list", &['/']),
    ("agents.send", &[]),
    ("secret.use", &[]),
];

impl Pattern {
    /// The pattern that covers the effects with this one's kind and subject, and no others: the narrowest there is.
    pub fn of(effect: &Effect) -> Result<Self, BadPattern> {
        let subject = match effect {
            Effect::HttpFetch(request) => Some(format!("{} {}", request.method, request.url)),
            other => subject(other).map(str::to_owned),
        };
        let pattern = subject
            .filter(|subject| !subject.contains('*'))
            .and_then(|subject| format!("{} {subject}", effect.kind()).parse::<Self>().ok());
        pattern.filter(|pattern| pattern.matches(effect)).ok_or(BadPattern::Unnameable(effect.kind()))
    }

    /// Whether it covers an effect.
    pub fn matches(&self, effect: &Effect) -> bool {
        match (&self.0, effect) {
            (Form::Http { method, url, open }, Effect::HttpFetch(request)) => {
                // Both are checked character by character, so that the same text is the same place.
                let lawful = Origin::of_url(&request.url).is_ok() && !climbs(&request.url);
                *method == request.method && lawful && covers(url, *open, &request.url)
            }
            (Form::Named { kind, stem, open }, effect) => {
                let plain = |subject: &&str| *kind != "agents.send" || subject.parse::<AgentId>().is_ok();
                *kind == effect.kind()
                    && subject(effect).filter(plain).is_some_and(|subject| {
                        !(*open && subject.split('/').any(|part| part == "..")) && covers(stem, *open, subject)
                    })
            }
            _ => false,
        }
    }

    /// How many of these effects it would have covered.
    pub fn count<'a>(&self, past: impl IntoIterator<Item = &'a Effect>) -> u64 {
        past.into_iter().filter(|effect| self.matches(effect)).count() as u64
    }
}

/// What a kind with a subject is about.
fn subject(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::StorageGet { key } | Effect::StorageSet { key, .. } | Effect::StorageDelete { key } => Some(key),
        Effect::StorageList { prefix, .. } => Some(prefix),
        Effect::ModelGenerate(prompt) => Some(&prompt.model),
        Effect::ToolsCall { name, .. } => Some(name),
        Effect::AgentsSend { to, .. } => Some(to),
        // Where it may go is bounded by what it is bound to.
        Effect::SecretUse { slot, .. } => Some(slot),
        Effect::HttpFetch(_)
        | Effect::LogWrite { .. }
        | Effect::ClockNow {}
        | Effect::ClockMonotonic {}
        | Effect::ClockSleep { .. }
        | Effect::RandomBytes { .. }
        | Effect::EnvironmentRead {}
        | Effect::ToolsList {} => None,
    }
}

fn covers(stem: &str, open: bool, text: &str) -> bool {
    if open { text.starts_with(stem) } else { text == stem }
}

/// Whether a URL's path has a segment that a server could read as "one up", however it is spelled, or an encoded slash.
fn climbs(url: &str) -> bool {
    let path = url.split('?').next().unwrap_or(url).to_ascii_lowercase();
    if path.contains("%2f") || path.contains("%5c") || path.contains("%25") {
        return true;
    }
    path.split('/').any(|segment| {
        let bare = segment.split(';').next().unwrap_or(segment).replace("%2e", ".");
        bare == "." || bare == ".."
    })
}

impl FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let bad = |why| BadPattern::Text { text: text.chars().take(MAX_PATTERN).collect(), why };
        if text.len() > MAX_PATTERN {
            return Err(bad("it is too long to be read"));
        }
        if !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Err(bad("use printable ASCII only"));
        }
        let (kind, rest) = text.split_once(' ').ok_or_else(|| bad(FORMS))?;
        if kind == "http.fetch" {
            return parse_http(rest).map(Self).map_err(bad);
        }
        let (kind, before_star) = NAMED.iter().find(|(name, _)| *name == kind).ok_or_else(|| bad(FORMS))?;
        let (stem, open) = rest.strip_suffix('*').map_or((rest, false), |stem| (stem, true));
        if stem.is_empty() || stem.contains(['*', ' ']) {
            return Err(bad(FORMS));
        }
        if open && !stem.ends_with(*before_star) {
            return Err(bad(
                "a `*` stands behind a `/` (in tools and models also a `.`), or it would cut a name in half",
            ));
        }
        Ok(Self(Form::Named { kind, stem: stem.to_owned(), open }))
    }
}

fn parse_http(rest: &str) -> Result<Form, &'static str> {
    let (method, url) = rest.split_once(' ').ok_or(FORMS)?;
    if method.is_empty() || method.len() > 16 || !method.bytes().all(|b| b.is_ascii_uppercase()) {
        return Err("the method is upper-case letters, as in `GET`");
    }
    let (url, open) = url.strip_suffix('*').map_or((url, false), |url| (url, true));
    if url.contains('*') {
        return Err("only the end of a URL can be open");
    }
    Origin::of_url(url).map_err(|_| "the URL must be whole, with its host in lower-case ASCII")?;
    if climbs(url) {
        return Err("the path has `.`, `..` or an encoded slash in it");
    }
    let path_at = url.find("://").and_then(|at| url[at + 3..].find('/').map(|slash| at + 3 + slash));
    if open && (path_at.is_none() || !url.ends_with('/') || url.contains('?')) {
        return Err("a `*` stands behind a `/` of the path, or it would cut a name in half");
    }
    Ok(Form::Http { method: method.to_owned(), url: url.to_owned(), open })
}

spelled!(Pattern);

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = |open: bool| if open { "*" } else { "" };
        match &self.0 {
            Form::Http { method, url, open } => write!(f, "http.fetch {method} {url}{}", star(*open)),
            Form::Named { kind, stem, open } => write!(f, "{kind} {stem}{}", star(*open)),
        }
    }
}

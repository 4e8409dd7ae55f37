//! The slots that an agent's author declares: what secrets it wants, what for, and where they will go.
//!
//! A declaration gives nothing. It says what to ask for (`secret:SLOT`), tells the operator what to bind, and is held against
//! every binding: a secret goes only where author and operator both say. It is written as `[[secrets]]` tables of TOML:
//!
//! ```toml
//! [[secrets]]
//! slot = "github"
//! purpose = "reads the issues of your repositories"
//! hosts = ["api.github.com"]
//! required = true
//! ```

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::grant::{Grant, Origin};
use crate::limits::{MAX_DECLARED_HOSTS, MAX_DECLARED_SLOTS, MAX_MANIFEST, MAX_PURPOSE};
use crate::secret::{BadSlot, Slot};
use crate::shown;

/// A slot that an agent's author declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredSlot {
    slot: Slot,
    purpose: String,
    hosts: Vec<Origin>,
    required: bool,
}

impl DeclaredSlot {
    /// Its name.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// What it is for, as its author wrote it: one line, and anything in it. Whoever shows it makes all of it visible.
    pub fn purpose(&self) -> &str {
        &self.purpose
    }

    /// The only places that its secret is meant for, sorted; none if the author names none.
    pub fn hosts(&self) -> &[Origin] {
        &self.hosts
    }

    /// Whether no turn begins without it.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Whether its secret may go there, as far as the author says.
    pub fn admits(&self, place: &Origin) -> bool {
        self.hosts.is_empty() || self.hosts.contains(place)
    }

    /// The places, as people write them.
    pub fn host_texts(&self) -> Vec<String> {
        self.hosts.iter().map(Origin::as_grant).collect()
    }
}

/// All slots that an agent's author declares, by name, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Written>", into = "Vec<Written>")]
pub struct Slots(Vec<DeclaredSlot>);

/// A slot as records, requests and replies spell it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    slot: String,
    purpose: String,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    required: bool,
}

/// The same in a manifest, where each text has its place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    slot: Spanned<String>,
    purpose: Spanned<String>,
    #[serde(default)]
    hosts: Vec<Spanned<String>>,
    #[serde(default)]
    required: bool,
}

/// A manifest, as far as it is known today.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(default)]
    secrets: Vec<Row>,
}

/// A declaration that can't stand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{flaw}", .line.map_or_else(String::new, |line| format!("line {line}: ")))]
pub struct BadSlots {
    /// In which line of a manifest, from 1; none if it isn't one line's fault.
    pub line: Option<usize>,
    /// What is wrong.
    pub flaw: Flaw,
}

/// What is wrong with a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// More than anybody would write.
    #[error("a manifest of {0} bytes; the most is {MAX_MANIFEST}")]
    Large(usize),
    /// Not TOML, or not this.
    #[error("{why}, in `{text}`; a manifest has `[[secrets]]` tables with `slot`, `purpose`, `hosts` and `required`")]
    Form {
        /// What the reader said.
        why: String,
        /// The line as it was written.
        text: String,
    },
    /// Not a slot's name.
    #[error(transparent)]
    Slot(#[from] BadSlot),
    /// Declared more than once.
    #[error("slot `{0}` is declared twice")]
    Twice(Slot),
    /// Too many slots.
    #[error("there are too many slots; the most is {MAX_DECLARED_SLOTS}")]
    Many,
    /// Nothing said, or too much.
    #[error("slot `{slot}` has the purpose `{text}`: {why}; say in one line what the secret is for")]
    Purpose {
        /// Whose.
        slot: Slot,
        /// As it was written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a place for a secret.
    #[error(
        "slot `{slot}` names the host `{text}`: {why}; write `api.example.org`, `api.example.org:8443`, or a loopback \
         address as `http://127.0.0.1:8080`"
    )]
    Host {
        /// Whose.
        slot: Slot,
        /// As it was written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Too many hosts.
    #[error("slot `{0}` names too many hosts; the most is {MAX_DECLARED_HOSTS}")]
    Hosts(Slot),
}

impl From<Flaw> for BadSlots {
    fn from(flaw: Flaw) -> Self {
        Self { line: None, flaw }
    }
}

impl Slots {
    /// Reads a manifest.
    pub fn read(text: &str) -> Result<Self, BadSlots> {
        if text.len() > MAX_MANIFEST {
            return Err(Flaw::Large(text.len()).into());
        }
        let Manifest { secrets } = toml::from_str(text).map_err(|why| unreadable(text, &why))?;
        let mut slots = Vec::new();
        for Row { slot, purpose, hosts, required } in secrets {
            let line = line_at(text, slot.span().start);
            let at = |line: usize| move |flaw: Flaw| BadSlots { line: Some(line), flaw };
            let name: Slot = slot.into_inner().parse().map_err(Flaw::from).map_err(at(line))?;
            let purpose_line = line_at(text, purpose.span().start);
            let purpose = lawful_purpose(&name, purpose.into_inner()).map_err(at(purpose_line))?;
            let mut places = Vec::new();
            for host in hosts {
                let line = line_at(text, host.span().start);
                add_host(&name, &mut places, host.get_ref()).map_err(at(line))?;
            }
            add(&mut slots, DeclaredSlot { slot: name, purpose, hosts: places, required }).map_err(at(line))?;
        }
        Ok(Self(slots))
    }

    /// Whether none is declared.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One by one, by name.
    pub fn iter(&self) -> impl Iterator<Item = &DeclaredSlot> {
        self.0.iter()
    }

    /// The one with this name.
    pub fn get(&self, slot: &str) -> Option<&DeclaredSlot> {
        self.0.iter().find(|declared| declared.slot.as_str() == slot)
    }

    /// What an agent that declares them is granted.
    pub fn grants(&self) -> impl Iterator<Item = Grant> {
        self.0.iter().map(|declared| Grant::Secret(declared.slot.clone()))
    }
}

/// Takes in one more slot, in order.
fn add(slots: &mut Vec<DeclaredSlot>, new: DeclaredSlot) -> Result<(), Flaw> {
    match slots.binary_search_by(|known| known.slot.cmp(&new.slot)) {
        Ok(_) => Err(Flaw::Twice(new.slot)),
        Err(_) if slots.len() == MAX_DECLARED_SLOTS => Err(Flaw::Many),
        Err(at) => {
            slots.insert(at, new);
            Ok(())
        }
    }
}

/// Takes in one more host, in order.
fn add_host(slot: &Slot, hosts: &mut Vec<Origin>, text: &str) -> Result<(), Flaw> {
    let bad = |why: String| Flaw::Host { slot: slot.clone(), text: quoted(text), why };
    let place = Origin::of_grant(text).map_err(|why| bad(shown::text(&why.to_string())))?;
    if !place.is_sealed() {
        return Err(bad("it is plain http, over which anybody on the way reads the secret".to_owned()));
    }
    match hosts.binary_search(&place) {
        Ok(_) => Err(bad("it is named twice".to_owned())),
        Err(_) if hosts.len() == MAX_DECLARED_HOSTS => Err(Flaw::Hosts(slot.clone())),
        Err(at) => {
            hosts.insert(at, place);
            Ok(())
        }
    }
}

fn lawful_purpose(slot: &Slot, text: String) -> Result<String, Flaw> {
    let breaks = |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let why = if text.chars().all(|c| matches!(c, ' ' | '\t')) {
        "it says nothing"
    } else if text.len() > MAX_PURPOSE {
        "it is too long"
    } else if text.contains(breaks) {
        "it has a line break in it"
    } else {
        return Ok(text);
    };
    Err(Flaw::Purpose { slot: slot.clone(), text: quoted(&text), why })
}

/// The line, from 1, in which a byte stands.
fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn unreadable(text: &str, why: &toml::de::Error) -> BadSlots {
    let line = why.span().map(|span| line_at(text, span.start));
    let words: Vec<&str> = why.message().split_whitespace().collect();
    let written = text.lines().nth(line.unwrap_or(1) - 1).unwrap_or_default();
    let (why, text) = (quoted(&words.join(" ")), quoted(written.trim()));
    BadSlots { line, flaw: Flaw::Form { why, text } }
}

/// What somebody wrote, visible and in a length that fits a message.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 120;
    let start: String = text.chars().take(SHOWN).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", shown::text(&start))
}

impl TryFrom<Vec<Written>> for Slots {
    type Error = Flaw;

    fn try_from(written: Vec<Written>) -> Result<Self, Flaw> {
        let mut slots = Vec::new();
        for Written { slot, purpose, hosts, required } in written {
            let slot: Slot = slot.parse()?;
            let purpose = lawful_purpose(&slot, purpose)?;
            let mut places = Vec::new();
            for host in hosts {
                add_host(&slot, &mut places, &host)?;
            }
            add(&mut slots, DeclaredSlot { slot, purpose, hosts: places, required })?;
        }
        Ok(Self(slots))
    }
}

impl From<Slots> for Vec<Written> {
    fn from(slots: Slots) -> Self {
        let written = |declared: DeclaredSlot| Written {
            hosts: declared.host_texts(),
            slot: declared.slot.as_str().to_owned(),
            purpose: declared.purpose,
            required: declared.required,
        };
        slots.0.into_iter().map(written).collect()
    }
}

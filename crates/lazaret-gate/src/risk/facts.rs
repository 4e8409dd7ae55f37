//! What an effect's fields say, taken out once so that every row can ask.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::table::When;
use crate::effect::{Effect, Request};
use crate::shown::{two_faced, unseen};

/// The largest request body that is read as JSON; a larger one has a row of its own.
const MAX_READ_BODY: usize = 64 << 10;

/// What a value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ValueIs {
    Person,
    Glob,
    WideGlob,
    Shell,
    Outside,
    Lookalike,
    Unseen,
    Unreadable,
}

/// Everything that rows ask about.
pub(super) struct Facts<'a> {
    effect: &'a Effect,
    /// The words of the tool's name.
    pub(super) words: Vec<String>,
    /// How much is handed over.
    pub(super) bytes: u64,
    arguments: Arguments,
    unreadable: bool,
}

/// The leaves of a JSON value. A name that stands twice is there twice: which one a tool takes is not known.
#[derive(Default)]
struct Arguments {
    keys: Vec<Key>,
    leaves: Vec<Leaf>,
}

struct Key {
    words: Vec<String>,
    parent: Option<usize>,
}

struct Leaf {
    key: Option<usize>,
    value: Value,
}

enum Value {
    Text(String),
    Number(f64),
    /// `true`, `false`, `null`, and what is empty.
    Bare,
}

impl<'a> Facts<'a> {
    pub(super) fn of(effect: &'a Effect) -> Self {
        let mut facts = Self {
            effect,
            words: Vec::new(),
            bytes: effect.weight(),
            arguments: Arguments::default(),
            unreadable: false,
        };
        match effect {
            Effect::ToolsCall { name, arguments } => {
                facts.words = words(name);
                if !arguments.trim().is_empty() {
                    facts.unreadable = !facts.arguments.read(arguments);
                }
                if facts.unreadable {
                    facts.arguments.leaf(None, Value::Text(arguments.clone()));
                }
            }
            Effect::HttpFetch(request) => facts.read_request(request),
            Effect::AgentsSend { body, .. } => {
                facts.arguments.leaf(None, Value::Text(String::from_utf8_lossy(&body.0).into_owned()));
            }
            Effect::ModelGenerate(prompt) => {
                prompt.utterances.iter().for_each(|said| facts.arguments.leaf(None, Value::Text(said.text.clone())));
            }
            _ => {}
        }
        facts
    }

    fn read_request(&mut self, request: &Request) {
        self.arguments.leaf(None, Value::Text(request.url.clone()));
        if let Ok(body) = std::str::from_utf8(&request.body.0) {
            let read = body.len() <= MAX_READ_BODY && body.starts_with(['{', '[', ' ', '\t', '\r', '\n']);
            if !(read && self.arguments.read(body)) {
                self.arguments.leaf(None, Value::Text(body.to_owned()));
            }
        }
    }

    fn url(&self) -> Option<&str> {
        match self.effect {
            Effect::HttpFetch(Request { url, .. }) => Some(url),
            Effect::SecretUse { url, .. } if !url.is_empty() => Some(url),
            _ => None,
        }
    }

    pub(super) fn is_method(&self, method: &str) -> bool {
        matches!(self.effect, Effect::HttpFetch(request) if request.method.eq_ignore_ascii_case(method))
    }

    pub(super) fn is_plain(&self) -> bool {
        self.url().is_some_and(|url| !url.starts_with("https://"))
    }

    /// Whether the host is a number: `10.0.0.1`, `[::1]`, and spellings of the former such as `0x7f.1` or `2130706433`.
    pub(super) fn is_address(&self) -> bool {
        let Some((_, rest)) = self.url().and_then(|url| url.split_once("://")) else { return false };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let host = authority.rsplit('@').next().unwrap_or(authority);
        let host = host.split(':').next().unwrap_or(host).trim_end_matches('.');
        let last = host.rsplit('.').next().unwrap_or(host).to_ascii_lowercase();
        let hexadecimal = last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        host.starts_with('[') || hexadecimal || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
    }

    pub(super) fn is_local_model(&self) -> Option<bool> {
        matches!(self.effect, Effect::ModelGenerate(_)).then(|| !super::outward(self.effect))
    }

    /// Whether some argument is as a row wants it; yes if it wants nothing.
    pub(super) fn has_argument(&self, when: &When, scratch: Option<&str>) -> bool {
        if when.fields.is_empty() && when.value.is_none() && when.above.is_none() {
            return true;
        }
        if when.value == Some(ValueIs::Unreadable) {
            return self.unreadable;
        }
        let named = self.arguments.named(&when.fields);
        self.arguments.leaves.iter().any(|leaf| {
            (when.fields.is_empty() || leaf.key.is_some_and(|key| named[key]))
                && when.above.is_none_or(|limit| leaf.value.number().is_some_and(|number| number > f64::from(limit)))
                && when.value.is_none_or(|is| leaf.value.is(is, scratch))
        })
    }
}

impl Arguments {
    /// Reads JSON; `false` if it isn't. What was read until then stays.
    fn read(&mut self, json: &str) -> bool {
        let mut reader = serde_json::Deserializer::from_str(json);
        let seed = Collect { into: self, key: None };
        seed.deserialize(&mut reader).is_ok() && reader.end().is_ok()
    }

    fn leaf(&mut self, key: Option<usize>, value: Value) {
        self.leaves.push(Leaf { key, value });
    }

    /// Which keys have one of these words in their name or above it. A key stands behind the one that it is in, so one
    /// pass does.
    fn named(&self, names: &[String]) -> Vec<bool> {
        let mut named: Vec<bool> = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let inherits = key.parent.is_some_and(|parent| named[parent]);
            named.push(inherits || key.words.iter().any(|word| names.contains(word)));
        }
        named
    }
}

/// Takes the leaves of a JSON value, without building it.
struct Collect<'a> {
    into: &'a mut Arguments,
    key: Option<usize>,
}

impl Collect<'_> {
    fn put(self, value: Value) {
        self.into.leaf(self.key, value);
    }
}

impl<'de> DeserializeSeed<'de> for Collect<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Collect<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.put(Value::Bare);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.put(Value::Bare);
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "rows compare with small numbers")]
    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.put(Value::Number(number as f64));
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "rows compare with small numbers")]
    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.put(Value::Number(number as f64));
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.put(Value::Number(number));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.put(Value::Text(text.to_owned()));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        // Named even if it is empty: `to: []` may mean everybody.
        self.into.leaf(self.key, Value::Bare);
        while items.next_element_seed(Collect { into: &mut *self.into, key: self.key })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.into.leaf(self.key, Value::Bare);
        while let Some(name) = fields.next_key::<String>()? {
            self.into.keys.push(Key { words: words(&name), parent: self.key });
            let key = Some(self.into.keys.len() - 1);
            // A name can be the dangerous part: `{"rm -rf /": 1}`.
            self.into.leaf(key, Value::Text(name));
            fields.next_value_seed(Collect { into: &mut *self.into, key })?;
        }
        Ok(())
    }
}

/// The words of a name, folded: `mail.sendDraft`, `mail_send-draft` and `MAIL/SEND/DRAFT` alike.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        let starts = c.is_uppercase() && was_lower;
        if (starts || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

impl Value {
    /// Its size as a number. A text counts too: the largest number that somebody could read in it.
    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number.abs()),
            Self::Bare => None,
            Self::Text(text) => number_in(text),
        }
    }

    fn is(&self, is: ValueIs, scratch: Option<&str>) -> bool {
        let Self::Text(text) = self else { return false };
        match is {
            ValueIs::Person => is_person(text),
            ValueIs::Glob => text.contains(['*', '?', '[', '{']),
            ValueIs::WideGlob => text.contains("**") || text.split(['/', '\\']).any(|part| matches!(part, "*" | "*.*")),
            ValueIs::Shell => text.contains([';', '|', '&', '$', '`', '<', '>', '\n', '\r', '(', ')', '{', '}']),
            ValueIs::Outside => is_outside(text, scratch),
            ValueIs::Lookalike => !two_faced(text).is_empty(),
            ValueIs::Unseen => text.chars().any(|c| !matches!(c, '\n' | '\r' | '\t') && unseen(c).is_some()),
            ValueIs::Unreadable => false,
        }
    }
}

/// The number in a text. Where commas and points can be read in two ways, all its digits together.
fn number_in(text: &str) -> Option<f64> {
    let text = text.trim_matches(|c: char| !c.is_ascii_digit());
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let rest: Vec<&str> = groups.collect();
    let grouped = digits(first)
        && (rest.is_empty() || (1..=3).contains(&first.len()))
        && rest.iter().all(|group| group.len() == 3 && digits(group));
    let plain = grouped && digits(part) && part.len() <= 2;
    text.chars().filter(|c| c.is_ascii_digit() || (plain && *c == '.')).collect::<String>().parse().ok()
}

/// An address of somebody: mail, phone, a handle, a channel.
fn is_person(text: &str) -> bool {
    let text = text.trim();
    let mail = text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
    let handle = text.strip_prefix(['@', '#']).is_some_and(|name| name.starts_with(char::is_alphanumeric));
    let scheme = ["mailto:", "tel:", "sms:"].iter().any(|scheme| text.starts_with(scheme));
    let dials = |c: char| c.is_ascii_digit() || matches!(c, '+' | ' ' | '-' | '(' | ')' | '.' | '/');
    // A date is digits and hyphens too, but none begins so.
    let phone = text.starts_with(['+', '0', '('])
        && text.chars().all(dials)
        && text.chars().filter(char::is_ascii_digit).count() >= 7;
    mail || handle || scheme || phone
}

/// Whether a path leaves the scratch, as far as its text tells. Both kinds of slashes count, whatever the system.
fn is_outside(text: &str, scratch: Option<&str>) -> bool {
    let path = text.strip_prefix("file://").unwrap_or(text).replace('\\', "/");
    let inside = scratch.map(|scratch| scratch.trim_end_matches('/')).filter(|scratch| !scratch.is_empty());
    let rest = match inside.and_then(|scratch| path.strip_prefix(scratch)) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => path.as_str(),
    };
    let drive = rest.as_bytes().get(1) == Some(&b':') && rest.as_bytes()[0].is_ascii_alphabetic();
    if rest.starts_with(['/', '~', '$', '%']) || drive {
        return true;
    }
    let mut depth = 0_i64;
    rest.split('/').any(|part| {
        depth += match part {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

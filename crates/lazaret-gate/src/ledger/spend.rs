//! The money that an ask names.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::limits::{MAX_AMOUNT, MAX_PAYEE};
use super::money::{BadName, Money, Rail};
use crate::effect::Effect;

/// Money that an effect would move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// How much.
    pub amount: Money,
    /// How it travels.
    pub rail: Rail,
    /// Whom to, exactly as the agent wrote it.
    pub to: String,
}

/// Arguments that name money in a way that can't be relied on.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the arguments of the tool `{tool}` can't be read as to money: {why}")]
pub struct BadSpend {
    tool: String,
    why: String,
}

/// The money that a tool call names in its arguments: an object with `amount_micros` (a whole number), `currency` (an ISO
/// 4217 code), `rail` and `to`. Without `amount_micros` it names none. What a tool could read otherwise than we do is an
/// error and not zero: a key twice, deeper down, or in other letters; text that isn't JSON.
///
/// What a model call costs isn't in its arguments: see [`super::Prices`].
pub fn spend_of(effect: &Effect) -> Result<Option<Spend>, BadSpend> {
    let Effect::ToolsCall { name, arguments } = effect else { return Ok(None) };
    if arguments.trim_ascii().is_empty() {
        return Ok(None);
    }
    let read = serde_json::from_str::<Node>(arguments).map_err(|why| format!("they are not JSON: {why}"));
    read.and_then(|node| named(&node)).map_err(|why| {
        let (tool, why) = (name.chars().take(128).collect(), why.chars().take(400).collect());
        BadSpend { tool, why }
    })
}

const AMOUNT: &str = "amount_micros";

/// JSON, as far as it matters here. Objects keep every key, because a key that stands twice is read by some as the first
/// and by others as the last.
enum Node {
    Whole(u64),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
    Other,
}

fn named(arguments: &Node) -> Result<Option<Spend>, String> {
    let Node::Object(fields) = arguments else {
        return hidden(arguments).map(|()| None);
    };
    for (key, value) in fields {
        if key != AMOUNT {
            misspelt(key)?;
        }
        hidden(value)?;
    }
    let Some(amount) = only(fields, AMOUNT)? else { return Ok(None) };
    let Node::Whole(micros @ ..=MAX_AMOUNT) = *amount else {
        return Err(format!("`{AMOUNT}` must be a whole number from 0 to {MAX_AMOUNT}"));
    };
    let text = |key| match only(fields, key)? {
        Some(Node::Text(text)) if !text.is_empty() => Ok(text),
        Some(_) => Err(format!("`{key}` must be a text that isn't empty")),
        None => Err(format!("there is `{AMOUNT}`, but no `{key}`")),
    };
    let say = |why: BadName| why.to_string();
    let currency = text("currency")?.parse().map_err(say)?;
    let rail = text("rail")?.parse().map_err(say)?;
    let to = text("to")?.clone();
    if to.len() > MAX_PAYEE {
        return Err(format!("`to` has {} bytes; it can have {MAX_PAYEE}", to.len()));
    }
    Ok(Some(Spend { amount: Money { micros, currency }, rail, to }))
}

/// The value of a key that stands once at most.
fn only<'a>(fields: &'a [(String, Node)], key: &str) -> Result<Option<&'a Node>, String> {
    let mut found = fields.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(format!("`{key}` stands twice")),
        (first, None) => Ok(first),
    }
}

/// Refuses an amount where nobody looks for one.
fn hidden(node: &Node) -> Result<(), String> {
    match node {
        Node::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            if key == AMOUNT {
                return Err(format!("`{AMOUNT}` must stand at the top of the arguments"));
            }
            misspelt(key)?;
            hidden(value)
        }),
        Node::List(items) => items.iter().try_for_each(hidden),
        Node::Whole(_) | Node::Text(_) | Node::Other => Ok(()),
    }
}

/// Refuses a key that a lenient reader would take for the amount.
fn misspelt(key: &str) -> Result<(), String> {
    let letters = |text: &'static str| text.bytes().filter(u8::is_ascii_alphanumeric);
    let written = key.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    if written.eq(letters(AMOUNT)) {
        let key: String = key.chars().take(40).collect();
        return Err(format!("`{key}` is not how `{AMOUNT}` is written"));
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Node, M::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Object(fields))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Node, S::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_u64<E>(self, whole: u64) -> Result<Node, E> {
        Ok(Node::Whole(whole))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }
}

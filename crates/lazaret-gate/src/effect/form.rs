//! How an effect is written and read: one flat object, `kind` among its fields, all in canonical order.
//!
//! A derived reader of such an object keeps everything until it has met the kind, and a derived writer begins with it. Effects
//! are most of a tape, and tapes are most of what is written and read.

use serde::de::Error as _;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Effect, Header, Level, Prompt, Request, Utterance};
use crate::canonical::{Bytes, Exact};

/// Writes these variables as fields of their names.
macro_rules! write {
    ($serializer:expr, $($field:ident)+) => {{
        let mut open = $serializer.serialize_struct("Effect", [$(stringify!($field)),+].len())?;
        $(open.serialize_field(stringify!($field), $field)?;)+
        open.end()
    }};
}

impl Serialize for Effect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = self.kind();
        match self {
            Self::StorageGet { key } | Self::StorageDelete { key } => write!(serializer, key kind),
            Self::StorageSet { key, value } => write!(serializer, key kind value),
            Self::StorageList { prefix, after, limit } => write!(serializer, after kind limit prefix),
            Self::LogWrite { level, text } => write!(serializer, kind level text),
            Self::ClockNow {} | Self::ClockMonotonic {} | Self::EnvironmentRead {} | Self::ToolsList {} => {
                write!(serializer, kind)
            }
            Self::ClockSleep { nanos } => write!(serializer, kind nanos),
            Self::RandomBytes { len } => write!(serializer, kind len),
            Self::ModelGenerate(Prompt { model, utterances, max_tokens }) => {
                write!(serializer, kind max_tokens model utterances)
            }
            Self::ToolsCall { name, arguments } => write!(serializer, arguments kind name),
            Self::HttpFetch(Request { method, url, headers, body }) => {
                write!(serializer, body headers kind method url)
            }
            Self::AgentsSend { to, content_type, body } => write!(serializer, body content_type kind to),
            Self::SecretUse { slot, method, url } => write!(serializer, kind method slot url),
        }
    }
}

/// The fields of all kinds.
#[derive(Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fields {
    #[serde(deserialize_with = "given")]
    after: Option<Option<String>>,
    arguments: Option<String>,
    body: Option<Bytes>,
    content_type: Option<String>,
    headers: Option<Vec<Header>>,
    key: Option<String>,
    kind: Option<String>,
    len: Option<u32>,
    level: Option<Level>,
    limit: Option<u32>,
    max_tokens: Option<u32>,
    method: Option<String>,
    model: Option<String>,
    name: Option<String>,
    nanos: Option<Exact>,
    prefix: Option<String>,
    slot: Option<String>,
    text: Option<String>,
    to: Option<String>,
    url: Option<String>,
    utterances: Option<Vec<Utterance>>,
    value: Option<Bytes>,
}

/// Tells a field that is null from one that is missing.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Takes these fields out, into variables of their names.
macro_rules! take {
    ($fields:ident, $($field:ident)+) => {
        $(let $field = $fields.$field.take().ok_or_else(|| D::Error::missing_field(stringify!($field)))?;)+
    };
}

impl<'de> Deserialize<'de> for Effect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        take!(fields, kind);
        let effect = match kind.as_str() {
            "storage.get" => {
                take!(fields, key);
                Self::StorageGet { key }
            }
            "storage.set" => {
                take!(fields, key value);
                Self::StorageSet { key, value }
            }
            "storage.delete" => {
                take!(fields, key);
                Self::StorageDelete { key }
            }
            "storage.list" => {
                take!(fields, prefix limit);
                Self::StorageList { prefix, after: fields.after.take().flatten(), limit }
            }
            "log.write" => {
                take!(fields, level text);
                Self::LogWrite { level, text }
            }
            "clock.now" => Self::ClockNow {},
            "clock.monotonic" => Self::ClockMonotonic {},
            "clock.sleep" => {
                take!(fields, nanos);
                Self::ClockSleep { nanos }
            }
            "random.bytes" => {
                take!(fields, len);
                Self::RandomBytes { len }
            }
            "environment.read" => Self::EnvironmentRead {},
            "model.generate" => {
                take!(fields, model utterances max_tokens);
                Self::ModelGenerate(Prompt { model, utterances, max_tokens })
            }
            "tools.list" => Self::ToolsList {},
            "tools.call" => {
                take!(fields, name arguments);
                Self::ToolsCall { name, arguments }
            }
            "http.fetch" => {
                take!(fields, method url headers body);
                Self::HttpFetch(Request { method, url, headers, body })
            }
            "agents.send" => {
                take!(fields, to content_type body);
                Self::AgentsSend { to, content_type, body }
            }
            "secret.use" => {
                take!(fields, slot method url);
                Self::SecretUse { slot, method, url }
            }
            other => return Err(D::Error::unknown_variant(&other.chars().take(100).collect::<String>(), Self::KINDS)),
        };
        if fields == Fields::default() {
            Ok(effect)
        } else {
            Err(D::Error::custom(format_args!("`{kind}` has a field that is another kind's")))
        }
    }
}

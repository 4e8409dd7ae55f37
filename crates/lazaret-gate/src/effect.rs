//! Everything an agent can ask of the world, as one enum.

mod form;

use serde::{Deserialize, Serialize};

use crate::canonical::{Bytes, Exact};

/// One ask. A guest import can build one of these and get an outcome; it can do nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read a key of the agent's own storage.
    StorageGet {
        /// Which key.
        key: String,
    },
    /// Write a key of the agent's own storage; commits with the turn.
    StorageSet {
        /// Which key.
        key: String,
        /// The new value.
        value: Bytes,
    },
    /// Remove a key of the agent's own storage; commits with the turn.
    StorageDelete {
        /// Which key.
        key: String,
    },
    /// Name the keys of the agent's own storage.
    StorageList {
        /// Only keys that start so.
        prefix: String,
        /// Only keys after this one, in byte order.
        after: Option<String>,
        /// At most so many.
        limit: u32,
    },
    /// Leave a line for people.
    LogWrite {
        /// How loud.
        level: Level,
        /// The line.
        text: String,
    },
    /// Read the wall clock.
    ClockNow {},
    /// Read a clock that never goes back.
    ClockMonotonic {},
    /// Wait.
    ClockSleep {
        /// How long.
        nanos: Exact,
    },
    /// Draw random bytes.
    RandomBytes {
        /// How many.
        len: u32,
    },
    /// Read the environment variables that the operator gave this agent. Only WASI guests ask this.
    EnvironmentRead {},
    /// Have a model complete a prompt.
    ModelGenerate(Prompt),
    /// Name the tools that were granted.
    ToolsList {},
    /// Call a tool.
    ToolsCall {
        /// Which tool.
        name: String,
        /// Its arguments, as JSON text exactly as the agent wrote them.
        arguments: String,
    },
    /// One HTTP request.
    HttpFetch(Request),
    /// Put a message in another agent's mailbox when this turn commits.
    AgentsSend {
        /// Whose mailbox.
        to: String,
        /// What the body is.
        content_type: String,
        /// The message.
        body: Bytes,
    },
    /// Use a secret that an operator bound to a slot of the agent, in one request. Asked before that request; the value
    /// itself is never part of an ask or an answer.
    SecretUse {
        /// Which slot.
        slot: String,
        /// The request's method; empty to ask only whether there is such a slot.
        method: String,
        /// The request's URL, with handles as the agent wrote them; empty to ask only whether there is such a slot.
        url: String,
    },
}

/// How loud a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// For whoever wrote the agent.
    Debug,
    /// For whoever runs it.
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
}

/// Who speaks in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The agent's author.
    System,
    /// Whoever the model answers.
    User,
    /// The model, earlier.
    Assistant,
}

/// One thing said in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Utterance {
    /// Who.
    pub role: Role,
    /// What.
    pub text: String,
}

/// What a model is asked to complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// `provider/name`.
    pub model: String,
    /// What was said so far.
    pub utterances: Vec<Utterance>,
    /// Where to stop.
    pub max_tokens: u32,
}

/// A header of a request or response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Its name, lower-case.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// An HTTP request, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// The URL exactly as the agent wrote it.
    pub url: String,
    /// In order.
    pub headers: Vec<Header>,
    /// May be empty.
    pub body: Bytes,
}

impl Effect {
    /// The names of all kinds.
    pub(crate) const KINDS: &[&str] = &[
        "storage.get",
        "storage.set",
        "storage.delete",
        "storage.list",
        "log.write",
        "clock.now",
        "clock.monotonic",
        "clock.sleep",
        "random.bytes",
        "environment.read",
        "model.generate",
        "tools.list",
        "tools.call",
        "http.fetch",
        "agents.send",
        "secret.use",
    ];

    /// The stable name of this kind of effect, as in records and grants.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::StorageGet { .. } => "storage.get",
            Self::StorageSet { .. } => "storage.set",
            Self::StorageDelete { .. } => "storage.delete",
            Self::StorageList { .. } => "storage.list",
            Self::LogWrite { .. } => "log.write",
            Self::ClockNow {} => "clock.now",
            Self::ClockMonotonic {} => "clock.monotonic",
            Self::ClockSleep { .. } => "clock.sleep",
            Self::RandomBytes { .. } => "random.bytes",
            Self::EnvironmentRead {} => "environment.read",
            Self::ModelGenerate(_) => "model.generate",
            Self::ToolsList {} => "tools.list",
            Self::ToolsCall { .. } => "tools.call",
            Self::HttpFetch(_) => "http.fetch",
            Self::AgentsSend { .. } => "agents.send",
            Self::SecretUse { .. } => "secret.use",
        }
    }

    /// Whether it acts outside of the turn's own transaction, so that the record must be on disk before it runs.
    /// Messages to agents don't: they are delivered by the very commit that ends the turn.
    pub fn leaves_host(&self) -> bool {
        matches!(self, Self::ModelGenerate(_) | Self::ToolsCall { .. } | Self::HttpFetch(_))
    }

    /// Whether doing it twice is the same as doing it once, so that a crash in the middle may be answered by a retry.
    /// A tool is not taken to be: what it does is its author's word.
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::HttpFetch(request) => matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS"),
            Self::ToolsCall { .. } => false,
            _ => true,
        }
    }

    /// How many bytes the agent hands over with this ask; what it is charged for. An item of a list has its own price,
    /// or a list of empty texts would be kept for nothing.
    pub fn weight(&self) -> u64 {
        const ITEM: usize = 32;
        let bytes = match self {
            Self::StorageGet { key } | Self::StorageDelete { key } => key.len(),
            Self::StorageSet { key, value } => key.len() + value.0.len(),
            Self::StorageList { prefix, after, .. } => prefix.len() + after.as_ref().map_or(0, String::len),
            Self::LogWrite { text, .. } => text.len(),
            Self::ModelGenerate(prompt) => {
                prompt.model.len() + prompt.utterances.iter().map(|u| u.text.len() + ITEM).sum::<usize>()
            }
            Self::ToolsCall { name, arguments } => name.len() + arguments.len(),
            Self::HttpFetch(request) => {
                let headers: usize = request.headers.iter().map(|h| h.name.len() + h.value.len() + ITEM).sum();
                request.method.len() + request.url.len() + headers + request.body.0.len()
            }
            Self::AgentsSend { to, content_type, body } => to.len() + content_type.len() + body.0.len(),
            Self::SecretUse { slot, method, url } => slot.len() + method.len() + url.len(),
            Self::ClockNow {}
            | Self::ClockMonotonic {}
            | Self::ClockSleep { .. }
            | Self::RandomBytes { .. }
            | Self::EnvironmentRead {}
            | Self::ToolsList {} => 0,
        };
        bytes as u64
    }

    /// One line for people: the kind and what it is about. The caller escapes it.
    pub fn summary(&self) -> String {
        match self {
            Self::StorageGet { key } | Self::StorageDelete { key } | Self::StorageSet { key, .. } => {
                format!("{} {key}", self.kind())
            }
            Self::StorageList { prefix, .. } => format!("{} {prefix}*", self.kind()),
            Self::LogWrite { text, .. } => format!("{} {text}", self.kind()),
            Self::RandomBytes { len } => format!("{} {len}", self.kind()),
            Self::ModelGenerate(prompt) => format!("{} {}", self.kind(), prompt.model),
            Self::ToolsCall { name, arguments } => format!("{} {name} {arguments}", self.kind()),
            Self::HttpFetch(request) => format!("{} {} {}", self.kind(), request.method, request.url),
            Self::AgentsSend { to, .. } => format!("{} to {to}", self.kind()),
            Self::SecretUse { slot, url, .. } if url.is_empty() => format!("{} {slot}", self.kind()),
            Self::SecretUse { slot, method, url } => format!("{} {slot} for {method} {url}", self.kind()),
            _ => self.kind().to_owned(),
        }
    }
}

//! What a person is shown: one renderer for every surface.
//!
//! Agents write the texts that approvers read. So every character is shown as itself only if it can be seen, stays in its
//! place and looks like nothing else; all others are written out, as in `⟨U+202E⟩`. No two texts are shown alike. Nothing
//! is cut without saying so, and while anything is left out there is no yes to be had ([`Shown::hidden`]).

mod diff;
mod host;
mod layout;
mod mark;

use serde::Serialize;

pub use diff::{MAX_DIFF_LINES, diff};
pub use host::{TwoFaced, two_faced};
pub use layout::COLUMNS;
pub use mark::{Unseen, unseen};

use crate::approval::{Question, Requester, Scope};
use crate::canonical::{Bytes, Digest, NotCanonical};
use crate::effect::{Effect, Prompt, Request};
use crate::risk;

/// The most lines of one question: what is longer isn't read, so it isn't offered.
pub const MAX_LINES: usize = 1_000;

/// Lines to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// At most [`COLUMNS`] wide; no colours.
    pub lines: Vec<String>,
    /// Whether something is left out. Then it can't be approved.
    pub hidden: bool,
}

impl Shown {
    /// BLAKE3 over the canonical form: what a decision says was shown.
    pub fn digest(&self) -> Result<Digest, NotCanonical> {
        Digest::of_value(self)
    }

    /// This, and below it more.
    pub fn then(mut self, more: Self) -> Self {
        self.lines.extend(more.lines);
        self.hidden |= more.hidden;
        self
    }

    /// As one text.
    pub fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    fn cut(mut self) -> Self {
        if self.lines.len() > MAX_LINES {
            let left_out = self.lines.len() - MAX_LINES;
            self.lines.truncate(MAX_LINES);
            self.lines.push(format!("{left_out} more lines are not shown: this can be denied, not approved"));
            self.hidden = true;
        }
        self
    }
}

/// A text in one line, every character of it visible. Two different texts never give the same.
pub fn text(text: &str) -> String {
    mark::render(text)
}

/// A question, complete.
pub fn question(question: &Question) -> Shown {
    whole(question, None)
}

/// A question about a write, with what stood there before. Of a storage value the change is shown instead of the new
/// value; of a tool's arguments, below them.
pub fn question_over(question: &Question, before: &str) -> Shown {
    whole(question, Some(before))
}

fn whole(question: &Question, before: Option<&str>) -> Shown {
    let mut shown = Shown::default();
    let lines = &mut shown.lines;
    layout::field(lines, "question", &question.id);
    layout::field(lines, "agent", question.agent.as_str());
    layout::field(lines, "run", &question.run);
    match &question.requester {
        Requester::Agent(agent) => layout::field(lines, "asked by", &format!("agent {agent}")),
        Requester::Key(key) => layout::field(lines, "asked by", &format!("key {key}")),
    }
    layout::field(lines, "effect", question.effect.kind());
    let mut shown = shown.then(effect(&question.effect, before));
    let lines = &mut shown.lines;
    for host in hosts(&question.effect) {
        layout::field(lines, "host", &host.written);
        layout::field(lines, "  ascii", host.ascii.as_deref().unwrap_or("there is no such name"));
        layout::field(lines, "  reads", &host.unicode);
    }
    layout::field(lines, "rule", &question.rule);
    layout::field(lines, "reason", &question.reason);
    let leaves = if risk::outward(&question.effect) { "leaves the host" } else { "stays on the host" };
    let score = |thousandths: u32| format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    layout::field(lines, "risk", &format!("{}, {}, {leaves}", question.risk.tier.name(), score(question.risk.score)));
    for term in &question.risk.terms {
        layout::field(lines, "", &format!("+{} {}", score(term.adds), term.name));
    }
    let labels = if question.labels.is_empty() { "none".to_owned() } else { question.labels.join(", ") };
    layout::field(lines, "labels", &labels);
    layout::field(lines, "arguments", &question.arguments.to_string());
    layout::field(lines, "policy", &question.policy.to_string());
    layout::field(lines, "asked", &utc(question.created.wall_ms));
    layout::field(lines, "expires", &utc(question.expires.wall_ms));
    shown.cut()
}

/// All that an approver is shown before deciding so: the question, complete, and below it how far a yes would reach. Every
/// surface shows this, every decision is signed over this, and whoever checks one makes this again.
pub fn decision(asked: &Question, reach: &Scope) -> Shown {
    question(asked).then(scope(reach))
}

/// How far a yes would reach.
pub fn scope(scope: &Scope) -> Shown {
    let mut shown = Shown::default();
    let lines = &mut shown.lines;
    match scope {
        Scope::Once => layout::field(lines, "scope", "this effect, once"),
        Scope::Run { .. } => layout::field(lines, "scope", "every effect of this run that the pattern covers"),
        Scope::Until { wall_ms, .. } => {
            layout::field(lines, "scope", "every effect of this agent that the pattern covers");
            layout::field(lines, "until", &utc(*wall_ms));
        }
    }
    if let Scope::Run { pattern, matched } | Scope::Until { pattern, matched, .. } = scope {
        layout::field(lines, "pattern", &pattern.to_string());
        let effects = if *matched == 1 { "effect" } else { "effects" };
        layout::field(lines, "", &format!("it would have covered {matched} past {effects}"));
    }
    shown
}

/// Every field of an effect, verbatim.
fn effect(effect: &Effect, before: Option<&str>) -> Shown {
    let mut shown = Shown::default();
    let lines = &mut shown.lines;
    match effect {
        Effect::StorageGet { key } | Effect::StorageDelete { key } => layout::field(lines, "  key", key),
        Effect::StorageSet { key, value } => {
            layout::field(lines, "  key", key);
            return shown.then(write("  value", value, before));
        }
        Effect::StorageList { prefix, after, limit } => {
            layout::field(lines, "  prefix", prefix);
            if let Some(after) = after {
                layout::field(lines, "  after", after);
            }
            layout::field(lines, "  limit", &limit.to_string());
        }
        Effect::LogWrite { level, text } => {
            layout::field(lines, "  level", &format!("{level:?}").to_lowercase());
            named_block(lines, "  text", text);
        }
        Effect::ClockSleep { nanos } => layout::field(lines, "  nanos", &nanos.0.to_string()),
        Effect::RandomBytes { len } => layout::field(lines, "  length", &len.to_string()),
        Effect::ModelGenerate(prompt) => model(lines, prompt),
        Effect::ToolsCall { name, arguments } => {
            layout::field(lines, "  tool", name);
            named_block(lines, "  arguments", arguments);
            if let (Some(before), Some(after)) = (before, content(arguments)) {
                layout::field(lines, "  change", &format!("{} bytes after", after.len()));
                return shown.then(diff(before, &after));
            }
        }
        Effect::HttpFetch(asked) => request(lines, asked),
        Effect::AgentsSend { to, content_type, body } => {
            layout::field(lines, "  to", to);
            layout::field(lines, "  type", content_type);
            bytes(lines, "  body", body);
        }
        Effect::SecretUse { slot, method, url } => {
            layout::field(lines, "  slot", slot);
            if !url.is_empty() {
                layout::field(lines, "  method", method);
                layout::field(lines, "  url", url);
            }
        }
        Effect::ClockNow {} | Effect::ClockMonotonic {} | Effect::EnvironmentRead {} | Effect::ToolsList {} => {}
    }
    shown
}

/// What a tool that writes a file would put there, by the usual names of that argument.
fn content(arguments: &str) -> Option<String> {
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments).ok()?;
    let named = ["content", "contents", "text", "data"].iter().find_map(|name| fields.get(*name));
    named.and_then(serde_json::Value::as_str).map(str::to_owned)
}

fn model(lines: &mut Vec<String>, prompt: &Prompt) {
    layout::field(lines, "  model", &prompt.model);
    layout::field(lines, "  tokens", &format!("at most {}", prompt.max_tokens));
    for said in &prompt.utterances {
        named_block(lines, &format!("  {}", format!("{:?}", said.role).to_lowercase()), &said.text);
    }
}

fn request(lines: &mut Vec<String>, request: &Request) {
    layout::field(lines, "  method", &request.method);
    layout::field(lines, "  url", &request.url);
    for header in &request.headers {
        layout::field(lines, "  header", &header.name);
        layout::field(lines, "    value", &header.value);
    }
    bytes(lines, "  body", &request.body);
}

fn write(name: &str, value: &Bytes, before: Option<&str>) -> Shown {
    let mut shown = Shown::default();
    match (before, std::str::from_utf8(&value.0)) {
        (Some(before), Ok(after)) => {
            layout::field(&mut shown.lines, name, &format!("{} bytes; the change:", value.0.len()));
            shown.then(diff(before, after))
        }
        _ => {
            bytes(&mut shown.lines, name, value);
            shown
        }
    }
}

fn named_block(lines: &mut Vec<String>, name: &str, text: &str) {
    let bytes = if text.len() == 1 { "byte" } else { "bytes" };
    layout::field(lines, name, &format!("{} {bytes}", text.len()));
    layout::block(lines, text);
}

/// Text as text, anything else as hexadecimal digits, whole.
fn bytes(lines: &mut Vec<String>, name: &str, bytes: &Bytes) {
    match std::str::from_utf8(&bytes.0) {
        _ if bytes.0.is_empty() => layout::field(lines, name, "empty"),
        Ok(text) => named_block(lines, name, text),
        Err(_) => {
            layout::field(lines, name, &format!("{} bytes that are not text, in hexadecimal", bytes.0.len()));
            for chunk in bytes.0.chunks(32) {
                layout::block(lines, &chunk.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            }
        }
    }
}

/// The hosts with two faces anywhere in an effect.
fn hosts(effect: &Effect) -> Vec<TwoFaced> {
    let mut found = match effect {
        Effect::HttpFetch(Request { url, .. }) | Effect::SecretUse { url, .. } => two_faced(url),
        Effect::ToolsCall { arguments, .. } => two_faced(arguments),
        Effect::StorageSet { value: body, .. } | Effect::AgentsSend { body, .. } => {
            std::str::from_utf8(&body.0).map(two_faced).unwrap_or_default()
        }
        Effect::LogWrite { text, .. } => two_faced(text),
        Effect::ModelGenerate(prompt) => prompt.utterances.iter().flat_map(|said| two_faced(&said.text)).collect(),
        _ => Vec::new(),
    };
    if let Effect::HttpFetch(request) = effect {
        found.extend(std::str::from_utf8(&request.body.0).map(two_faced).unwrap_or_default());
    }
    found
}

/// Milliseconds since 1970 as a date, by the proleptic Gregorian calendar.
fn utc(wall_ms: u64) -> String {
    let (days, rest) = (wall_ms / 86_400_000, wall_ms % 86_400_000);
    let (mut year, mut day) = (1970 + days / 146_097 * 400, days % 146_097);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", day + 1, rest % 1000)
}

//! A turn as spans, in the JSON of OTLP.
//!
//! Ids are made from the turn's hash: who has a trace finds the record, and the other way round.

use std::time::Duration;

use lazaret_gate::effect::{Prompt, Request};
use lazaret_gate::record::{Ending, TapeEntry};
use lazaret_gate::{Answer, Digest, Effect, Outcome, Target};
use lazaret_host::{Observed, Timing};
use serde_json::{Value, json};

/// Children of one span. More help nobody who looks at them.
const MAX_CHILDREN: usize = 1_000;

/// Characters of a text that a guest chose.
const MAX_TEXT: usize = 256;

/// The same of what was said, if that is sent at all.
const MAX_CONTENT: usize = 16 << 10;

const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const ERROR: u8 = 2;

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is said about a span.
#[derive(Default)]
struct About(Vec<Value>);

impl About {
    fn text(&mut self, key: &str, value: &str) {
        self.0.push(json!({ "key": key, "value": { "stringValue": cut(value, MAX_TEXT) } }));
    }

    fn content(&mut self, key: &str, value: &str) {
        self.0.push(json!({ "key": key, "value": { "stringValue": cut(value, MAX_CONTENT) } }));
    }

    fn number(&mut self, key: &str, value: u64) {
        // 64-bit numbers are texts in OTLP's JSON.
        self.0.push(json!({ "key": key, "value": { "intValue": value.to_string() } }));
    }
}

/// What all spans of a turn share.
struct Trace {
    id: String,
    hash: Digest,
    /// Nanoseconds since 1970.
    begun: u128,
    content: bool,
}

impl Trace {
    fn span_id(&self, number: usize) -> String {
        let bytes: Vec<u8> = self.hash.0.into_iter().chain((number as u64).to_le_bytes()).collect();
        hex(&Digest::of(&bytes).0[..8])
    }

    fn at(&self, after: Duration) -> String {
        (self.begun + after.as_nanos()).to_string()
    }
}

/// The spans of a turn, its own first.
pub(super) fn of_turn(observed: &Observed<'_>, content: bool) -> Vec<Value> {
    let turn = observed.turn;
    let ended = u128::from(observed.ended) * 1_000_000;
    let begun = ended.saturating_sub(observed.took.as_nanos());
    let trace = Trace { id: hex(&turn.hash.0[..16]), hash: turn.hash, begun, content };
    let mut spans = vec![root(&trace, observed)];
    let asks = turn.record.tape.iter().enumerate().take(MAX_CHILDREN);
    spans.extend(asks.map(|(number, ask)| {
        let timing = observed.timings.get(number).copied().unwrap_or_default();
        child(&trace, number, ask, timing)
    }));
    spans
}

fn root(trace: &Trace, observed: &Observed<'_>) -> Value {
    let record = &observed.turn.record;
    let mut about = About::default();
    about.text("gen_ai.operation.name", "invoke_agent");
    about.text("gen_ai.agent.name", record.agent.as_str());
    about.number("lazaret.turn", record.turn);
    about.number("lazaret.journal.entry", observed.turn.seq);
    about.number("lazaret.fuel", record.fuel);
    about.number("lazaret.effects", record.tape.len() as u64);
    let status = match &record.ending {
        Ending::Replied(_) => json!({}),
        Ending::Failed(_) => json!({ "code": ERROR, "message": "failed" }),
        Ending::Stopped(stop) => json!({ "code": ERROR, "message": format!("stopped: {}", stop.cause.name()) }),
    };
    if trace.content {
        about.content("gen_ai.input.messages", &String::from_utf8_lossy(&record.input.body.0));
        if let Ending::Replied(reply) = &record.ending {
            about.content("gen_ai.output.messages", &String::from_utf8_lossy(&reply.body.0));
        }
    }
    json!({
        "traceId": trace.id, "spanId": trace.span_id(usize::MAX), "name": format!("invoke_agent {}", record.agent),
        "kind": INTERNAL, "startTimeUnixNano": trace.at(Duration::ZERO), "endTimeUnixNano": trace.at(observed.took),
        "attributes": about.0, "status": status,
    })
}

fn child(trace: &Trace, number: usize, ask: &TapeEntry, timing: Timing) -> Value {
    let mut about = About::default();
    about.text("lazaret.effect.kind", ask.effect.kind());
    about.number("lazaret.effect.number", number as u64);
    let (name, kind) = match &ask.effect {
        Effect::ModelGenerate(prompt) => (model(trace, &mut about, prompt, &ask.outcome), CLIENT),
        Effect::ToolsCall { name, arguments } => (tool(trace, &mut about, name, arguments, &ask.outcome), INTERNAL),
        Effect::HttpFetch(request) => (http(trace, &mut about, request, &ask.outcome), CLIENT),
        other => (other.kind().to_owned(), INTERNAL),
    };
    let status = match &ask.outcome {
        Outcome::Done(_) => json!({}),
        Outcome::Failed(_) => json!({ "code": ERROR, "message": "failed" }),
        Outcome::Refused(refusal) => {
            about.text("error.type", refusal.code.name());
            about.text("lazaret.refusal.layer", refusal.layer.name());
            json!({ "code": ERROR, "message": format!("refused: {}", refusal.code.name()) })
        }
    };
    json!({
        "traceId": trace.id, "spanId": trace.span_id(number), "parentSpanId": trace.span_id(usize::MAX),
        "name": name, "kind": kind, "startTimeUnixNano": trace.at(timing.after),
        "endTimeUnixNano": trace.at(timing.after + timing.took), "attributes": about.0, "status": status,
    })
}

fn model(trace: &Trace, about: &mut About, prompt: &Prompt, outcome: &Outcome) -> String {
    let (provider, name) = prompt.model.split_once('/').unwrap_or(("", &prompt.model));
    about.text("gen_ai.operation.name", "chat");
    about.text("gen_ai.provider.name", provider);
    about.text("gen_ai.request.model", name);
    about.number("gen_ai.request.max_tokens", u64::from(prompt.max_tokens));
    if let Outcome::Done(Answer::Completion(completion)) = outcome {
        about.number("gen_ai.usage.input_tokens", u64::from(completion.input_tokens));
        about.number("gen_ai.usage.output_tokens", u64::from(completion.output_tokens));
        if trace.content {
            about.content("gen_ai.output.messages", &completion.text);
        }
    }
    if trace.content {
        about.content("gen_ai.input.messages", &json!(prompt.utterances).to_string());
    }
    format!("chat {}", cut(name, MAX_TEXT))
}

fn tool(trace: &Trace, about: &mut About, name: &str, arguments: &str, outcome: &Outcome) -> String {
    about.text("gen_ai.operation.name", "execute_tool");
    about.text("gen_ai.tool.name", name);
    if trace.content {
        about.content("gen_ai.tool.call.arguments", arguments);
        if let Outcome::Done(Answer::Result(result)) = outcome {
            about.content("gen_ai.tool.call.result", result);
        }
    }
    format!("execute_tool {}", cut(name, MAX_TEXT))
}

fn http(trace: &Trace, about: &mut About, request: &Request, outcome: &Outcome) -> String {
    about.text("http.request.method", &request.method);
    // The path and the query may say what nobody should read; the host doesn't.
    if let Ok(url) = Target::parse(&request.url) {
        about.text("server.address", url.host_text());
        about.text("url.scheme", url.scheme().name());
    }
    if trace.content {
        about.content("url.full", &request.url);
    }
    if let Outcome::Done(Answer::Response(response)) = outcome {
        about.number("http.response.status_code", u64::from(response.status));
    }
    cut(&request.method, MAX_TEXT)
}

//! What a connection has said so far, and what follows from it. Pure: bytes and times in, answers and requests out.

use serde::{Deserialize, Serialize};

use crate::VERSIONS;
use crate::fault::Fault;
use crate::frame::{BadFrame, Lines, check};
use crate::limits::{MAX_LINE, MAX_STRANGER_LINE, MAX_VERSIONS, RATE, STRANGER_RATE};
use crate::plain;
use crate::reply::Reply;
use crate::request::Request;
use crate::token::Token;

/// One line of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The answer has the same.
    pub id: u64,
    /// Who speaks, and which versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hello: Option<Hello>,
    /// What is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Request>,
}

/// The first call of a client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The versions that it speaks.
    pub versions: Vec<u32>,
    /// The keeper's token.
    pub token: String,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hello").field("versions", &self.versions).finish_non_exhaustive()
    }
}

/// One line of a keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// That of the call; none if the call could not be read.
    pub id: Option<u64>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<Reply>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
}

/// How an answer is written, and to which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    id: Option<u64>,
    plain: bool,
}

impl Ticket {
    /// For what is said to somebody who has said nothing.
    pub fn unasked() -> Self {
        Self { id: None, plain: false }
    }

    /// Whether it has no id, so that answers have to come in order.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// The answer as bytes, with the line break at its end.
    pub fn say(&self, answer: Result<Reply, Fault>) -> Vec<u8> {
        if self.plain {
            return plain::say(&answer).into_bytes();
        }
        let (ok, error) = match answer {
            Ok(reply) => (Some(reply), None),
            Err(fault) => (None, Some(fault)),
        };
        let said = Said { id: self.id, ok, error };
        // INVARIANT: these types have no map whose keys aren't text and nothing else that JSON can't carry.
        let mut bytes = serde_json::to_vec(&said).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// A request that has to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// How to write the answer.
    pub ticket: Ticket,
    /// What is asked.
    pub request: Request,
}

/// What follows from what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes for the client.
    Say(Vec<u8>),
    /// A request to answer.
    Ask(Box<Ask>),
    /// Nothing more is read: write what there is and close.
    Close,
}

/// A connection, as far as it has come.
#[derive(Debug)]
pub struct Session {
    token: Token,
    lines: Lines,
    /// The token was shown.
    known: bool,
    /// A version was agreed on.
    greeted: bool,
    closed: bool,
    /// The last line was a command in plain text.
    plain: bool,
    bucket: Bucket,
}

/// Calls that may still come, refilled as time passes.
#[derive(Debug)]
struct Bucket {
    left: u64,
    at_ms: u64,
}

impl Bucket {
    fn take(&mut self, rate: u64, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.at_ms);
        let refill = passed.saturating_mul(rate) / 1000;
        if refill > 0 {
            self.at_ms = now_ms;
            self.left = self.left.saturating_add(refill);
        }
        self.left = self.left.min(rate);
        let some = self.left > 0;
        self.left = self.left.saturating_sub(1);
        some
    }
}

fn fault(code: &str, text: &str) -> Fault {
    Fault::new(code, text, 1)
}

impl Session {
    /// A connection that has said nothing yet.
    pub fn new(token: Token) -> Self {
        let bucket = Bucket { left: STRANGER_RATE, at_ms: 0 };
        Self { token, lines: Lines::default(), known: false, greeted: false, closed: false, plain: false, bucket }
    }

    /// Whether the token was shown.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Whether the beginning of a line waits for its end.
    pub fn is_partial(&self) -> bool {
        self.lines.is_partial()
    }

    /// For what is said without being asked: in the language that the other side speaks.
    pub fn unasked(&self) -> Ticket {
        let plain = self.lines.first().map_or(self.plain, |first| first != b'{');
        Ticket { id: None, plain }
    }

    /// Takes what came. `now_ms` never goes back.
    pub fn take(&mut self, bytes: &[u8], now_ms: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.closed {
            return steps;
        }
        self.lines.push(bytes);
        while !self.closed {
            let most = if self.known { MAX_LINE } else { MAX_STRANGER_LINE };
            match self.lines.next(most) {
                None => break,
                Some(Err(why)) => self.refuse(None, &why, &mut steps),
                // An empty line is no call: tools like to end with one.
                Some(Ok(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
                Some(Ok(line)) => self.line(&line, now_ms, &mut steps),
            }
        }
        steps
    }

    /// The connection ended, or a line did not come in time.
    pub fn end(&mut self, slow: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.closed && self.is_partial() {
            self.refuse(None, if slow { &BadFrame::Slow } else { &BadFrame::Truncated }, &mut steps);
        }
        self.closed = true;
        steps
    }

    fn refuse(&mut self, ticket: Option<Ticket>, why: &BadFrame, steps: &mut Vec<Step>) {
        let ticket = ticket.unwrap_or_else(|| self.unasked());
        steps.push(Step::Say(ticket.say(Err(why.into()))));
        if why.ends() {
            self.close(steps);
        }
    }

    fn close(&mut self, steps: &mut Vec<Step>) {
        self.closed = true;
        steps.push(Step::Close);
    }

    fn line(&mut self, line: &[u8], now_ms: u64, steps: &mut Vec<Step>) {
        let plain = line.first() != Some(&b'{');
        self.plain = plain;
        let ticket = Ticket { id: None, plain };
        let most = if self.known { RATE } else { STRANGER_RATE };
        if !self.bucket.take(most, now_ms) {
            self.refuse(Some(ticket), &BadFrame::TooFast { most }, steps);
            if !self.known {
                self.close(steps);
            }
            return;
        }
        match check(line) {
            Err(why) => self.refuse(Some(ticket), &why, steps),
            Ok(text) if plain => self.command(text, steps),
            Ok(text) => match serde_json::from_str::<Call>(text) {
                Ok(call) => self.call(call, steps),
                Err(why) => self.refuse(Some(ticket), &BadFrame::NotACall(unreadable(&why)), steps),
            },
        }
    }

    fn call(&mut self, call: Call, steps: &mut Vec<Step>) {
        let ticket = Ticket { id: Some(call.id), plain: false };
        match (call.hello, call.ask) {
            (Some(hello), None) => self.greet(ticket, &hello, steps),
            (None, Some(request)) if !self.greeted && !request.is_open() => {
                let text =
                    "a call before any hello; begin with {\"id\":0,\"hello\":{\"versions\":[1],\"token\":\"…\"}}";
                steps.push(Step::Say(ticket.say(Err(fault("hello-first", text)))));
            }
            (None, Some(request)) => self.admit(ticket, request, None, steps),
            _ => {
                let why = BadFrame::NotACall("it has either `hello` or `ask`".to_owned());
                self.refuse(Some(ticket), &why, steps);
            }
        }
    }

    fn greet(&mut self, ticket: Ticket, hello: &Hello, steps: &mut Vec<Step>) {
        let offered = hello.versions.iter().take(MAX_VERSIONS);
        let Some(version) = offered.filter(|version| VERSIONS.contains(version)).max() else {
            let spoken: Vec<String> = VERSIONS.iter().map(ToString::to_string).collect();
            let text = format!(
                "no version of the language in common; this keeper speaks {}; use a command of the same release",
                spoken.join(", ")
            );
            steps.push(Step::Say(ticket.say(Err(fault("version", &text)))));
            return self.close(steps);
        };
        if !self.shown(ticket, &hello.token, steps) {
            return;
        }
        self.greeted = true;
        let program = concat!("lazaret ", env!("CARGO_PKG_VERSION")).to_owned();
        steps.push(Step::Say(ticket.say(Ok(Reply::Hello { version: *version, program }))));
    }

    /// Whether the token is right. A wrong one ends the connection.
    fn shown(&mut self, ticket: Ticket, token: &str, steps: &mut Vec<Step>) -> bool {
        if self.token.is(token) {
            if !self.known {
                self.known = true;
                self.bucket.left = RATE;
            }
            return true;
        }
        let text =
            "the token is wrong; it is in `ipc.token` in the data root, or what LAZARET_IPC_TOKEN was for the keeper";
        steps.push(Step::Say(ticket.say(Err(fault("wrong-token", text)))));
        self.close(steps);
        false
    }

    fn command(&mut self, text: &str, steps: &mut Vec<Step>) {
        let ticket = Ticket { id: None, plain: true };
        match plain::parse(text) {
            Ok((request, token)) => self.admit(ticket, request, token, steps),
            Err(why) => self.refuse(Some(ticket), &why, steps),
        }
    }

    /// The one place that lets a request through: what needs the token, and whether it was shown.
    fn admit(&mut self, ticket: Ticket, request: Request, token: Option<&str>, steps: &mut Vec<Step>) {
        if let Some(token) = token
            && !self.shown(ticket, token, steps)
        {
            return;
        }
        if !self.known && !request.is_open() {
            let text = "this needs the token; only ping and health are answered without";
            steps.push(Step::Say(ticket.say(Err(fault("token-needed", text)))));
            return;
        }
        steps.push(Step::Ask(Box::new(Ask { ticket, request })));
    }
}

/// What is wrong with a call, without what was in it: a token may have been.
fn unreadable(why: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let what = match why.classify() {
        Category::Syntax | Category::Eof => "it is not JSON",
        Category::Data => "it is not what a call looks like",
        Category::Io => "it can't be read",
    };
    format!("{what}, at column {}", why.column())
}

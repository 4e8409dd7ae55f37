//! The counter agent, in Rust. The same commands as its siblings in C, JavaScript and Python, so that one table of
//! tests drives all four. What it remembers lives in ordinary memory: the host keeps that between turns.

use std::cell::RefCell;
use std::fmt::Write as _;

wit_bindgen::generate!({ path: "../../wit", world: "agent" });

use lazaret::host::types::Fault;
use lazaret::host::{agents, clock, http, log, model, random, secrets, storage, tools};

#[derive(Default)]
struct Memory {
    numbers: Vec<i64>,
    total: i64,
    rolls: Vec<String>,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

struct Counter;
export!(Counter);

impl Guest for Counter {
    fn handle(input: Message) -> Result<Reply, Failure> {
        let text = String::from_utf8(input.body).map_err(|_| bad("the body is not UTF-8"))?;
        let (command, rest) = split(&text);
        let answer = match command {
            "add" => add(rest.parse().map_err(|_| bad(&format!("not a whole number: {rest}")))?),
            "recall" => Ok(recall()),
            "stored" => stored(),
            "roll" => roll(),
            "rolls" => Ok(MEMORY.with_borrow(|memory| memory.rolls.join(","))),
            "fetch" => request("GET", rest, ""),
            "post" => {
                let (url, body) = split(rest);
                request("POST", url, body)
            }
            "handle" => secrets::handle(rest),
            "call" => {
                let (method, rest) = split(rest);
                let (url, rest) = split(rest);
                call(method, url, split(rest))
            }
            "tool" => {
                let (name, arguments) = split(rest);
                tools::call(name, arguments)
            }
            "ask" => ask(rest),
            "tell" => {
                let (to, body) = split(rest);
                agents::send(to, "text/plain", body.as_bytes()).map(|number| format!("sent={number}"))
            }
            "say" => log::write(log::Level::Info, rest).map(|()| "said".to_string()),
            "spin" => loop {
                std::hint::spin_loop();
            },
            "fail" => return Err(Failure::Failed(rest.to_string())),
            "crash" => panic!("told to crash"),
            other => return Err(bad(&format!("unknown command: {other}"))),
        };
        Ok(reply(answer.unwrap_or_else(|fault| describe(&fault))))
    }
}

/// The first word, and what follows the space after it.
fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn bad(text: &str) -> Failure {
    Failure::BadInput(text.to_string())
}

fn reply(text: String) -> Reply {
    Reply {
        content_type: "text/plain; charset=utf-8".to_string(),
        body: text.into_bytes(),
    }
}

fn describe(fault: &Fault) -> String {
    match fault {
        Fault::Refused(refusal) => format!("refused: {} {}", refusal.code, refusal.reason),
        Fault::Failed(text) => format!("failed: {text}"),
    }
}

fn add(number: i64) -> Result<String, Fault> {
    let (total, count) = MEMORY.with_borrow_mut(|memory| {
        memory.numbers.push(number);
        memory.total = memory.total.wrapping_add(number);
        (memory.total, memory.numbers.len())
    });
    storage::set("total", total.to_string().as_bytes())?;
    Ok(format!("total={total} count={count}"))
}

fn recall() -> String {
    MEMORY.with_borrow(|memory| memory.numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

fn stored() -> Result<String, Fault> {
    Ok(match storage::get("total")? {
        Some(entry) => format!("stored={}@{}", String::from_utf8_lossy(&entry.value), entry.version),
        None => "stored=none".to_string(),
    })
}

fn roll() -> Result<String, Fault> {
    let mut text = "random=".to_string();
    for byte in random::bytes(8)? {
        let _ = write!(text, "{byte:02x}");
    }
    let _ = write!(text, " now={:016x}", clock::now()?);
    MEMORY.with_borrow_mut(|memory| memory.rolls.push(text.clone()));
    Ok(text)
}

fn request(method: &str, url: &str, body: &str) -> Result<String, Fault> {
    let response = http::fetch(&http::Request {
        method: method.to_string(),
        url: url.to_string(),
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
    })?;
    Ok(format!("status={} bytes={}", response.status, response.body.len()))
}

/// A request with one header; `-` for none.
fn call(method: &str, url: &str, (name, value): (&str, &str)) -> Result<String, Fault> {
    let header = http::Header {
        name: name.to_string(),
        value: value.to_string(),
    };
    let response = http::fetch(&http::Request {
        method: method.to_string(),
        url: url.to_string(),
        headers: if name == "-" { Vec::new() } else { vec![header] },
        body: Vec::new(),
    })?;
    Ok(format!("status={} {}", response.status, String::from_utf8_lossy(&response.body)))
}

fn ask(text: &str) -> Result<String, Fault> {
    let completion = model::generate(&model::Prompt {
        model: "rehearsal/echo".to_string(),
        utterances: vec![model::Utterance {
            role: model::Role::User,
            text: text.to_string(),
        }],
        max_tokens: 256,
    })?;
    Ok(completion.text)
}

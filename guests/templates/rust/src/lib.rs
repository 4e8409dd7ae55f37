//! An agent that counts what it hears.

use std::sync::Mutex;

wit_bindgen::generate!({ path: "wit", world: "agent" });

use lazaret::host::log::{self, Level};
use lazaret::host::storage;
use lazaret::host::types::Fault;

/// Ordinary memory: the host keeps it between turns, also while the agent sleeps on disk.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Agent;
export!(Agent);

impl Guest for Agent {
    fn handle(input: Message) -> Result<Reply, Failure> {
        let text = String::from_utf8(input.body).map_err(|_| Failure::BadInput("the message is not UTF-8".into()))?;
        let answer = hear(&text).map_err(|fault| Failure::Failed(explain(fault)))?;
        Ok(Reply {
            content_type: "text/plain; charset=utf-8".into(),
            body: answer.into_bytes(),
        })
    }
}

/// All that reaches outside is an ask, and any ask can be refused.
fn hear(text: &str) -> Result<String, Fault> {
    let mut heard = HEARD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    heard.push(text.to_string());
    log::write(Level::Info, &format!("heard {text:?}"))?;
    storage::set("heard", heard.len().to_string().as_bytes())?;
    Ok(format!("I have heard {} so far: {}", heard.len(), heard.join(", ")))
}

fn explain(fault: Fault) -> String {
    match fault {
        Fault::Refused(refusal) => format!("{}: {} {}", refusal.code, refusal.reason, refusal.remedy),
        Fault::Failed(text) => text,
    }
}

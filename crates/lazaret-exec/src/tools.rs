//! The built-in tools: a small mailbox over fixture data, so that agents have something real to work on.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use lazaret_gate::Grants;
use lazaret_gate::outcome::Tool;
use serde::Deserialize;
use serde_json::json;

use crate::fixtures;
use crate::limits::MAX_DRAFT;

/// The built-in tools, and where they keep what they make.
pub struct Toolbox {
    dir: PathBuf,
}

/// Name, what it does, JSON Schema of its arguments.
const TOOLS: [(&str, &str, &str); 3] = [
    ("mail.list", "Lists the mails in the inbox.", r#"{"type":"object","properties":{},"additionalProperties":false}"#),
    (
        "mail.read",
        "Reads one mail by its id.",
        r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}"#,
    ),
    (
        "mail.draft",
        "Keeps a draft for a person to send.",
        r#"{"type":"object","properties":{"to":{"type":"string"},"subject":{"type":"string"},"body":{"type":"string"}},"required":["to","subject","body"],"additionalProperties":false}"#,
    ),
];

/// The tools that these grants cover.
pub fn granted(grants: &Grants) -> Vec<Tool> {
    let tool = |(name, description, arguments): (&str, &str, &str)| Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        arguments: arguments.to_owned(),
    };
    TOOLS.into_iter().filter(|(name, ..)| grants.covers_tool(name)).map(tool).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    to: String,
    subject: String,
    body: String,
}

fn arguments<'a, T: Deserialize<'a>>(tool: &str, text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|why| format!("`{tool}` doesn't take these arguments: {why}"))
}

impl Toolbox {
    /// Tools that keep what they make in `dir`; it is made when it is first needed.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Calls a tool with JSON arguments; the result is JSON too.
    pub fn call(&self, name: &str, text: &str) -> Result<String, String> {
        match name {
            "mail.list" => {
                let Nothing {} = arguments(name, text)?;
                let mails = fixtures::inbox()?;
                let rows = mails
                    .iter()
                    .map(|mail| json!({"id": mail.id, "from": mail.from, "subject": mail.subject, "unread": true}));
                Ok(rows.collect::<serde_json::Value>().to_string())
            }
            "mail.read" => {
                let Which { id } = arguments(name, text)?;
                let mails = fixtures::inbox()?;
                let mail = mails.iter().find(|mail| mail.id == id).ok_or_else(|| format!("there is no mail `{id}`"))?;
                Ok(json!({"id": mail.id, "from": mail.from, "subject": mail.subject, "body": mail.body}).to_string())
            }
            "mail.draft" => self.draft(arguments(name, text)?),
            other => Err(format!("there is no tool `{other}` here")),
        }
    }

    /// Appends one line, on disk before it returns.
    fn draft(&self, draft: Draft) -> Result<String, String> {
        let line = json!({"to": draft.to, "subject": draft.subject, "body": draft.body}).to_string();
        if line.len() > MAX_DRAFT {
            return Err(format!("a draft of {} bytes; the most is {MAX_DRAFT}", line.len()));
        }
        let keep = || -> std::io::Result<()> {
            std::fs::create_dir_all(&self.dir)?;
            let mut file =
                OpenOptions::new().create(true).read(true).append(true).open(self.dir.join("drafts.jsonl"))?;
            let before = file.metadata()?.len();
            // A crash may have cut the last line short; this one must not be taken for its end.
            let gap = if ends_a_line(&file, before)? { "" } else { "\n" };
            let kept = file.write_all(format!("{gap}{line}\n").as_bytes()).and_then(|()| file.sync_data());
            if kept.is_err() {
                // The agent is told that it failed, so nothing of it should stay.
                let _ = file.set_len(before);
            }
            kept
        };
        keep().map_err(|why| format!("the draft can't be kept: {why}"))?;
        Ok(json!({"kept": true}).to_string())
    }
}

fn ends_a_line(mut file: &File, len: u64) -> std::io::Result<bool> {
    let mut last = [b'\n'];
    if len > 0 {
        file.seek(SeekFrom::Start(len - 1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last == [b'\n'])
}

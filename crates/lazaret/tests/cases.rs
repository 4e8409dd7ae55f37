//! What the command says. Each file of `tests/cases` is a case: a data root of its own, commands, what they must print and
//! the code they must exit with. Whatever is done to it, nothing panics and nothing that was recorded is lost.
//!
//! A new case is a new file there. `LAZARET_CASE=name` runs those whose path has it, `LAZARET_BLESS=1` writes what
//! is said now into the files.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

mod support {
    pub(crate) mod plain;
    pub(crate) mod script;
    pub(crate) mod session;
    pub(crate) mod stage;
}
#[allow(dead_code, reason = "shared by several tests")]
#[path = "support/station.rs"]
mod station;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::plain::plain;
use support::script::{self, Step, matches, renewed};
use support::stage::{Said, Stage, can_share};

/// Fewer cases than this mean that some got lost.
const AT_LEAST: usize = 45;

fn find(dir: &Path, cases: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("tests/cases is there") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            find(&path, cases);
        } else {
            assert_eq!(path.extension().and_then(|ending| ending.to_str()), Some("case"), "{}", path.display());
            cases.push(path);
        }
    }
}

/// What a command said, as it is compared. JSON is judged by whether it is, and by its keys.
fn shown(command: &str, said: &Said) -> Result<String, String> {
    if said.text.contains("panicked") {
        return Err(format!("$ {command}\nit panicked:\n{}", said.text));
    }
    if !command.split(' ').any(|word| word == "--json") {
        return Ok(plain(&said.text));
    }
    let value =
        serde_json::from_str(&said.text).map_err(|why| format!("$ {command}\nnot JSON: {why}\n{}", said.text))?;
    Ok(keys(&value))
}

fn keys(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(fields) => {
            format!("{{{}}}", fields.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Array(items) => {
            format!("{} x {}", items.len(), items.first().map_or("nothing".to_owned(), keys))
        }
        other => plain(&other.to_string()),
    }
}

/// Plays a case. Returns it with what was said in place of what was expected, and what was wrong.
fn play(mut steps: Vec<Step>, mut stage: Stage) -> (Vec<Step>, Vec<String>) {
    let mut wrong = Vec::new();
    for step in &mut steps {
        match step {
            Step::Comment(_) => {}
            Step::Setup { line, body } => stage.set_up(line, body),
            Step::Run { command, expected, code } => {
                let said = stage.run(command);
                let text = match shown(command, &said) {
                    Ok(text) => text,
                    Err(why) => {
                        wrong.push(why);
                        continue;
                    }
                };
                let found: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
                if !matches(expected, &found) || said.code != *code {
                    let expected_text = expected.join("\n");
                    wrong.push(format!(
                        "$ {command}\n--- expected, exit code {code}\n{expected_text}\n--- found, exit code {}\n{}",
                        said.code,
                        found.join("\n")
                    ));
                    *expected = renewed(expected, &found);
                    *code = said.code;
                }
            }
        }
    }
    wrong.extend(stage.check_data().err());
    (steps, wrong)
}

fn try_case(path: &Path, bless: bool) -> Option<String> {
    let text = std::fs::read_to_string(path).expect("a case is text");
    let played = std::panic::catch_unwind(|| play(script::parse(&text), Stage::new()));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let Ok((steps, wrong)) = played else { return Some(format!("== {name}: the case itself is wrong; see above")) };
    if bless {
        std::fs::write(path, script::print(&steps)).expect("a case can be written");
    }
    if wrong.is_empty() || bless { None } else { Some(format!("== {name}\n{}", wrong.join("\n\n"))) }
}

/// The cases of these folders are played a second time, with a keeper in the background: the command asks it, and must say
/// the same.
const KEPT: [&str; 14] = [
    "agent",
    "approvals",
    "budget",
    "bundle",
    "component",
    "journal",
    "kill",
    "policy",
    "replay",
    "schedule",
    "status",
    "trust",
    "turn",
    "vault",
];

/// A comment that says this keeps a case to itself: a keeper answers mail in its own time, and not before a command ends.
const ALONE: &str = "Without a keeper";

/// Fewer than this mean that some got lost.
const AT_LEAST_KEPT: usize = 60;

/// Plays a case with a keeper, unless it does things to the data root that nobody does while one runs.
fn try_kept(path: &Path) -> Option<Option<String>> {
    let text = std::fs::read_to_string(path).expect("a case is text");
    let steps = script::parse(&text);
    let alone = steps.iter().any(|step| match step {
        Step::Setup { line, .. } => !can_share(line),
        Step::Comment(text) => text.contains(ALONE),
        Step::Run { .. } => false,
    });
    if alone {
        return None;
    }
    let played = std::panic::catch_unwind(|| play(steps, Stage::kept()));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let Ok((_, wrong)) = played else { return Some(Some(format!("== {name}: the case itself is wrong; see above"))) };
    Some((!wrong.is_empty()).then(|| format!("== {name}, with a keeper\n{}", wrong.join("\n\n"))))
}

#[test]
fn a_keeper_says_the_same() {
    let mut cases = Vec::new();
    KEPT.iter().for_each(|folder| find(&station::workspace().join("tests/cases").join(folder), &mut cases));
    cases.sort();
    let only = std::env::var("LAZARET_CASE").unwrap_or_default();
    cases.retain(|path| path.to_string_lossy().contains(&only));
    let (next, wrong, played) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(path) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(tried) = try_kept(path) else { continue };
                    played.fetch_add(1, Ordering::Relaxed);
                    wrong.lock().expect("no worker failed").extend(tried);
                }
            });
        }
    });
    let (wrong, played) = (wrong.into_inner().expect("no worker failed"), played.into_inner());
    station::say(&format!("cases with a keeper: {played} played, {} wrong", wrong.len()));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
    assert!(played >= AT_LEAST_KEPT || !only.is_empty(), "{played} cases; there were at least {AT_LEAST_KEPT}");
}

#[test]
fn the_readmes_session_is_what_happens() {
    let bless = std::env::var("LAZARET_BLESS").is_ok_and(|bless| bless == "1");
    let wrong = support::session::try_document(&station::workspace().join("README.md"), bless);
    assert!(wrong.is_empty(), "\n{}\nLAZARET_BLESS=1 writes the session anew", wrong.join("\n\n"));
}

#[test]
fn every_case_says_what_it_must() {
    let mut cases = Vec::new();
    find(&station::workspace().join("tests/cases"), &mut cases);
    cases.sort();
    assert!(cases.len() >= AT_LEAST, "{} cases; there were at least {AT_LEAST}", cases.len());
    let only = std::env::var("LAZARET_CASE").unwrap_or_default();
    cases.retain(|path| path.to_string_lossy().contains(&only));
    let bless = std::env::var("LAZARET_BLESS").is_ok_and(|bless| bless == "1");
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(path) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    wrong.lock().expect("no worker failed").extend(try_case(path, bless));
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no worker failed");
    station::say(&format!("cases: {} played, {} wrong", cases.len(), wrong.len()));
    assert!(wrong.is_empty(), "\n{}\nLAZARET_BLESS=1 takes what was found as right", wrong.join("\n\n"));
}

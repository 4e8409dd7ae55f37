//! One word per thing, in what people read first.

use super::Finding;
use super::source::has_word;
use super::tree::{Tree, numbered};

/// A word that some would use, and ours for the same thing. Short on purpose: only words that mean nothing else here.
const SYNONYMS: &[(&str, &str)] = &[
    ("audit log", "journal"),
    ("audit trail", "journal"),
    ("event log", "journal"),
    ("ledger", "journal"),
    ("cassette", "tape"),
    ("memory snapshot", "image"),
    ("plugin", "app"),
    ("bot", "agent"),
    ("capability token", "permit"),
    ("deny reason", "refusal"),
    ("rejection", "refusal"),
    ("taint", "label"),
    ("sandbox level", "tier"),
];

pub(super) fn synonyms(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        for (line, comment) in file.source.iter().flat_map(|source| numbered(source.comments.iter())) {
            let comment = comment.trim_start().to_lowercase();
            if !comment.starts_with("///") && !comment.starts_with("//!") {
                continue;
            }
            for (word, ours) in SYNONYMS {
                if has_word(&comment, word) || has_word(&comment, &format!("{word}s")) {
                    found.push(Finding::new(&file.path, line, format!("say \"{ours}\", not \"{word}\"")));
                }
            }
        }
    }
    found
}

/// Nothing in `wit/` may need a table of handles in the host.
pub(super) fn resources(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(&["wit"]) && file.path.starts_with("wit/")) {
        for (line, code) in file.source.iter().flat_map(|source| numbered(source.code.iter())) {
            if has_word(code, "resource") {
                let message = "a `resource` does not survive sleep: use a function and a plain id";
                found.push(Finding::new(&file.path, line, message));
            }
        }
    }
    found
}

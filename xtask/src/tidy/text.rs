//! Rules that need no understanding of the file.

use super::Finding;
use super::source::has_word;
use super::tree::{File, Tree, numbered};

/// Marks of work that isn't done; an issue is the place for that.
const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];
const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Written by people: snapshots and fixtures hold whatever a program printed.
const PROSE: &[&str] =
    &["rs", "wit", "toml", "md", "py", "js", "mjs", "c", "h", "sh", "cedar", "cedarschema", "yml", "html", "css"];

fn by_hand(file: &File) -> bool {
    file.is(PROSE) || !file.name().trim_start_matches('.').contains('.')
}

pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| by_hand(file)) {
        let mut mark = |line, word: &str| {
            found.push(Finding::new(&file.path, line, format!("`{word}`: finish it, or open an issue")));
        };
        for word in MARKS {
            match &file.source {
                Some(source) => numbered(source.comments.iter()).for_each(|(line, text)| {
                    if has_word(text, word) {
                        mark(line, word);
                    }
                }),
                None => file.lines().filter(|(_, text)| has_word(text, word)).for_each(|(line, _)| mark(line, word)),
            }
        }
        for (line, code) in file.source.iter().flat_map(|source| numbered(source.code.iter())) {
            for word in MACROS.iter().filter(|word| has_word(code, word) && code.contains(&format!("{word}!"))) {
                mark(line, &format!("{word}!"));
            }
        }
    }
    found
}

/// Directories that exist on somebody's machine only. In pieces, so that this file passes its own rule.
const PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/ba", "sh_jobs"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
];

pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        for (line, text) in file.lines() {
            for place in PLACES.iter().filter(|place| names(text, place)) {
                found.push(Finding::new(&file.path, line, format!("`{place}…` is a path of one machine")));
            }
        }
    }
    found
}

/// Whether an absolute path that begins with `place`, and goes on, stands in the text.
fn names(text: &str, place: &str) -> bool {
    text.match_indices(place).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + place.len()..].chars().next();
        let absolute = !before.is_some_and(|char| char.is_alphanumeric() || "_.~-/}*".contains(char));
        absolute && (!place.ends_with('/') || after.is_some_and(|char| char.is_alphanumeric() || "_.".contains(char)))
    })
}

/// What says that the address on the same line is where packages come from.
const REGISTRY_KEYS: &[&str] =
    &["\"resolved\":", "registry=", "registry =", "registry+", "sparse+", "index-url", "--registry", "find-links"];
const PUBLIC_HOSTS: &[&str] = &[
    "github.com",
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "registry.npmjs.org",
    "pypi.org",
    "files.pythonhosted.org",
];

pub(super) fn registry_hosts(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        for (line, text) in file.lines().filter(|(_, text)| REGISTRY_KEYS.iter().any(|key| text.contains(key))) {
            for host in hosts(text).filter(|host| !PUBLIC_HOSTS.contains(host)) {
                let message = format!("packages come from the public registries, not from `{host}`");
                found.push(Finding::new(&file.path, line, message));
            }
        }
    }
    found
}

fn hosts(text: &str) -> impl Iterator<Item = &str> {
    text.split("://").skip(1).map(|rest| {
        let authority = rest.split(|char: char| "/\"' )>?#".contains(char)).next().unwrap_or(rest);
        authority.rsplit('@').next().unwrap_or(authority)
    })
}

pub(super) fn whitespace(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| by_hand(file)) {
        let mut mark = |line, message: &str| found.push(Finding::new(&file.path, line, message));
        for (line, text) in file.text.split('\n').enumerate().map(|(index, text)| (index + 1, text)) {
            if text.ends_with(char::is_whitespace) {
                mark(line, "whitespace at the end of the line");
            }
            if file.source.is_some() && text.contains('\t') {
                mark(line, "a tab; four spaces");
            }
        }
        let last = file.text.lines().count().max(1);
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            mark(last, "no newline at the end of the file");
        }
        if file.text.ends_with("\n\n") {
            mark(last, "an empty line at the end of the file");
        }
    }
    found
}

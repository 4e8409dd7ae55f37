//! Where `unsafe` may stand, and what must stand above it.

use super::Finding;
use super::source::{Source, has_word, occurrences};
use super::tree::{Tree, numbered};

/// The only homes of `unsafe`.
const HOMES: &[&str] = &["crates/lazaret-guest/src/native/"];

pub(super) fn homes(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in tree.rust().filter(|(file, _)| !HOMES.iter().any(|home| file.path.starts_with(home))) {
        for (line, code) in numbered(source.code.iter()) {
            if has_word(code, "unsafe") {
                let message = format!("`unsafe` outside its home, {}", HOMES.join(" and "));
                found.push(Finding::new(&file.path, line, message));
            }
        }
    }
    found
}

pub(super) fn reasons(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in tree.rust() {
        for (index, code) in source.code.iter().enumerate() {
            // `unsafe fn` states a contract in its documentation, or its trait's does; the blocks in it need reasons.
            let needs =
                occurrences(code, "unsafe").any(|at| !code[at + "unsafe".len()..].trim_start().starts_with("fn "));
            if needs && !reasoned(source, index) {
                found.push(Finding::new(&file.path, index + 1, "`unsafe` without a `// SAFETY:` comment above it"));
            }
        }
    }
    found
}

/// Whether the comment directly above the statement that this line is part of gives the reason.
fn reasoned(source: &Source, index: usize) -> bool {
    let mut above = index;
    while above > 0 {
        let code = source.code[above - 1].trim();
        let comment = source.comments[above - 1].trim();
        if comment.contains("SAFETY:") {
            return true;
        }
        let attribute = code.starts_with("#[");
        let ended = !attribute && code.ends_with([';', '{', '}']);
        let blank = code.is_empty() && comment.is_empty();
        if ended || blank {
            return false;
        }
        above -= 1;
    }
    false
}

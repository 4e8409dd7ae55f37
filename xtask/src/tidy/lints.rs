//! Lints are on everywhere, and switching one off says why.

use super::Finding;
use super::source::occurrences;
use super::tree::Tree;

/// `#[allow(…)]` and `#[expect(…)]` need `reason = "…"`.
pub(super) fn suppressions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in tree.rust() {
        let code = source.code.join("\n");
        for (start, attribute) in attributes(&code) {
            let suppresses = ["allow", "expect"].iter().any(|word| {
                occurrences(attribute, word).any(|at| attribute[at + word.len()..].trim_start().starts_with('('))
            });
            // Strings are blanked, not removed: an empty reason is two quotation marks side by side.
            let reason = occurrences(attribute, "reason").next().map(|at| &attribute[at..]);
            let given = reason.is_some_and(|text| text.contains("= \"") && !text.contains("\"\""));
            if suppresses && !given {
                let line = code[..start].matches('\n').count() + 1;
                found.push(Finding::new(&file.path, line, "a lint is switched off without `reason = \"…\"`"));
            }
        }
    }
    found
}

/// Every `#[…]` and `#![…]` with its offset.
fn attributes(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices('#').filter_map(|(start, _)| {
        let rest = &code[start..];
        (rest.starts_with("#[") || rest.starts_with("#![")).then_some(())?;
        let mut depth = 0usize;
        for (at, char) in rest.char_indices() {
            match char {
                '[' => depth += 1,
                ']' if depth == 1 => return Some((start, &rest[..at])),
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    })
}

/// Every package of ours takes the workspace's lints.
pub(super) fn tables(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in tree.ours() {
        let manifest = tree.file(&package.manifest).map_or("", |file| file.text.as_str());
        let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
        if !lines.by_ref().take_while(|line| !line.starts_with('[')).any(|line| line == "workspace = true") {
            found.push(Finding::new(&package.manifest, 1, "no `[lints]` table with `workspace = true`"));
        }
    }
    found
}

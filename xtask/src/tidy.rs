//! `cargo xtask tidy`: the style of the tree, as a test.
//!
//! A rule reads the [`Tree`] and returns [`Finding`]s. What can't be mended yet stands in `xtask/tidy.txt` with its
//! figure and a reason; an exception that grew, shrank or is no longer needed fails too, so the list only gets shorter.

mod length;
mod lints;
mod locks;
mod markdown;
mod packages;
mod ratchet;
mod safety;
mod source;
mod spdx;
mod text;
mod tree;
mod words;

#[cfg(test)]
mod tests;

use std::path::Path;
use tree::Tree;

/// Something a rule objects to.
#[derive(Debug)]
struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    /// Set when an exception names a part of the file (a function) and not the whole.
    item: Option<String>,
    /// What an exception is measured by: lines for a length, else 1, so that exceptions count findings.
    figure: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_string(), line, item: None, figure: 1, message: message.into() }
    }

    /// What the exceptions file calls it.
    fn key(&self) -> String {
        match &self.item {
            Some(item) => format!("{}::{item}", self.path),
            None => self.path.clone(),
        }
    }
}

struct Rule {
    /// As in the exceptions file and at the end of each line of the report.
    name: &'static str,
    find: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    rule("file-length", length::files),
    rule("function-length", length::functions),
    rule("unsafe-home", safety::homes),
    rule("unsafe-reason", safety::reasons),
    rule("suppression", lints::suppressions),
    rule("lints-table", lints::tables),
    rule("unfinished", text::unfinished),
    rule("machine-path", text::machine_paths),
    rule("registry-host", text::registry_hosts),
    rule("whitespace", text::whitespace),
    rule("word", words::synonyms),
    rule("wit-resource", words::resources),
    rule("link", markdown::links),
    rule("limits", packages::limits),
    rule("direction", packages::direction),
    rule("reach", packages::reach),
    rule("pin", packages::pins),
    rule("licence", packages::licences),
    rule("source", locks::sources),
    rule("ban", locks::bans),
];

const fn rule(name: &'static str, find: fn(&Tree) -> Vec<Finding>) -> Rule {
    Rule { name, find }
}

/// Prints one line per violation; an error when there is any.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let violations = report(&tree);
    for line in &violations {
        println!("{line}");
    }
    match violations.len() {
        0 => {
            println!("tidy: {} files, {} rules, no violations", tree.files.len(), RULES.len());
            Ok(())
        }
        1 => Err("tidy: 1 violation".to_string()),
        many => Err(format!("tidy: {many} violations")),
    }
}

/// The lines to print: findings that no exception covers, and exceptions that no longer fit.
fn report(tree: &Tree) -> Vec<String> {
    let found = RULES.iter().flat_map(|rule| (rule.find)(tree).into_iter().map(|finding| (rule.name, finding)));
    let mut rest = ratchet::apply(tree, found.collect());
    rest.sort_by(|(_, a), (_, b)| (&a.path, a.line).cmp(&(&b.path, b.line)));
    rest.iter().map(|(rule, at)| format!("{}:{}: {} [{rule}]", at.path, at.line, at.message)).collect()
}

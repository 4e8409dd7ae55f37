//! Links in Markdown that point into the repository must arrive.

use super::Finding;
use super::tree::{File, Tree};

pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(&["md"])) {
        for (line, target) in targets(file) {
            let path = target.split('#').next().unwrap_or_default();
            let outside = target.contains("://") || target.starts_with("mailto:") || path.is_empty();
            if !outside && !arrives(tree, &file.path, path) {
                found.push(Finding::new(&file.path, line, format!("the link to `{target}` leads nowhere")));
            }
        }
    }
    found
}

/// What stands in `](…)` outside code.
fn targets(file: &File) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    let mut fenced = false;
    for (line, text) in file.lines() {
        if text.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        let mut from = 0;
        while let Some(open) = text[from..].find("](").map(|at| from + at) {
            let rest = &text[open + 2..];
            let quoted = text[..open].matches('`').count() % 2 == 1;
            let end = rest.find(')').unwrap_or(rest.len());
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            if !quoted {
                targets.push((line, target.trim_matches(|char| char == '<' || char == '>')));
            }
            from = open + 2;
        }
    }
    targets
}

fn arrives(tree: &Tree, from: &str, target: &str) -> bool {
    let Some(path) = resolve(from, target) else {
        return false;
    };
    let inside = format!("{path}/");
    path.is_empty() || tree.files.iter().any(|file| file.path == path || file.path.starts_with(&inside))
}

/// The target from the root; none when it climbs out of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

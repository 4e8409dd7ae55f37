//! Known exceptions. Each has a figure and a reason, and stands only as long as both are true.

use super::tree::{Tree, numbered};
use super::{Finding, RULES};

pub(super) const PATH: &str = "xtask/tidy.txt";

/// `rule key figure reason`, one to a line.
struct Exception<'a> {
    rule: &'a str,
    /// A path, or `path::function`.
    key: &'a str,
    figure: usize,
}

/// Takes out what the exceptions cover and puts in what is wrong with them.
pub(super) fn apply(tree: &Tree, mut found: Vec<(&'static str, Finding)>) -> Vec<(&'static str, Finding)> {
    let mut wrong = Vec::new();
    let text = tree.file(PATH).map_or("", |file| file.text.as_str());
    for (line, text) in numbered(text.lines()) {
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let complaint = match parse(text) {
            Ok(exception) => settle(&exception, &mut found),
            Err(message) => Some(message),
        };
        wrong.extend(complaint.map(|message| ("exception", Finding::new(PATH, line, message))));
    }
    found.append(&mut wrong);
    found
}

fn parse(text: &str) -> Result<Exception<'_>, String> {
    let mut parts = text.split_whitespace();
    let (Some(rule), Some(key), Some(figure), Some(_reason)) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("an exception is `rule path figure reason`".to_string());
    };
    if !RULES.iter().any(|known| known.name == rule) {
        return Err(format!("there is no rule `{rule}`"));
    }
    let figure = figure.parse().map_err(|_| format!("`{figure}` is not a number"))?;
    Ok(Exception { rule, key, figure })
}

/// An exception covers its findings only if the figure is exactly theirs.
fn settle(exception: &Exception<'_>, found: &mut Vec<(&'static str, Finding)>) -> Option<String> {
    let Exception { rule, key, figure } = exception;
    let covered = |(name, finding): &(&str, Finding)| name == rule && finding.key() == *key;
    let actual: usize = found.iter().filter(|entry| covered(entry)).map(|(_, finding)| finding.figure).sum();
    found.retain(|entry| !covered(entry) || actual > *figure);
    let now = |what: &str| Some(format!("{rule} of {key}: {what}"));
    match actual {
        0 => now("no longer needed: take the exception out"),
        less if less < *figure => now(&format!("down from {figure} to {less}: say so here, so that it stays down")),
        more if more > *figure => now(&format!("grew from {figure} to {more}")),
        _ => None,
    }
}

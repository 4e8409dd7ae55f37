//! Lock files against `deny.toml`: where packages come from and which may not come at all.

use super::Finding;
use super::tree::{File, Tree};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

struct Locked<'a> {
    line: usize,
    name: &'a str,
    /// None for a path: the package is in this repository.
    source: Option<&'a str>,
}

/// Every lock file of the tree, those of the guests too.
fn lock_files(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.name() == "Cargo.lock")
}

fn packages(file: &File) -> Vec<Locked<'_>> {
    let mut packages: Vec<Locked<'_>> = Vec::new();
    for (line, text) in file.lines() {
        if let Some(name) = quoted(text, "name = ") {
            packages.push(Locked { line, name, source: None });
        } else if let (Some(source), Some(last)) = (quoted(text, "source = "), packages.last_mut()) {
            last.source = Some(source);
        }
    }
    packages
}

fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix('"')?.strip_suffix('"')
}

pub(super) fn sources(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in lock_files(tree) {
        for package in packages(file) {
            if let Some(source) = package.source.filter(|source| *source != REGISTRY) {
                let message = format!("`{}` comes from `{source}`; only crates.io is allowed", package.name);
                found.push(Finding::new(&file.path, package.line, message));
            }
        }
    }
    found
}

pub(super) fn bans(tree: &Tree) -> Vec<Finding> {
    let banned = banned(tree);
    let mut found = Vec::new();
    for file in lock_files(tree) {
        for package in packages(file) {
            for (name, reason) in banned.iter().filter(|(name, _)| *name == package.name) {
                found.push(Finding::new(&file.path, package.line, format!("`{name}` is banned: {reason}")));
            }
        }
    }
    found
}

/// Where a package stands in the workspace's lock file.
pub(super) fn line_of(tree: &Tree, name: &str) -> usize {
    let lock = tree.file("Cargo.lock");
    lock.into_iter().flat_map(packages).find(|package| package.name == name).map_or(1, |package| package.line)
}

/// `licenses.allow` of `deny.toml`, one string to a line.
pub(super) fn allowed_licences(tree: &Tree) -> Vec<&str> {
    section(tree, "[licenses]")
        .skip_while(|line| *line != "allow = [")
        .take_while(|line| *line != "]")
        .filter_map(|line| line.strip_prefix('"')?.split('"').next())
        .collect()
}

/// `bans.deny` of `deny.toml`: one `{ crate = "…", reason = "…" }` to a line.
fn banned<'a>(tree: &'a Tree) -> Vec<(&'a str, &'a str)> {
    let entry = |line: &'a str| line.strip_prefix("{ crate = \"")?.strip_suffix("\" },")?.split_once("\", reason = \"");
    section(tree, "[bans]").filter_map(entry).collect()
}

fn section<'a>(tree: &'a Tree, header: &'static str) -> impl Iterator<Item = &'a str> {
    let text = tree.file("deny.toml").map_or("", |file| file.text.as_str());
    text.lines()
        .map(str::trim)
        .skip_while(move |line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
}

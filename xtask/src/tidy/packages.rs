//! Our crates and what they may lean on.

use super::tree::Tree;
use super::{Finding, locks, spdx};
use crate::run;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Who may depend on whom among us, whatever the kind of dependency. A crate that isn't here has no place yet.
const LAYERS: &[(&str, &[&str])] = &[
    ("lazaret", &["lazaret-host", "lazaret-guest", "lazaret-exec", "lazaret-store", "lazaret-link", "lazaret-gate"]),
    ("lazaret-host", &["lazaret-guest", "lazaret-exec", "lazaret-store", "lazaret-link", "lazaret-gate"]),
    ("lazaret-guest", &["lazaret-gate"]),
    ("lazaret-exec", &["lazaret-gate"]),
    ("lazaret-store", &["lazaret-gate"]),
    ("lazaret-link", &["lazaret-gate"]),
    ("lazaret-gate", &[]),
    ("xtask", &[]),
];

/// What a crate may not reach, however indirectly.
const OUT_OF_REACH: &[(&str, &[&str], &str)] = &[
    ("lazaret-gate", &["wasmtime", "rusqlite", "hyper", "rustix", "tokio", "getrandom"], "it decides and does no I/O"),
    ("lazaret-guest", &["rusqlite", "hyper", "rustls", "tokio"], "an import can only build an effect"),
    ("lazaret-link", &["wasmtime", "rusqlite", "hyper", "tokio"], "what is said can be tried without a runtime"),
    ("lazaret-host", &["axum"], "the servers are the binary's"),
];

/// Formats on disk are keyed by the exact version of these.
const PINNED: &[&str] = &["wasmtime"];

/// These take bytes from somebody hostile, so each names its caps in one place.
const HOSTILE_INPUT: &[&str] = &["lazaret-gate", "lazaret-guest", "lazaret-exec", "lazaret-store", "lazaret-link"];

/// What cargo says of a package.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) ours: bool,
    /// From the root, for packages of ours.
    pub(super) manifest: String,
    licence: Option<String>,
    /// Direct dependencies of every kind, with the version asked for.
    wants: Vec<(String, String)>,
    /// Everything that gets linked in, itself excepted.
    reaches: BTreeSet<String>,
}

impl Package {
    pub(super) fn all(root: &Path) -> Result<Vec<Package>, String> {
        let rustc = run::capture(root, &["rustc", "-vV"])?;
        let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not say its host")?;
        let ask = ["cargo", "metadata", "--format-version", "1", "--filter-platform", host];
        // A fresh clone may not have fetched what only tests use.
        let offline = run::capture(root, &[&ask[..], &["--offline"]].concat());
        let json = offline.or_else(|_| run::capture(root, &ask))?;
        Package::parse(&json)
    }

    /// Reads the output of `cargo metadata`.
    pub(super) fn parse(json: &str) -> Result<Vec<Package>, String> {
        let metadata: Value = serde_json::from_str(json).map_err(|error| format!("cargo metadata: {error}"))?;
        let root = text(&metadata["workspace_root"]);
        let members: BTreeSet<&str> = list(&metadata["workspace_members"]).map(text).collect();
        let names: BTreeMap<&str, &str> =
            list(&metadata["packages"]).map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let links = links(&metadata);
        let package = |value: &Value| {
            let id = text(&value["id"]);
            let manifest = text(&value["manifest_path"]);
            let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
            let reached = closure(&links, id);
            Package {
                name: text(&value["name"]).to_string(),
                ours: members.contains(id),
                manifest: manifest.to_string(),
                licence: value["license"].as_str().map(str::to_string),
                wants: list(&value["dependencies"])
                    .map(|wanted| (text(&wanted["name"]).to_string(), text(&wanted["req"]).to_string()))
                    .collect(),
                reaches: reached.iter().filter_map(|id| names.get(id)).map(|name| name.to_string()).collect(),
            }
        };
        Ok(list(&metadata["packages"]).map(package).collect())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Who links whom: dependencies for building and testing left out.
fn links(metadata: &Value) -> BTreeMap<&str, Vec<&str>> {
    let linked = |dependency: &&Value| list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
    list(&metadata["resolve"]["nodes"])
        .map(|node| (text(&node["id"]), list(&node["deps"]).filter(linked).map(|to| text(&to["pkg"])).collect()))
        .collect()
}

fn closure<'a>(links: &BTreeMap<&'a str, Vec<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(id) = next.pop() {
        next.extend(links.get(id).into_iter().flatten().filter(|to| reached.insert(**to)));
    }
    reached
}

pub(super) fn direction(tree: &Tree) -> Vec<Finding> {
    let ours: BTreeSet<&str> = tree.ours().map(|package| package.name.as_str()).collect();
    let mut found = Vec::new();
    for package in tree.ours() {
        let mut mark = |message| found.push(Finding::new(&package.manifest, 1, message));
        let Some((_, below)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
            mark(format!("`{}` has no place in the order of our crates (LAYERS in xtask)", package.name));
            continue;
        };
        let wanted: BTreeSet<&str> = package.wants.iter().map(|(name, _)| name.as_str()).collect();
        for name in wanted.intersection(&ours).filter(|name| !below.contains(name)) {
            mark(format!("`{}` may not depend on `{name}`", package.name));
        }
    }
    found
}

pub(super) fn reach(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in tree.ours() {
        for (_, forbidden, why) in OUT_OF_REACH.iter().filter(|(name, _, _)| *name == package.name) {
            for name in forbidden.iter().filter(|name| package.reaches.contains(**name)) {
                let message = format!("`{}` reaches `{name}`; {why}", package.name);
                found.push(Finding::new(&package.manifest, 1, message));
            }
        }
    }
    found
}

pub(super) fn pins(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in tree.ours() {
        for (name, version) in package.wants.iter().filter(|(name, _)| PINNED.contains(&name.as_str())) {
            if !version.starts_with('=') {
                let message = format!("`{name}` must be pinned exactly, as `=x.y.z`; it is `{version}`");
                found.push(Finding::new(&package.manifest, 1, message));
            }
        }
    }
    found
}

/// The licences allowed are those in `deny.toml`.
pub(super) fn licences(tree: &Tree) -> Vec<Finding> {
    let allowed = locks::allowed_licences(tree);
    let mut found = Vec::new();
    for package in &tree.packages {
        let message = match &package.licence {
            Some(licence) if spdx::allowed(licence, &allowed) => continue,
            Some(licence) => format!("`{}` is under `{licence}`, which deny.toml does not allow", package.name),
            None => format!("`{}` names no licence", package.name),
        };
        found.push(Finding::new("Cargo.lock", locks::line_of(tree, &package.name), message));
    }
    found
}

pub(super) fn limits(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in tree.ours().filter(|package| HOSTILE_INPUT.contains(&package.name.as_str())) {
        let path = package.manifest.replace("Cargo.toml", "src/limits.rs");
        if tree.file(&path).is_none() {
            found.push(Finding::new(&path, 1, "missing: a crate that takes hostile input names its limits here"));
        }
    }
    found
}

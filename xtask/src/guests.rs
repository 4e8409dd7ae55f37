//! `cargo xtask guests`: the agents in the repository, built by their own script.

use crate::{run, tools};
use std::path::Path;

pub(crate) fn build(root: &Path, what: &[&str]) -> Result<(), String> {
    tools::ensure_targets(root)?;
    let mut line = vec!["sh", "guests/build.sh"];
    line.extend(if what.is_empty() { &["all"] } else { what });
    run::show(root, &line)
}

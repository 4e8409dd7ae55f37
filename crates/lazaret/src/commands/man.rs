//! `lazaret man`

use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::failure::{Code, Failure};
use crate::ui::Ui;

/// Write the manual pages
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory to write them into; it must exist
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<Code, Failure> {
    let fail = |why| Failure::File { what: "can't write manual pages into", path: args.dir.display().to_string(), why };
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(fail)?;
    let dir = args.dir.display().to_string();
    ui.json(&serde_json::json!({ "dir": dir }));
    ui.line(&format!("wrote manual pages into {dir}; try: man -l {}", args.dir.join("lazaret.1").display()));
    Ok(Code::Done)
}

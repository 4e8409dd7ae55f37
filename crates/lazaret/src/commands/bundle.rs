//! `lazaret bundle`

use std::path::PathBuf;

use clap::Subcommand;
use lazaret_gate::Digest;
use lazaret_host::Selection;
use serde_json::json;

use super::open_host;
use crate::cli::Cli;
use crate::failure::{Code, Failure};
use crate::text::grouped;
use crate::ui::{Tone, Ui};

/// Hand turns to a stranger
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write turns, and all that is needed to check them offline, into one file
    Export {
        /// AGENT, AGENT:TURN or AGENT:FIRST-LAST
        #[arg(required = true)]
        turns: Vec<String>,
        /// Where to write it
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let Command::Export { turns, output } = &args.command;
    let selections = turns.iter().map(|turns| turns.parse()).collect::<Result<Vec<Selection>, _>>()?;
    let host = open_host(cli, ui, Vec::new())?;
    ui.progress("collecting…");
    let bytes = host.export(&selections)?;
    ui.progress_done();
    let path = output.display().to_string();
    std::fs::write(output, &bytes).map_err(|why| Failure::File { what: "can't write", path: path.clone(), why })?;
    ui.json(&json!({ "file": path, "bytes": bytes.len(), "digest": Digest::of(&bytes) }));
    ui.line(&format!("{} {path}, {} bytes", ui.paint(Tone::Good, "wrote"), grouped(bytes.len() as u64)));
    ui.line(&format!("check it with: lazaret verify {path}"));
    Ok(Code::Done)
}

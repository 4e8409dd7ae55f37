//! `lazaret bundle`

use std::path::PathBuf;

use clap::Subcommand;
use lazaret_gate::{Bytes, Digest};
use lazaret_host::Selection;
use lazaret_link::{Reply, Request, TurnsRequest};
use serde_json::json;

use crate::cli::Cli;
use crate::door::{Door, unexpected};
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
    turns.iter().try_for_each(|turns| turns.parse::<Selection>().map(|_| ()))?;
    let mut door = Door::open(cli, ui)?;
    ui.progress("collecting…");
    let Reply::Bundle(Bytes(bytes)) = door.ask(Request::Turns(TurnsRequest::Export { turns: turns.clone() }))? else {
        return Err(unexpected());
    };
    ui.progress_done();
    let path = output.display().to_string();
    std::fs::write(output, &bytes).map_err(|why| Failure::File { what: "can't write", path: path.clone(), why })?;
    ui.json(&json!({ "file": path, "bytes": bytes.len(), "digest": Digest::of(&bytes) }));
    ui.line(&format!("{} {path}, {} bytes", ui.paint(Tone::Good, "wrote"), grouped(bytes.len() as u64)));
    ui.line(&format!("check it with: lazaret verify {path}"));
    Ok(Code::Done)
}

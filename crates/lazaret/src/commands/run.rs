//! `lazaret run`

use std::path::PathBuf;

use lazaret_gate::AgentId;
use lazaret_host::NewAgent;

use super::terms::{BudgetArgs, CapsArgs, GrantArgs, MessageArgs};
use super::{open_host, read_component, turn};
use crate::cli::Cli;
use crate::failure::{Code, Failure};
use crate::ui::Ui;

/// Run a component once: one turn, on record
///
/// Makes an agent of the component, has it take one turn with the message, and removes it. The reply goes to standard
/// output, everything else to standard error. The turn can be replayed and exported like any other.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A WebAssembly component: a durable agent or a WASI 0.2 command
    component: PathBuf,

    #[command(flatten)]
    message: MessageArgs,
    #[command(flatten)]
    grants: GrantArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    caps: CapsArgs,

    /// Set an environment variable for the component; needs `--grant environment`
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(String, String)>,
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let message = args.message.message(None)?;
    let component = read_component(&args.component)?;
    let host = open_host(cli, ui, args.environment.clone())?;
    let (grants, budget, caps) = (args.grants.grants(), args.budget.budget(), args.caps.caps()?);
    let new = NewAgent { agent: run_name(&host)?, grants, budget, caps };
    ui.progress("inspecting and compiling…");
    let row = host.create(new, &component).map_err(|why| Failure::of_component(&args.component, why))?;
    ui.progress_done();
    let taken = host.send(&row.agent, message);
    host.remove(&row.agent)?;
    let taken = taken?;
    turn::show(ui, &taken);
    Ok(turn::code(&taken.record.ending))
}

/// A name that was never used: the journal only grows.
fn run_name(host: &lazaret_host::Host) -> Result<AgentId, Failure> {
    let name = format!("run-{}", host.store().journal_len()?);
    name.parse().map_err(|why: lazaret_gate::id::BadAgentId| Failure::Failed(why.to_string()))
}

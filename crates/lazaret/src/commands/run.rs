//! `lazaret run`

use std::path::PathBuf;

use lazaret_gate::Bytes;
use lazaret_link::{Request, RunRequest};

use super::terms::{BudgetArgs, CapsArgs, GrantArgs, MessageArgs, warn_of_egress};
use super::{read_component, turn};
use crate::cli::Cli;
use crate::door::Door;
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
    let mut door = Door::open(cli, ui)?;
    let request = RunRequest {
        component: Bytes(component),
        content_type: message.content_type,
        body: message.body,
        grants: args.grants.grants(),
        budget: args.budget.budget(),
        caps: args.caps.caps()?,
        environment: args.environment.clone(),
    };
    ui.progress("inspecting, compiling and running…");
    // The name it gets is known when it is over; such names are no agent's that a person made.
    let taken = door.take_turn(Request::Run(Box::new(request)), |agent| agent.as_str().starts_with("run-"));
    ui.progress_done();
    let taken = taken.map_err(|why| why.about_component(&args.component))?;
    turn::show(ui, &taken);
    warn_of_egress(&taken.record.grants, ui);
    Ok(turn::code(&taken.record.ending))
}

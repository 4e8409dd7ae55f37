//! `lazaret agent simulate-crash`

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lazaret_gate::AgentId;
use lazaret_host::{HostError, Keeper, Surroundings};
use lazaret_link::{AgentRequest, LinkError, Request};
use serde_json::json;

use super::terms::MessageArgs;
use super::{data_dir, open_host};
use crate::cli::Cli;
use crate::door::Door;
use crate::failure::{Code, Failure};
use crate::keeper::shared::crash;
use crate::ui::{Tone, Ui};

/// Cut a turn off as if the power had gone, to see what becomes of it
///
/// Puts the message into the agent's mailbox, lets the agent take its turn, and kills the process that runs it when the
/// turn has run and nothing of it is committed: the keeper, if one runs, or a process made for this. What was acknowledged
/// must still be there when the data root is opened again, and no effect may be done twice.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which
    name: AgentId,
    /// The message of the turn that is cut off
    #[arg(conflicts_with_all = ["input", "input_file"])]
    message: Option<String>,
    #[command(flatten)]
    input: MessageArgs,
    /// Even if that cuts off what the keeper does for others
    #[arg(long)]
    with_others: bool,
    /// Be the process that is killed
    #[arg(long, hide = true)]
    here: bool,
}

/// A process that was made to be killed.
struct Doomed;

impl Surroundings for Doomed {
    fn stop(&self, _: Duration) {}

    fn crash(&self) {
        crash();
    }
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let message = args.input.message(args.message.as_deref())?;
    let (agent, with_others) = (args.name.clone(), args.with_others);
    let body = message.body.clone();
    let request = Request::Agent(AgentRequest::SimulateCrash {
        agent,
        content_type: message.content_type.clone(),
        body: message.body,
        with_others,
    });
    if args.here {
        let keeper = Keeper::new(Arc::new(open_host(cli, ui)?)).with_surroundings(Arc::new(Doomed));
        keeper.answer(request)?;
        return Ok(Code::Failed);
    }
    let mut door = Door::open(cli, ui)?;
    let known = door.row(&args.name)?;
    let killed = match &mut door {
        Door::There { client, .. } => match client.ask(request) {
            Err(LinkError::Broken(_)) => "the keeper",
            Err(why) => return Err(why.into()),
            Ok(_) => return Err(HostError::Halted("nothing was cut off".into()).into()),
        },
        // What is to be killed opens the data root itself.
        Door::Here(_) => {
            drop(door);
            kill_child(args, cli, &message.content_type, &body.0)?;
            "a process made for it"
        }
    };
    let turn = known.turn + 1;
    ui.json(&json!({ "agent": args.name, "turn": turn, "killed": killed }));
    let name = &args.name;
    ui.line(&format!("{} turn {turn} of {name}: {killed} was killed in it", ui.paint(Tone::Odd, "cut off:")));
    ui.line("The turn had run; its record, its memory and its storage were not committed, so they never were.");
    ui.line("The message was on disk before the turn began, so it still waits, or the turn that answers it does.");
    ui.line("What to look at:");
    ui.line(&format!("  lazaret agent show {name}      turns, mailbox, and the unfinished turn if effects had left"));
    ui.line("  lazaret journal verify         the chain is whole");
    if killed == "the keeper" {
        ui.line("  lazaret serve                  starts the keeper again: it takes the turn up, or anew");
    } else {
        ui.line(&format!("  lazaret agent send {name} …    takes the turn up, or anew, and then its own"));
    }
    ui.line(&format!("  lazaret replay verify {name}   every turn on record still comes out the same"));
    Ok(Code::Done)
}

/// Has another process take the turn and die of it.
fn kill_child(args: &Args, cli: &Cli, content_type: &str, body: &[u8]) -> Result<(), Failure> {
    use std::io::Write as _;
    let failed = |why: std::io::Error| Failure::Failed(format!("no process could be started to be killed: {why}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("--data-dir").arg(data_dir(cli)?).args(["--preset", &cli.preset]);
    command.args(["agent", "simulate-crash", args.name.as_str(), "--here", "--input-file", "-"]);
    command.args(["--content-type", content_type]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // If it is gone before it has read all, that is what its end tells.
        let _ = input.write_all(body);
    }
    let ended = child.wait_with_output().map_err(failed)?;
    if ended.status.signal().is_some() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().trim_start_matches("error: ").replace("\n help: ", "; ");
    Err(Failure::Failed(if said.is_empty() { "the process did not die".to_owned() } else { said }))
}

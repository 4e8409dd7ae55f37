//! `lazaret serve`

use std::time::{Duration, Instant};

use lazaret_host::{Host, HostError, Settings};
use lazaret_link::{Client, LinkError, socket};
use lazaret_store::{AgentState, Store, StoreError};
use tracing::{error, info, warn};

use super::{data_dir, spend_killed};
use crate::cli::Cli;
use crate::door;
use crate::failure::{Code, Failure};
use crate::keeper::http::Wish;
use crate::keeper::{self, limits::PATIENCE, logs};
use crate::prompt;
use crate::ui::Ui;

/// Keep a data root open, run its agents and answer whoever may ask: the keeper
///
/// While a keeper runs, the other commands ask it instead of opening the data root themselves. It listens on a socket in
/// the data root that only its own user can reach, and on loopback for HTTP (see docs/api.md). SIGTERM or `lazaret stop` lets what is under way end; a second SIGTERM
/// doesn't. It stays in the foreground; service managers like it so (see dist/systemd).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stay in the foreground; it always does
    #[arg(long)]
    foreground: bool,
    /// Where the HTTP interface is served, on loopback only; port 0 takes any that is free [default: 127.0.0.1:7419]
    #[arg(long, value_name = "ADDR|off", env = "LAZARET_HTTP")]
    http: Option<Wish>,
}

pub(crate) fn run(args: &Args, cli: &Cli, _: &Ui) -> Result<Code, Failure> {
    let Args { foreground: _, http } = args;
    logs::start()?;
    let root = data_dir(cli)?;
    let stop_spending = spend_killed()?;
    let (preset, patience_ms) = (cli.preset.clone(), cli.patience * 1000);
    let passphrase = prompt::named(prompt::PASSPHRASE_FILE);
    let settings = Settings { preset, patience_ms, stop_spending, passphrase, ..Settings::default() };
    let host = open(&root, &settings)?;
    let token = door::keepers_token(&root)?;
    keeper::mark(&root).map_err(|why| Failure::Failed(format!("the socket's folder can't be made: {why}")))?;
    for problem in host.problems() {
        warn!(problem = lazaret_gate::shown::text(&problem.to_string()), "policy");
    }
    if let Some(why) = host.keys().problem() {
        error!(why = lazaret_gate::shown::text(&why.to_string()), "vault");
    }
    for row in host.store().agents()? {
        match (row.state, row.unfinished) {
            (AgentState::InDoubt, _) => {
                warn!(agent = row.agent.as_str(), "in doubt: a person has to settle an effect");
            }
            (AgentState::Asleep, Some(turn)) => {
                info!(agent = row.agent.as_str(), turn, "a turn was cut off and is taken up");
            }
            _ => {}
        }
    }
    keeper::serve(&root, host, token, http.unwrap_or(Wish::Usual))?;
    Ok(Code::Done)
}

/// Opens the data root. A command that has it ends soon and is waited for; another keeper is not.
fn open(root: &std::path::Path, settings: &Settings) -> Result<Host, Failure> {
    let begun = Instant::now();
    // A socket that is already ours answers nobody yet.
    let nobody = || keeper::is_handed_over() || matches!(Client::ping(&socket(root)), Err(LinkError::Nobody));
    if nobody() {
        // Commands that find the data root taken by this process wait until it answers. A root that isn't there yet can't be
        // marked; it is once it is. In one that others may write to nothing is made.
        let _ = Store::examine(root).map(|()| keeper::mark(root));
    }
    loop {
        match Host::open_with(root, settings.clone()) {
            Err(HostError::Store(StoreError::Busy { pid })) => {
                if !nobody() {
                    let who = pid.map_or_else(String::new, |pid| format!(" as process {pid}"));
                    let text = format!("a keeper runs on this data root{who}; `lazaret stop` ends it");
                    return Err(Failure::Busy(text));
                }
                if begun.elapsed() >= PATIENCE {
                    return Err(StoreError::Busy { pid }.into());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return Ok(opened?),
        }
    }
}

//! One file per command.

pub(crate) mod agent;
pub(crate) mod approvals;
pub(crate) mod budget;
pub(crate) mod bundle;
pub(crate) mod completions;
pub(crate) mod crash;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod journal;
pub(crate) mod kill;
pub(crate) mod man;
pub(crate) mod policy;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod stop;
mod stopping;
pub(crate) mod terms;
pub(crate) mod trust;
pub(crate) mod turn;
pub(crate) mod vault;
pub(crate) mod verify;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use lazaret_host::{Host, Settings, Turn};
use lazaret_link::Recovered;
use lazaret_store::{Reader, Store};

use crate::cli::{Cli, Command};
use crate::failure::{Code, Failure};
use crate::person::Terminal;
use crate::prompt;
use crate::text::grouped;
use crate::ui::{Tone, Ui};

pub(crate) fn run(cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    match &cli.command {
        Command::Demo(args) => demo::run(args, cli, ui),
        Command::Run(args) => run::run(args, cli, ui),
        Command::Serve(args) => serve::run(args, cli, ui),
        Command::Stop(args) => stop::run(args, cli, ui),
        Command::Agent(args) => agent::run(args, cli, ui),
        Command::Schedule(args) => schedule::run(args, cli, ui),
        Command::Approvals(args) => approvals::run(args, cli, ui),
        Command::Policy(args) => policy::run(args, cli, ui),
        Command::Budget(args) => budget::run(args, cli, ui),
        Command::Kill(args) => kill::run(args, cli, ui),
        Command::Trust(args) => trust::run(args, cli, ui),
        Command::Vault(args) => vault::run(args, cli, ui),
        Command::Secret(args) => secret::run(args, cli, ui),
        Command::Status(args) => status::run(args, cli, ui),
        Command::Replay(args) => replay::run(args, cli, ui),
        Command::Journal(args) => journal::run(args, cli, ui),
        Command::Bundle(args) => bundle::run(args, cli, ui),
        Command::Verify(args) => verify::run(args, ui),
        Command::Init(args) => init::run(args, ui),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args, ui),
    }
}

/// The data root: `--data-dir` or `LAZARET_DATA_DIR`, else the platform's data directory.
pub(crate) fn data_dir(cli: &Cli) -> Result<PathBuf, Failure> {
    if let Some(dir) = &cli.data_dir {
        return Ok(dir.clone());
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(target_os = "macos") {
        absolute("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
    };
    let base =
        base.ok_or_else(|| Failure::Failed("there is no home directory to keep data in; set LAZARET_DATA_DIR".into()))?;
    Ok(base.join("lazaret"))
}

/// Stops all spending when a command starts that can write to the data root.
pub(crate) const SPEND_KILL_SWITCH: &str = "LAZARET_SPEND_KILL_SWITCH";

/// Who stops all spending, if the environment says so.
pub(crate) fn spend_killed() -> Result<Option<String>, Failure> {
    let value = std::env::var_os(SPEND_KILL_SWITCH).unwrap_or_default();
    match value.to_str() {
        Some("" | "0") => Ok(None),
        Some("1") => Ok(Some(SPEND_KILL_SWITCH.to_owned())),
        _ => {
            let value = value.to_string_lossy();
            Err(Failure::Input(format!("{SPEND_KILL_SWITCH} is `{value}`; 1 stops all spending, 0 does nothing")))
        }
    }
}

/// Who is at the terminal, for the record.
pub(crate) fn operator() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    name.unwrap_or_else(|| "an operator".into())
}

/// Opens the data root for writing and takes up what a crash cut off.
pub(crate) fn open_host(cli: &Cli, ui: &Ui) -> Result<Host, Failure> {
    let (preset, patience_ms) = (cli.preset.clone(), cli.patience * 1000);
    let (person, stop_spending) = (Terminal::find(), spend_killed()?);
    let passphrase = prompt::named(prompt::PASSPHRASE_FILE);
    let settings = Settings { preset, patience_ms, person, stop_spending, passphrase, ..Settings::default() };
    let host = Host::open_with(&data_dir(cli)?, settings)?;
    host.problems().iter().for_each(|problem| report_problem(ui, &problem.to_string()));
    if let Some(why) = host.keys().problem() {
        ui.aside(Tone::Bad, "vault:", &why.to_string());
    }
    let recovered = host.recover()?;
    report_recovery(ui, recovered.into());
    Ok(host)
}

/// Something is wrong with the operator's files.
pub(crate) fn report_problem(ui: &Ui, problem: &str) {
    ui.aside(Tone::Bad, "policy:", &lazaret_gate::shown::text(problem));
}

pub(crate) fn report_recovery(ui: &Ui, recovered: Recovered) {
    for turn in recovered.finished.into_iter().map(Turn::from) {
        let (agent, number) = (&turn.record.agent, turn.record.turn);
        ui.aside(Tone::Odd, "recovered:", &format!("turn {number} of `{agent}` was cut off and is now finished"));
        turn::notices(ui, &turn);
    }
    for agent in &recovered.in_doubt {
        ui.aside(Tone::Bad, "in doubt:", &format!("agent `{agent}` waits for a person: lazaret agent show {agent}"));
    }
    for (agent, why) in &recovered.failed {
        ui.aside(Tone::Bad, "not recovered:", &format!("`{agent}`: {why}"));
    }
}

/// Opens the data root for reading; another process may be writing to it.
pub(crate) fn open_reader(cli: &Cli) -> Result<Reader, Failure> {
    Ok(Store::open_read_only(&data_dir(cli)?)?)
}

/// Reads a file that the user named, or standard input for `-`, up to a limit.
pub(crate) fn read_input(path: &Path, most: usize) -> Result<Vec<u8>, Failure> {
    let fail = |why| Failure::File { what: "can't read", path: path.display().to_string(), why };
    let mut bytes = Vec::new();
    // One byte more than allowed, so that too much is told from just enough.
    let limit = most as u64 + 1;
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(fail)?;
    } else {
        std::fs::File::open(path).map_err(fail)?.take(limit).read_to_end(&mut bytes).map_err(fail)?;
    }
    if bytes.len() > most {
        let name = if path == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", path.display()) };
        return Err(Failure::Input(format!("{name} has more than {} bytes, which is the most", grouped(most as u64))));
    }
    Ok(bytes)
}

pub(crate) fn read_component(path: &Path) -> Result<Vec<u8>, Failure> {
    read_input(path, lazaret_guest::limits::MAX_COMPONENT)
}

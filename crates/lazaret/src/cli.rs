//! What can be typed. Each command's help is the doc comment of its own file's arguments.

use std::path::PathBuf;

use clap::{ColorChoice, Parser, Subcommand};

use crate::commands::{
    agent, approvals, budget, bundle, completions, demo, init, journal, kill, man, policy, replay, run, schedule,
    secret, serve, status, stop, trust, vault, verify,
};

/// A quarantine station for AI agents.
///
/// Runs untrusted agents as WebAssembly components. Whatever an agent asks of the world passes one gate; every turn is a
/// recorded, chained, signed fact; anybody can run the record again and get the same bytes.
#[derive(Parser)]
#[command(name = "lazaret", version, max_term_width = 100, arg_required_else_help = true, after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Where everything is kept
    ///
    /// The default is the platform's data directory. Nothing is written anywhere else, except what `-o` names.
    #[arg(long, global = true, value_name = "DIR", env = "LAZARET_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,

    /// The rules that a new data root begins with: locked-down, balanced or open
    #[arg(long, global = true, value_name = "PRESET", env = "LAZARET_PRESET", default_value = "locked-down",
        value_parser = clap::builder::PossibleValuesParser::new(lazaret_gate::policy::PRESETS))]
    pub(crate) preset: String,

    /// How many seconds a question waits for an answer; silence is denial
    #[arg(long, global = true, value_name = "SECONDS", env = "LAZARET_PATIENCE", default_value_t = 120,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) patience: u64,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Demo(demo::Args),
    Run(run::Args),
    Serve(serve::Args),
    Stop(stop::Args),
    Agent(agent::Args),
    Schedule(schedule::Args),
    Approvals(approvals::Args),
    Policy(policy::Args),
    Budget(budget::Args),
    Kill(kill::Args),
    Trust(trust::Args),
    Vault(vault::Args),
    Secret(secret::Args),
    Status(status::Args),
    Replay(replay::Args),
    Journal(journal::Args),
    Bundle(bundle::Args),
    Verify(verify::Args),
    Init(init::Args),
    Completions(completions::Args),
    Man(man::Args),
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for replay and verify: MATCH
  1  it could not be done
  2  the command line is wrong
  3  a component, bundle or other input was refused
  4  MISMATCH: a replay differs, or a data root or bundle is not what was signed
  5  UNVERIFIABLE: something that a replay needs is missing
  6  the turn failed or was stopped; its record is all that was kept
  7  the data root is in use by another process
  8  the agent is in doubt: a person has to settle an effect
  9  the question is over: it was answered, or has expired
 10  the agent is revoked
 11  the vault is locked";

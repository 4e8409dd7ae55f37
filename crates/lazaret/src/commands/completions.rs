//! `lazaret completions`

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Code, Failure};

/// Print a completion script for a shell
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Code, Failure> {
    clap_complete::generate(args.shell, &mut Cli::command(), "lazaret", &mut std::io::stdout());
    Ok(Code::Done)
}

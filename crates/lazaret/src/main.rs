//! ASKS. The `lazaret` command.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "the binary is the edge: it alone reads the environment, files named by the user and the terminal"
)]

mod cli;
mod commands;
mod failure;
mod text;
mod ui;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let ui = ui::Ui::new(&cli);
    match commands::run(&cli, &ui) {
        Ok(code) => code.into(),
        Err(failure) => {
            ui.failure(&failure);
            failure.code().into()
        }
    }
}

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
mod door;
mod failure;
mod keeper;
mod person;
mod prompt;
mod text;
mod ui;

use std::error::Error as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{ColorChoice, Parser as _};

/// A command line that can't be understood, as programs see it.
const MISTYPED: u8 = 2;

const NOT_HERE: &str = "there is an argument that this command doesn't take; a value or passphrase is never an argument: it \
                        comes from standard input, a prompt or a file, and `--help` says how";

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(why) => return mistyped(&why),
    };
    let ui = ui::Ui::new(cli.json, cli.color);
    match commands::run(&cli, &ui) {
        Ok(code) => code.into(),
        Err(failure) => {
            ui.failure(&failure);
            failure.code().into()
        }
    }
}

/// Help, or a mistake on the command line. A value that can't be read says why in our own words, not twice.
fn mistyped(why: &clap::Error) -> ExitCode {
    if !why.use_stderr() {
        let _ = why.print();
        return ExitCode::SUCCESS;
    }
    let json = std::env::args_os().any(|arg| arg == "--json");
    let ui = ui::Ui::new(json, ColorChoice::Auto);
    let about_secrets = std::env::args_os().skip(1).any(|arg| arg == "secret" || arg == "vault");
    match (why.kind(), why.get(ContextKind::InvalidArg), why.source()) {
        // What is too much may be a value that somebody put there: it isn't repeated.
        (ErrorKind::UnknownArgument, ..) if about_secrets => ui.error(NOT_HERE, MISTYPED),
        (ErrorKind::ValueValidation, Some(arg), Some(source)) => ui.error(&format!("{arg}: {source}"), MISTYPED),
        _ if json => ui.error(why.to_string().trim_end().trim_start_matches("error: "), MISTYPED),
        _ => drop(why.print()),
    }
    ExitCode::from(MISTYPED)
}

//! The project's own tooling. `cargo xtask` prints what there is.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "tooling reads the tree, starts the tools and prints: that is its job"
)]

mod guests;
mod run;
mod test;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test            everything that must pass: tools, guests, fmt, tidy, clippy, tests, API; stops at the first failure
  tidy            the style of the tree, as a test; exceptions stand in xtask/tidy.txt
  guests [what]   build the agents under guests/ (default: all)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let result = match args.as_slice() {
        ["test"] => test::all(&root),
        ["tidy"] => tidy::check(&root),
        ["guests", what @ ..] => guests::build(&root, what),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        [other, ..] => Err(format!("there is no `cargo xtask {other}` with these arguments\n\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's directory: this crate's parent, wherever the command was typed.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

//! Starting a program and saying plainly what went wrong.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a command line with our own terminal. A failure to start and a failure to succeed are both errors.
pub(crate) fn show(root: &Path, line: &[&str]) -> Result<(), String> {
    show_with(root, line, &[])
}

/// The same with these variables, unless somebody has set others.
pub(crate) fn show_with(root: &Path, line: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let mut command = command(root, line)?;
    command.envs(variables.iter().copied().filter(|(name, _)| std::env::var_os(name).is_none()));
    let status = command.status().map_err(|error| cannot_start(line, &error))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("`{}` failed: {status}", line.join(" "))),
    }
}

/// Runs a command line and takes its standard output.
pub(crate) fn capture(root: &Path, line: &[&str]) -> Result<String, String> {
    let output = command(root, line)?
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| cannot_start(line, &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}` failed: {}\n{}", line.join(" "), output.status, said.trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{}` printed something that is not UTF-8", line.join(" ")))
}

fn command(root: &Path, line: &[&str]) -> Result<Command, String> {
    let (program, args) = line.split_first().ok_or("an empty command line")?;
    let mut command = Command::new(program);
    command.args(args).current_dir(root);
    Ok(command)
}

fn cannot_start(line: &[&str], error: &std::io::Error) -> String {
    format!("`{}` did not start: {error}", line.join(" "))
}

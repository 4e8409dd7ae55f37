//! The environment of a command: variables that the operator gave, no arguments, no terminal.

use lazaret_gate::{Answer, Effect, Outcome};
use wasmtime::component::Resource;

use super::table::Kept;
use super::{Ended, Interface, Kind};
use crate::imports::WrongAnswer;

/// Programs expect their name before their arguments.
const PROGRAM: &str = "agent";

/// There never is one.
struct TerminalInput;

/// There never is one.
struct TerminalOutput;

impl Kept for TerminalInput {}
impl Kept for TerminalOutput {}

pub(super) fn environment(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.asking("get-environment", Kind::Asks("environment.read"), |host, (): ()| {
        match host.ask(Effect::EnvironmentRead {})? {
            Outcome::Done(Answer::Environment(variables)) => Ok((variables,)),
            Outcome::Done(_) => Err(WrongAnswer.into()),
            Outcome::Failed(why) => Err(Ended::Failed(format!("environment.read failed: {why}")).into()),
            // Every C library asks at its start, whether the program wants to know or not. The refusal is on the tape.
            Outcome::Refused(_) => Ok((Vec::new(),)),
        }
    })?;
    interface.local("get-arguments", |_, (): ()| Ok((vec![PROGRAM.to_owned()],)))?;
    interface.local("initial-cwd", |_, (): ()| Ok((None::<String>,)))
}

pub(super) fn exit(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("exit", |_, (status,): (Result<(), ()>,)| -> wasmtime::Result<()> {
        Err(Ended::Exit(u8::from(status.is_err())).into())
    })?;
    interface.local("exit-with-code", |_, (code,): (u8,)| -> wasmtime::Result<()> { Err(Ended::Exit(code).into()) })
}

pub(super) fn terminal_input(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource::<TerminalInput>("terminal-input")
}

pub(super) fn terminal_output(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource::<TerminalOutput>("terminal-output")
}

pub(super) fn terminal_stdin(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("get-terminal-stdin", |_, (): ()| Ok((None::<Resource<TerminalInput>>,)))
}

pub(super) fn terminal_stdout(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("get-terminal-stdout", |_, (): ()| Ok((None::<Resource<TerminalOutput>>,)))
}

pub(super) fn terminal_stderr(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("get-terminal-stderr", |_, (): ()| Ok((None::<Resource<TerminalOutput>>,)))
}

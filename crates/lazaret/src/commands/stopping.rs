//! What stops have in common: a file says what is in force, and whoever has the data root open obeys and puts it on record.

use std::path::Path;
use std::time::Duration;

use lazaret_gate::ledger::Switches;
use lazaret_host::{Host, HostError, InForce, Settings, switches};
use lazaret_link::{LinkError, Reply, Request, Status};
use lazaret_store::StoreError;

use crate::cli::Cli;
use crate::door::keeper_of;
use crate::failure::{Code, Failure};
use crate::ui::{Tone, Ui};

/// How long a keeper may take: it waits for ten seconds for what can't be cut off, and the disk may be slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for what it answers at once. Without that, what the files say has to do.
const LOOK: Duration = Duration::from_secs(10);

/// The switches that are thrown: those that the file says, and those that a keeper could not write there.
pub(crate) fn thrown(root: &Path) -> Switches {
    with_status(root, switches(root), |thrown, status| {
        thrown.all = thrown.all.take().or(status.switches.all);
        thrown.spend = thrown.spend.take().or(status.switches.spend);
    })
}

/// Who is revoked: those whom the file names, and those whom a keeper could not write there.
pub(crate) fn in_force(root: &Path) -> InForce {
    with_status(root, InForce::read(root), |in_force, status| {
        *in_force = std::mem::take(in_force).held_by_keeper(status.held);
    })
}

/// Adds what a keeper says, if one runs and can be asked. What the files say is in force whatever it says.
fn with_status<T>(root: &Path, mut written: T, add: impl FnOnce(&mut T, Status)) -> T {
    if let Ok(Some(mut keeper)) = keeper_of(root)
        && let Ok(Reply::Status(status)) = keeper.ask_within(Request::Status, LOOK)
    {
        add(&mut written, *status);
    }
    written
}

/// Has what happened put on record: by the keeper, or by ourselves if there is none. A keeper answers when all that was stopped
/// has stopped, and says so if something hasn't.
pub(super) fn record(root: &Path, cli: &Cli) -> Result<(), Failure> {
    if let Ok(Some(mut keeper)) = keeper_of(root) {
        match keeper.ask_within(Request::Record, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(fault @ LinkError::Fault(_)) => return Err(fault.into()),
            Err(why) if why.is_late() => {
                let (seconds, what) = (PATIENCE.as_secs(), "this is in force, but the keeper has not said within");
                return Err(Failure::Unconfirmed(format!("{what} {seconds} s that everything it stops has stopped")));
            }
            // It is going, or gone, or in trouble. The file is what counts.
            Err(_) => {}
        }
    }
    Host::open_with(root, Settings { preset: cli.preset.clone(), ..Settings::default() })?;
    Ok(())
}

/// Says what came of that. What was asked for is in force either way.
pub(super) fn told(recorded: Result<(), Failure>, ui: &Ui) -> Result<Code, Failure> {
    match recorded {
        Ok(()) => Ok(Code::Done),
        Err(Failure::Host(HostError::Store(StoreError::Busy { .. }))) => {
            ui.aside(Tone::Quiet, "note:", "another process has the data root open: it obeys and records this");
            Ok(Code::Done)
        }
        Err(why) if why.is_in_force() => Err(why),
        Err(why) => {
            ui.aside(Tone::Bad, "note:", "this is in force, but it can't be put on record:");
            Err(why)
        }
    }
}

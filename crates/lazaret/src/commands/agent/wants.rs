//! The slots that an agent's author declares: read from a manifest, and shown.

use std::path::{Path, PathBuf};

use lazaret_gate::limits::MAX_MANIFEST;
use lazaret_gate::{AgentId, Slots, shown};
use lazaret_host::slots_of;
use lazaret_link::{Reply, Request, SecretRequest, SlotView};
use lazaret_store::{AgentRow, Reader};

use crate::cli::Cli;
use crate::commands::{data_dir, read_input};
use crate::door::{Door, keeper_of, unexpected};
use crate::failure::Failure;
use crate::prompt;
use crate::text::visible;
use crate::ui::{Tone, Ui};

/// What a manifest declares; nothing if there is none.
pub(super) fn read(path: Option<&PathBuf>) -> Result<Slots, Failure> {
    let Some(path) = path else { return Ok(Slots::default()) };
    let named = path.display();
    // A pipe that nobody writes to would be waited for.
    if path != Path::new("-") && path.metadata().is_ok_and(|about| !about.is_file()) {
        return Err(Failure::Input(format!("`{named}` is not a file; name one with `[[secrets]]` tables in it")));
    }
    let bytes = read_input(path, MAX_MANIFEST)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::Input(format!("`{named}` is not UTF-8 text")))?;
    Slots::read(&text).map_err(|why| Failure::Input(format!("`{named}` is no manifest: {why}")))
}

/// The slots of an agent that was just made, as whoever made it says.
pub(super) fn ask(door: &mut Door, agent: &AgentId) -> Result<Vec<SlotView>, Failure> {
    match door.ask(Request::Secret(SecretRequest::Slots { agent: agent.clone() }))? {
        Reply::Slots(slots) => Ok(slots),
        _ => Err(unexpected()),
    }
}

/// The slots of an agent, as the keeper says if one runs; otherwise as far as the data root can be read.
pub(super) fn look(cli: &Cli, reader: &Reader, row: &AgentRow) -> Result<Vec<SlotView>, Failure> {
    if row.slots.is_empty() {
        return Ok(Vec::new());
    }
    let root = data_dir(cli)?;
    let Some(mut keeper) = keeper_of(&root)? else {
        return Ok(slots_of(&root, reader, row, prompt::named(prompt::PASSPHRASE_FILE).as_deref()));
    };
    match keeper.ask(Request::Secret(SecretRequest::Slots { agent: row.agent.clone() }))? {
        Reply::Slots(slots) => Ok(slots),
        _ => Err(unexpected()),
    }
}

/// A slot in two lines: which, and how it stands; then what for, and where its secret goes.
pub(super) fn lines(view: &SlotView, ui: &Ui) -> [String; 2] {
    let state = match (view.bound, &view.unknown) {
        (Some(true), _) => ui.paint(Tone::Good, "bound"),
        (Some(false), _) if view.required => ui.paint(Tone::Bad, "not bound: no turn is taken without it"),
        (Some(false), _) => ui.paint(Tone::Odd, "not bound"),
        (None, why) => {
            let why = why.as_deref().unwrap_or("nobody can tell");
            ui.paint(Tone::Odd, &visible(&format!("unknown: {why}")))
        }
    };
    let required = if view.required { "required" } else { "optional" };
    let hosts =
        if view.hosts.is_empty() { "it names no host".to_owned() } else { format!("for {}", view.hosts.join(", ")) };
    [format!("{}, {required}, {state}", view.slot), format!("  {}; {hosts}", shown::text(&view.purpose))]
}

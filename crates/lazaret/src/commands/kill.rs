//! `lazaret kill`

use std::path::Path;

use lazaret_gate::ledger::{Change, Switch, SwitchEvent};
use lazaret_gate::shown;
use lazaret_host::{Host, HostError, Settings, now, set_switch, switches};
use lazaret_link::{KillRequest, Request};
use serde_json::json;

use super::{SPEND_KILL_SWITCH, data_dir, operator, stopping};
use crate::cli::Cli;
use crate::door::keeper_of;
use crate::failure::{Code, Failure};
use crate::ui::{Tone, Ui};

/// Stop all spending, or everything, at once
///
/// Acts on whatever process has the data root open, in the middle of turns and of effects in flight, and stays in force
/// until it is lifted, over restarts too. Who, when and why is recorded.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to stop; with `--lift`, what to let go on: all that is stopped if nothing is named
    #[arg(required_unless_present = "lift")]
    switch: Option<What>,
    /// Let it go on again
    #[arg(long)]
    lift: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Effects that can cost money
    Spend,
    /// Every turn and every effect
    All,
}

impl From<What> for Switch {
    fn from(what: What) -> Self {
        match what {
            What::Spend => Self::Spend,
            What::All => Self::All,
        }
    }
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let root = data_dir(cli)?;
    if !root.exists() {
        // What was never used can be stopped too.
        Host::open_with(&root, Settings { preset: cli.preset.clone(), ..Settings::default() })?;
    }
    // A stop waits for nobody's word.
    let before = if args.lift { stopping::thrown(&root) } else { switches(&root) };
    let named = args.switch.map(Switch::from);
    let chosen = [Switch::Spend, Switch::All].into_iter().filter(|switch| named.is_none_or(|named| named == *switch));
    // To lift what isn't thrown is no event.
    let chosen: Vec<Switch> = chosen.filter(|switch| !args.lift || before.thrown(*switch).is_some()).collect();
    let by = operator();
    let change = if args.lift { Change::Lifted } else { Change::Thrown };
    for switch in &chosen {
        let (by, at, reason) = (by.clone(), now().moment.wall_ms, args.reason.clone());
        let event = SwitchEvent { switch: *switch, change, by, at, reason };
        match set_switch(&root, &event) {
            // Who has the data root open can obey all the same.
            Err(why @ HostError::Unsaved { .. }) if !args.lift => ask(&root, event)?.ok_or(why)?,
            written => drop(written?),
        }
    }
    // The switch is thrown; putting it on record is for whoever has the data root open, or for us if nobody has. The
    // environment's own switch is left alone here: otherwise nothing could lift it.
    let recorded = stopping::record(&root, cli);
    let after = stopping::thrown(&root);
    ui.json(&json!({ "switches": after, "changed": chosen, "recorded": recorded.is_ok() }));
    for switch in &chosen {
        let (what, again) = match switch {
            Switch::Spend => ("spending", "lazaret kill --lift spend"),
            Switch::All => ("everything", "lazaret kill --lift all"),
        };
        if args.lift {
            ui.line(&format!("{} {what}", ui.paint(Tone::Good, "lifted:")));
        } else {
            ui.line(&format!("{} {what}; `{again}` lets it go on", ui.paint(Tone::Bad, "stopped:")));
        }
        if let Some(first) = before.thrown(*switch).filter(|_| !args.lift) {
            ui.aside(Tone::Quiet, "note:", &format!("{}, and that stands", shown::text(&first.say(*switch))));
        }
    }
    if chosen.is_empty() {
        ui.line(named.map_or("nothing is stopped", |switch| match switch {
            Switch::Spend => "spending is not stopped",
            Switch::All => "not everything is stopped",
        }));
    }
    if args.lift && chosen.contains(&Switch::Spend) && super::spend_killed()?.is_some() {
        let text = format!("`{SPEND_KILL_SWITCH}` is set: the next command that has it stops all spending again");
        ui.aside(Tone::Odd, "note:", &text);
    }
    stopping::told(recorded, ui)
}

/// Has the keeper throw a switch that the file can't be made to say; none if no keeper runs.
fn ask(root: &Path, event: SwitchEvent) -> Result<Option<()>, Failure> {
    let Ok(Some(mut keeper)) = keeper_of(root) else { return Ok(None) };
    let SwitchEvent { switch, by, reason, .. } = event;
    keeper.ask(Request::Kill(KillRequest { switch, lift: false, by, reason }))?;
    Ok(Some(()))
}

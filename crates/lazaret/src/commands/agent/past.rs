//! `lazaret agent fork`, `rollback`, `quarantine`, `wake` and `sleep`

use lazaret_gate::AgentId;
use serde_json::json;

use super::row_json;
use crate::cli::Cli;
use crate::commands::{open_host, operator, report_recovery, turn};
use crate::failure::{Code, Failure};
use crate::ui::{Tone, Ui};

/// A turn in words; 0 is before the first.
fn after(turn: u64) -> String {
    if turn == 0 { "before its first turn".to_owned() } else { format!("after turn {turn}") }
}

pub(super) fn fork(from: &AgentId, new: &AgentId, turn: Option<u64>, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let host = open_host(cli, ui, Vec::new())?;
    let (row, forked) = host.fork(from, turn, new)?;
    let mut said = row_json(&row);
    said["forked"] = json!({ "from": forked.from, "turn": forked.turn, "entry": forked.entry });
    ui.json(&said);
    let done = ui.paint(Tone::Good, "forked");
    ui.line(&format!("{done} {new} from {from} as it was {}", after(forked.turn)));
    Ok(Code::Done)
}

pub(super) fn rollback(name: &AgentId, turn: u64, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let row = open_host(cli, ui, Vec::new())?.rollback(name, turn, &operator())?;
    let mut said = row_json(&row);
    said["rolled_back_to"] = json!(turn);
    ui.json(&said);
    let done = ui.paint(Tone::Good, "rolled back");
    ui.line(&format!("{done} {name}: it is as it was {}, and its next turn is turn {}", after(turn), row.turn + 1));
    Ok(Code::Done)
}

pub(super) fn quarantine(name: &AgentId, reason: &str, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let by = operator();
    open_host(cli, ui, Vec::new())?.quarantine(name, &by, reason)?;
    ui.json(&json!({ "quarantined": name, "by": by, "reason": reason }));
    let done = ui.paint(Tone::Bad, "quarantined");
    ui.line(&format!("{done} {name}: it takes no turn; `lazaret agent wake {name}` lets it go on"));
    Ok(Code::Done)
}

pub(super) fn wake(name: &AgentId, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let host = open_host(cli, ui, Vec::new())?;
    host.wake(name, &operator())?;
    ui.json(&json!({ "woken": name }));
    ui.line(&format!("{} {name}", ui.paint(Tone::Good, "woken")));
    // What waited meanwhile: a turn that was cut off, and mail.
    report_recovery(ui, &host.recover()?);
    for delivered in host.deliver()? {
        turn::notices(ui, &delivered);
        ui.note(Tone::Quiet, &turn::summary(&delivered));
    }
    Ok(Code::Done)
}

pub(super) fn sleep(name: &AgentId, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let let_go = open_host(cli, ui, Vec::new())?.sleep(name)?;
    ui.json(&json!({ "asleep": name, "let_go": let_go }));
    let done = ui.paint(Tone::Good, "asleep");
    ui.line(&format!("{done} {name}: nothing of it is in memory, and its next message wakes it"));
    Ok(Code::Done)
}

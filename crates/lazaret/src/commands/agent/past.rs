//! `lazaret agent fork`, `rollback`, `quarantine`, `wake` and `sleep`

use lazaret_gate::AgentId;
use lazaret_host::Life;
use lazaret_link::{AgentRequest, Reply, Request};
use serde_json::json;

use super::lives::Lives;
use super::row_json;
use crate::cli::Cli;
use crate::commands::{operator, report_recovery, turn};
use crate::door::{Door, unexpected};
use crate::failure::{Code, Failure};
use crate::ui::{Tone, Ui};

/// A turn in words; 0 is before the first.
fn after(turn: u64) -> String {
    if turn == 0 { "before its first turn".to_owned() } else { format!("after turn {turn}") }
}

pub(super) fn fork(from: &AgentId, new: &AgentId, turn: Option<u64>, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let mut door = Door::open(cli, ui)?;
    let fork = AgentRequest::Fork { from: from.clone(), agent: new.clone(), turn };
    let Reply::Forked { turn, entry } = door.ask(Request::Agent(fork))? else { return Err(unexpected()) };
    let mut said = row_json(&door.row(new)?, Life::New.name());
    said["forked"] = json!({ "from": from, "turn": turn, "entry": entry });
    ui.json(&said);
    let done = ui.paint(Tone::Good, "forked");
    ui.line(&format!("{done} {new} from {from} as it was {}", after(turn)));
    Ok(Code::Done)
}

pub(super) fn rollback(name: &AgentId, turn: u64, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let mut door = Door::open(cli, ui)?;
    door.ask(Request::Agent(AgentRequest::Rollback { agent: name.clone(), turn, by: operator() }))?;
    let row = door.row(name)?;
    let mut said = row_json(&row, Lives::of_one(cli, name)?.of(&row));
    said["rolled_back_to"] = json!(turn);
    ui.json(&said);
    let done = ui.paint(Tone::Good, "rolled back");
    ui.line(&format!("{done} {name}: it is as it was {}, and its next turn is turn {}", after(turn), row.turn + 1));
    Ok(Code::Done)
}

pub(super) fn quarantine(name: &AgentId, reason: &str, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let by = operator();
    let quarantine = AgentRequest::Quarantine { agent: name.clone(), by: by.clone(), reason: reason.to_owned() };
    Door::open(cli, ui)?.ask(Request::Agent(quarantine))?;
    ui.json(&json!({ "quarantined": name, "by": by, "reason": reason }));
    let done = ui.paint(Tone::Bad, "quarantined");
    ui.line(&format!("{done} {name}: it takes no turn; `lazaret agent wake {name}` lets it go on"));
    Ok(Code::Done)
}

pub(super) fn wake(name: &AgentId, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let mut door = Door::open(cli, ui)?;
    let wake = AgentRequest::Wake { agent: name.clone(), by: operator() };
    let Reply::Recovered(recovered) = door.ask(Request::Agent(wake))? else { return Err(unexpected()) };
    ui.json(&json!({ "woken": name }));
    ui.line(&format!("{} {name}", ui.paint(Tone::Good, "woken")));
    // What waited meanwhile: a turn that was cut off, and mail.
    report_recovery(ui, *recovered);
    for delivered in door.deliver()? {
        turn::notices(ui, &delivered);
        ui.note(Tone::Quiet, &turn::summary(&delivered));
    }
    Ok(Code::Done)
}

pub(super) fn sleep(name: &AgentId, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let sleep = Request::Agent(AgentRequest::Sleep { agent: name.clone() });
    let Reply::LetGo(let_go) = Door::open(cli, ui)?.ask(sleep)? else { return Err(unexpected()) };
    ui.json(&json!({ "asleep": name, "let_go": let_go }));
    let done = ui.paint(Tone::Good, "asleep");
    ui.line(&format!("{done} {name}: nothing of it is in memory, and its next message wakes it"));
    Ok(Code::Done)
}

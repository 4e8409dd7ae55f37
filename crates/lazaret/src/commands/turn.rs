//! How a turn is shown.

use lazaret_gate::Outcome;
use lazaret_gate::record::{Ending, Failure as AgentFailure};
use lazaret_host::Turn;
use serde_json::json;

use crate::failure::Code;
use crate::text::{counted, cut, grouped, visible, visible_lines};
use crate::ui::{Tone, Ui};

pub(crate) fn code(ending: &Ending) -> Code {
    if matches!(ending, Ending::Replied(_)) { Code::Done } else { Code::TurnFailed }
}

/// Shows a turn: the reply on standard output, the rest beside it.
pub(crate) fn show(ui: &Ui, turn: &Turn) {
    let record = &turn.record;
    ui.json(&json!({ "seq": turn.seq, "hash": turn.hash, "pages": turn.pages, "turn": record }));
    for entry in &record.tape {
        if let Some(line) = remark(ui, &entry.effect.summary(), &entry.outcome) {
            ui.note(&line);
        }
    }
    if !ui.is_json() {
        match &record.ending {
            Ending::Replied(reply) => match std::str::from_utf8(&reply.body.0) {
                Ok(text) => ui.line(visible_lines(text).trim_end_matches('\n')),
                Err(_) => ui.write(&reply.body.0),
            },
            Ending::Failed(AgentFailure::BadInput(why)) => {
                ui.note(&format!("{} the agent can't use this message: {}", ui.paint(Tone::Bad, "failed:"), visible(why)));
            }
            Ending::Failed(AgentFailure::Failed(why)) => {
                ui.note(&format!("{} {}", ui.paint(Tone::Bad, "failed:"), visible(why)));
            }
            Ending::Stopped(stop) => ui.note(&format!(
                "{} ({}) {}",
                ui.paint(Tone::Bad, "stopped:"),
                stop.cause.name(),
                visible(&stop.detail)
            )),
        }
    }
    ui.note(&ui.paint(Tone::Quiet, &summary(turn)));
}

/// One line about what a turn was.
pub(crate) fn summary(turn: &Turn) -> String {
    let record = &turn.record;
    format!(
        "{} turn {} · {} · {} fuel · {} changed · journal entry {}",
        record.agent,
        record.turn,
        counted(record.tape.len() as u64, "effect", "effects"),
        grouped(record.fuel),
        counted(turn.pages as u64, "page", "pages"),
        turn.seq
    )
}

/// What is worth saying about an effect: refusals, failures and log lines.
fn remark(ui: &Ui, summary: &str, outcome: &Outcome) -> Option<String> {
    let summary = visible(&cut(summary, 120));
    match outcome {
        Outcome::Refused(refusal) => Some(format!(
            "{} {summary}\n         {}\n         {}",
            ui.paint(Tone::Odd, "refused:"),
            visible(&refusal.reason),
            visible(&refusal.remedy)
        )),
        Outcome::Failed(why) => Some(format!("{} {summary}: {}", ui.paint(Tone::Odd, "failed:"), visible(why))),
        Outcome::Done(_) => summary.strip_prefix("log.write ").map(|text| format!("{} {text}", ui.paint(Tone::Quiet, "log:"))),
    }
}

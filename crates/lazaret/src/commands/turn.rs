//! How a turn is shown.

use lazaret_gate::Outcome;
use lazaret_gate::record::{Cause, Ending, Failure as AgentFailure};
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
    let warnings: Vec<&String> =
        turn.rulings.iter().flat_map(|ruling| &ruling.warnings).chain(&turn.warnings).collect();
    ui.json(&json!({ "seq": turn.seq, "hash": turn.hash, "pages": turn.pages, "warnings": warnings, "turn": record }));
    for entry in &record.tape {
        // What ended the turn is said at its end.
        if !matches!(&entry.outcome, Outcome::Refused(refusal) if refusal.ends_turn()) {
            remark(ui, &entry.effect.summary(), &entry.outcome);
        }
    }
    notices(ui, turn);
    match &record.ending {
        Ending::Replied(_) if ui.is_json() => {}
        Ending::Replied(reply) => match std::str::from_utf8(&reply.body.0) {
            Ok(text) => ui.line(visible_lines(text).trim_end_matches('\n')),
            Err(_) => ui.write(&reply.body.0),
        },
        Ending::Failed(AgentFailure::BadInput(why)) => {
            ui.aside(Tone::Bad, "failed:", &format!("the agent can't use this message: {}", visible(why)));
        }
        Ending::Failed(AgentFailure::Failed(why)) => ui.aside(Tone::Bad, "failed:", &visible(why)),
        // A refusal says itself what it is.
        Ending::Stopped(stop) if stop.cause == Cause::Refused => {
            ui.aside(Tone::Bad, "stopped:", &visible(&stop.detail))
        }
        Ending::Stopped(stop) => {
            ui.aside(Tone::Bad, "stopped:", &format!("({}) {}", stop.cause.name(), visible(&stop.detail)));
        }
    }
    ui.note(Tone::Quiet, &summary(turn));
}

/// What a turn's rulings have that somebody should hear of: budgets that are nearly used up, and answers that don't count.
pub(crate) fn notices(ui: &Ui, turn: &Turn) {
    for ruling in turn.rulings.iter() {
        for asked in &ruling.asked {
            for why in &asked.ignored {
                let text = format!("an answer to question {} does not count: {}", asked.question.id, visible(why));
                ui.aside(Tone::Bad, "ignored:", &text);
            }
        }
        for warning in &ruling.warnings {
            ui.aside(Tone::Odd, "budget:", &visible(warning));
        }
    }
    for warning in &turn.warnings {
        ui.aside(Tone::Odd, "budget:", &visible(warning));
    }
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

/// Says what is worth saying about an effect: refusals, failures and log lines.
fn remark(ui: &Ui, summary: &str, outcome: &Outcome) {
    let summary = visible(&cut(summary, 120));
    match outcome {
        Outcome::Refused(refusal) => {
            let text = format!("{summary}\n{}\n{}", visible(&refusal.reason), visible(&refusal.remedy));
            ui.aside(Tone::Odd, "refused:", &text);
        }
        Outcome::Failed(why) => ui.aside(Tone::Odd, "failed:", &format!("{summary}: {}", visible(why))),
        Outcome::Done(_) => {
            if let Some(text) = summary.strip_prefix("log.write ") {
                ui.aside(Tone::Quiet, "log:", text);
            }
        }
    }
}

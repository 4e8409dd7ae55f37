//! `lazaret replay`

use clap::Subcommand;
use lazaret_gate::Digest;
use lazaret_gate::record::{Ending, Failure as AgentFailure, TapeEntry, TurnRecord};
use lazaret_host::{Host, Selection, Verdict};
use serde_json::json;

use super::open_host;
use crate::cli::Cli;
use crate::failure::{Code, Failure};
use crate::text::{counted, cut, grouped, visible};
use crate::ui::{Tone, Ui};

/// Run recorded turns again and compare
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Re-execute turns and say MATCH, MISMATCH or UNVERIFIABLE for each
    Verify {
        /// AGENT, AGENT:TURN or AGENT:FIRST-LAST
        #[arg(required = true)]
        turns: Vec<String>,
    },
    /// Re-execute one turn and show it step by step
    Run {
        /// AGENT:TURN
        turn: String,
    },
    /// Show where two recorded turns part ways
    Diff {
        /// AGENT:TURN
        one: String,
        /// AGENT:TURN
        other: String,
    },
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let host = open_host(cli, ui, Vec::new())?;
    match &args.command {
        Command::Verify { turns } => verify(&host, turns, ui),
        Command::Run { turn } => step(&host, turn, ui),
        Command::Diff { one, other } => diff(&host, one, other, ui),
    }
}

/// The worst of the verdicts decides.
pub(crate) fn code<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Code {
    let mut code = Code::Done;
    for verdict in verdicts {
        match verdict {
            Verdict::Match => {}
            Verdict::Mismatch(_) => return Code::Mismatch,
            Verdict::Unverifiable { .. } => code = Code::Unverifiable,
        }
    }
    code
}

/// A verdict as a line, and more lines for what differs.
pub(crate) fn verdict_lines(ui: &Ui, verdict: &Verdict) -> Vec<String> {
    match verdict {
        Verdict::Match => vec![ui.paint(Tone::Good, "MATCH")],
        Verdict::Mismatch(differs) => vec![
            format!("{} at {}", ui.paint(Tone::Bad, "MISMATCH"), visible(&differs.place)),
            format!("  expected {}", visible(&cut(&differs.expected, 400))),
            format!("  actual   {}", visible(&cut(&differs.actual, 400))),
        ],
        Verdict::Unverifiable { missing } => {
            vec![format!("{} for want of {}", ui.paint(Tone::Odd, "UNVERIFIABLE"), visible(missing))]
        }
    }
}

pub(crate) fn show_verdict(ui: &Ui, seq: u64, record: &TurnRecord, verdict: &Verdict) {
    let mut lines = verdict_lines(ui, verdict).into_iter();
    let first = lines.next().unwrap_or_default();
    ui.line(&format!("{} turn {:<5} entry {seq:<6} {first}", record.agent, record.turn));
    lines.for_each(|line| ui.line(&line));
}

fn verify(host: &Host, turns: &[String], ui: &Ui) -> Result<Code, Failure> {
    let mut verdicts = Vec::new();
    let (mut rows, mut differing) = (Vec::new(), Vec::new());
    for selection in turns {
        let selection: Selection = selection.parse()?;
        verdicts.extend(host.replay(&selection, |seq, record, verdict| {
            show_verdict(ui, seq, record, verdict);
            if let Verdict::Mismatch(differs) = verdict {
                differing.push((record.clone(), differs.clone()));
            }
            rows.push(json!({ "agent": record.agent, "turn": record.turn, "entry": seq, "result": verdict }));
        })?);
    }
    for (record, differs) in &differing {
        // The verdict is what was asked for: that it can't be put on record must not hide it.
        if let Err(why) = host.note_mismatch(record, differs, &super::trust::operator()) {
            ui.aside(Tone::Bad, "note:", &format!("this is not held against `{}`: {why}", record.agent));
        }
    }
    ui.json(&rows);
    tally(ui, &verdicts);
    Ok(code(verdicts.iter()))
}

/// `12 turns: 12 MATCH, 0 MISMATCH, 0 UNVERIFIABLE`
pub(crate) fn tally(ui: &Ui, verdicts: &[Verdict]) {
    let count = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
    ui.line(&format!(
        "{}: {} MATCH, {} MISMATCH, {} UNVERIFIABLE",
        counted(verdicts.len() as u64, "turn", "turns"),
        count(|v| matches!(v, Verdict::Match)),
        count(|v| matches!(v, Verdict::Mismatch(_))),
        count(|v| matches!(v, Verdict::Unverifiable { .. }))
    ));
}

fn one(host: &Host, text: &str) -> Result<(u64, TurnRecord), Failure> {
    let selection: Selection = text.parse()?;
    if selection.turns.is_none_or(|(first, last)| first != last) {
        return Err(Failure::Input(format!("`{text}` is not one turn; write AGENT:TURN")));
    }
    host.turns(&selection)?.pop().ok_or_else(|| Failure::Input(format!("`{text}` selects no turn")))
}

fn ending_line(ending: &Ending) -> String {
    match ending {
        Ending::Replied(reply) => format!("replied {:?}", reply.body),
        Ending::Failed(AgentFailure::BadInput(why)) => format!("failed (bad input) {why}"),
        Ending::Failed(AgentFailure::Failed(why)) => format!("failed {why}"),
        Ending::Stopped(stop) => format!("stopped ({}) {}", stop.cause.name(), stop.detail),
    }
}

fn step(host: &Host, text: &str, ui: &Ui) -> Result<Code, Failure> {
    let (seq, record) = one(host, text)?;
    ui.line(&format!("{} turn {} · journal entry {seq}", record.agent, record.turn));
    ui.line(&format!("input   {:?}", record.input.body));
    for (number, entry) in record.tape.iter().enumerate() {
        ui.line(&format!(
            "{number:>5}   {:<8} {}",
            entry.outcome.verdict(),
            visible(&cut(&entry.effect.summary(), 100))
        ));
    }
    ui.line(&format!("output  {}", visible(&cut(&ending_line(&record.ending), 400))));
    ui.line(&format!("fuel    {}", grouped(record.fuel)));
    let selection = Selection { agent: record.agent.clone(), turns: Some((record.turn, record.turn)) };
    let verdicts = host.replay(&selection, |_, _, _| {})?;
    for verdict in &verdicts {
        verdict_lines(ui, verdict).iter().for_each(|line| ui.line(line));
    }
    ui.json(&json!({ "entry": seq, "turn": record, "result": verdicts.first() }));
    Ok(code(verdicts.iter()))
}

fn diff(host: &Host, left: &str, right: &str, ui: &Ui) -> Result<Code, Failure> {
    let (_, old) = one(host, left)?;
    let (_, new) = one(host, right)?;
    let mut rows: Vec<(String, String, String)> = Vec::new();
    let mut row = |place: &str, old: String, new: String| {
        if old != new {
            rows.push((place.to_owned(), old, new));
        }
    };
    row("component", old.component.to_string(), new.component.to_string());
    row("engine", old.engine.to_string(), new.engine.to_string());
    let grants = |record: &TurnRecord| record.grants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let image = |image: Option<Digest>| image.map_or_else(|| "none".to_owned(), |image| image.to_string());
    row("grants", grants(&old), grants(&new));
    row("image before", image(old.image_before), image(new.image_before));
    row("input", format!("{:?}", old.input.body), format!("{:?}", new.input.body));
    let parted = (0..old.tape.len().max(new.tape.len())).find(|n| old.tape.get(*n) != new.tape.get(*n));
    if let Some(number) = parted {
        let show = |record: &TurnRecord| {
            let entry = record.tape.get(number);
            let json = |entry: &TapeEntry| serde_json::to_string(&entry.outcome).unwrap_or_default();
            entry.map_or("the end of the turn".to_owned(), |e| format!("{} → {}", e.effect.summary(), json(e)))
        };
        row(&format!("effect {number}"), show(&old), show(&new));
    }
    row("output", ending_line(&old.ending), ending_line(&new.ending));
    row("fuel", grouped(old.fuel), grouped(new.fuel));
    row("image after", image(old.image_after), image(new.image_after));
    ui.json(
        &rows.iter().map(|(place, old, new)| json!({ "place": place, "old": old, "new": new })).collect::<Vec<_>>(),
    );
    for (place, old, new) in &rows {
        ui.line(&ui.paint(Tone::Strong, place));
        ui.line(&format!("  - {}", visible(&cut(old, 300))));
        ui.line(&format!("  + {}", visible(&cut(new, 300))));
    }
    if rows.is_empty() {
        ui.line("the two turns are the same");
    }
    Ok(Code::Done)
}

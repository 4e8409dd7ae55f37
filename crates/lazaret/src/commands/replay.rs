//! `lazaret replay`

use clap::Subcommand;
use lazaret_gate::record::{Ending, Failure as AgentFailure, TapeEntry, TurnRecord};
use lazaret_gate::{AgentId, Digest};
use lazaret_host::{Selection, Verdict};
use lazaret_link::{Replayed, Reply, Request, TurnsRequest};
use serde_json::json;

use super::operator;
use crate::cli::Cli;
use crate::door::{Door, unexpected};
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
    let mut door = Door::open(cli, ui)?;
    match &args.command {
        Command::Verify { turns } => verify(&mut door, turns, ui),
        Command::Run { turn } => step(&mut door, turn, ui),
        Command::Diff { one, other } => diff(&mut door, one, other, ui),
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
    show_result(ui, seq, &record.agent, record.turn, verdict);
}

fn show_result(ui: &Ui, seq: u64, agent: &AgentId, turn: u64, verdict: &Verdict) {
    let mut lines = verdict_lines(ui, verdict).into_iter();
    let first = lines.next().unwrap_or_default();
    ui.line(&format!("{agent} turn {turn:<5} entry {seq:<6} {first}"));
    lines.for_each(|line| ui.line(&line));
}

/// Runs turns again, here as they come or in the keeper, and tells of each.
fn replay(
    door: &mut Door,
    turns: &str,
    ui: &Ui,
    mut each: impl FnMut(u64, &AgentId, u64, &Verdict),
) -> Result<Vec<Verdict>, Failure> {
    if let Some(host) = door.host() {
        let mut differing = Vec::new();
        let verdicts = host.replay(&turns.parse()?, |seq, record, verdict| {
            each(seq, &record.agent, record.turn, verdict);
            if let Verdict::Mismatch(differs) = verdict {
                differing.push((record.clone(), differs.clone()));
            }
        })?;
        for (record, differs) in &differing {
            // The verdict is what was asked for: that it can't be put on record must not hide it.
            if let Err(why) = host.note_mismatch(record, differs, &operator()) {
                say_unrecorded(ui, &record.agent, &why.to_string());
            }
        }
        return Ok(verdicts);
    }
    let request = Request::Turns(TurnsRequest::Replay { turns: turns.to_owned() });
    let Reply::Replayed(replayed) = door.ask(request)? else { return Err(unexpected()) };
    let mut verdicts = Vec::with_capacity(replayed.len());
    for Replayed { entry, agent, turn, result, unrecorded } in replayed {
        let verdict = result.into();
        each(entry, &agent, turn, &verdict);
        unrecorded.iter().for_each(|why| say_unrecorded(ui, &agent, why));
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

fn say_unrecorded(ui: &Ui, agent: &AgentId, why: &str) {
    ui.aside(Tone::Bad, "note:", &format!("this is not held against `{agent}` yet: {why}"));
}

fn verify(door: &mut Door, turns: &[String], ui: &Ui) -> Result<Code, Failure> {
    let mut verdicts = Vec::new();
    let mut rows = Vec::new();
    for selection in turns {
        verdicts.extend(replay(door, selection, ui, |seq, agent, turn, verdict| {
            show_result(ui, seq, agent, turn, verdict);
            rows.push(json!({ "agent": agent, "turn": turn, "entry": seq, "result": verdict }));
        })?);
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

fn one(door: &mut Door, text: &str) -> Result<(u64, TurnRecord), Failure> {
    let selection: Selection = text.parse()?;
    if selection.turns.is_none_or(|(first, last)| first != last) {
        return Err(Failure::Input(format!("`{text}` is not one turn; write AGENT:TURN")));
    }
    let request = Request::Turns(TurnsRequest::Read { turns: text.to_owned() });
    let Reply::Turns(mut turns) = door.ask(request)? else { return Err(unexpected()) };
    turns.pop().ok_or_else(|| Failure::Input(format!("`{text}` selects no turn")))
}

fn ending_line(ending: &Ending) -> String {
    match ending {
        Ending::Replied(reply) => format!("replied {:?}", reply.body),
        Ending::Failed(AgentFailure::BadInput(why)) => format!("failed (bad input) {why}"),
        Ending::Failed(AgentFailure::Failed(why)) => format!("failed {why}"),
        Ending::Stopped(stop) => format!("stopped ({}) {}", stop.cause.name(), stop.detail),
    }
}

fn step(door: &mut Door, text: &str, ui: &Ui) -> Result<Code, Failure> {
    let (seq, record) = one(door, text)?;
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
    let verdicts = replay(door, text, ui, |_, _, _, _| {})?;
    for verdict in &verdicts {
        verdict_lines(ui, verdict).iter().for_each(|line| ui.line(line));
    }
    ui.json(&json!({ "entry": seq, "turn": record, "result": verdicts.first() }));
    Ok(code(verdicts.iter()))
}

fn diff(door: &mut Door, left: &str, right: &str, ui: &Ui) -> Result<Code, Failure> {
    let (_, old) = one(door, left)?;
    let (_, new) = one(door, right)?;
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

//! `lazaret trust`

use std::path::Path;

use clap::Subcommand;
use lazaret_gate::trust::{self, Revoked, Score, TrustChange, TrustEvent};
use lazaret_gate::{AgentId, shown};
use lazaret_host::{HostError, InForce, TrustTold, Trusted, change_trust, conduct_of, is_told, now};
use lazaret_link::{LinkError, Request, TrustRequest};
use lazaret_store::{AgentRow, AgentState, Reader};
use serde_json::json;

use super::{data_dir, open_reader, operator, stopping};
use crate::cli::Cli;
use crate::door::keeper_of;
use crate::failure::{Code, Failure};
use crate::text::{cut, date, grouped};
use crate::ui::{Tone, Ui};

/// Show how far agents are trusted; revoke and restore them
///
/// A revocation acts on whatever process has the data root open, in the middle of turns and of effects in flight, and stays
/// in force until the agent is restored, over restarts too. Who, when and why is recorded.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List agents with their scores
    List,
    /// Show an agent's score, term by term, counted from the journal
    Show {
        /// Which
        name: AgentId,
    },
    /// Set the base that an agent's score is counted from
    Set {
        /// Which
        name: AgentId,
        /// 0.00 to 1.00
        score: Score,
        /// Why; recorded
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Stop agents at once: no turn, no effect, no message, and a score of 0.00
    Revoke(Names),
    /// Let revoked agents go on, with the scores that their conduct gives them
    Restore(Names),
}

#[derive(clap::Args)]
struct Names {
    /// Which
    #[arg(required_unless_present = "all")]
    names: Vec<AgentId>,
    /// All that there are
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let (root, reader) = (data_dir(cli)?, open_reader(cli)?);
    // A stop waits for nobody's word.
    let in_force = match &args.command {
        Command::Revoke(_) => InForce::read(&root),
        _ => stopping::in_force(&root),
    };
    match &args.command {
        Command::List => list(&reader, &in_force, ui),
        Command::Show { name } => {
            let row = reader.agent(name)?.ok_or_else(|| HostError::NoAgent(name.to_string()))?;
            show(&reader, &in_force, &row, ui)
        }
        Command::Set { name, score, reason } => {
            let row = living(&reader, name)?;
            let event = event(&row, TrustChange::Set, *score, reason);
            let before = in_force.score(&row, &conduct_of(&reader, name)?);
            let recorded = change(&root, &reader, cli, &[event])?;
            let after = stopping::in_force(&root).score(&row, &conduct_of(&reader, name)?);
            ui.json(&json!({ "agent": name, "base": score, "score": after, "recorded": recorded.is_ok() }));
            let set = ui.paint(Tone::Good, "set");
            let then = match in_force.revoked(name, row.revoked.as_ref()) {
                Some(_) => "it is revoked, and stays so".to_owned(),
                None => format!("with its conduct that is {after}, and was {before}"),
            };
            ui.line(&format!("{set} {name}: base {score}; {then}"));
            stopping::told(recorded, ui)
        }
        Command::Revoke(names) => revoke(&root, &reader, &in_force, names, cli, ui),
        Command::Restore(names) => restore(&root, &reader, &in_force, names, cli, ui),
    }
}

fn living(reader: &Reader, name: &AgentId) -> Result<AgentRow, HostError> {
    let row = reader.agent(name)?.ok_or_else(|| HostError::NoAgent(name.to_string()))?;
    if row.state == AgentState::Removed { Err(HostError::Removed(name.clone())) } else { Ok(row) }
}

fn named(reader: &Reader, names: &Names) -> Result<Vec<AgentRow>, Failure> {
    if names.all {
        let mut rows = reader.agents()?;
        rows.retain(|row| row.state != AgentState::Removed);
        return Ok(rows);
    }
    Ok(names.names.iter().map(|name| living(reader, name)).collect::<Result<_, _>>()?)
}

fn event(row: &AgentRow, change: TrustChange, score: Score, reason: &str) -> TrustEvent {
    let (agent, by, at) = (row.agent.clone(), operator(), now().moment.wall_ms);
    TrustEvent { agent, change, score, by, at, reason: reason.to_owned(), turn: None }
}

/// Changes the file, which is in force at once; then has it put on record, which may fail by itself.
fn change(root: &Path, reader: &Reader, cli: &Cli, events: &[TrustEvent]) -> Result<Result<(), Failure>, Failure> {
    match change_trust(root, reader, events) {
        // Who has the data root open can obey all the same.
        Err(why @ HostError::Unsaved { .. }) if events.iter().all(|it| it.change == TrustChange::Revoked) => {
            revoke_unwritten(root, events, why)
        }
        written => {
            written?;
            Ok(stopping::record(root, cli))
        }
    }
}

/// Has the keeper revoke agents though the file can't be written; if there is none, that stays the failure. Each of them is
/// tried, whatever comes of the others.
fn revoke_unwritten(root: &Path, events: &[TrustEvent], unsaved: HostError) -> Result<Result<(), Failure>, Failure> {
    let Ok(Some(mut keeper)) = keeper_of(root) else { return Err(unsaved.into()) };
    let (mut told, mut failed) = (None, None);
    for event in events {
        let (agent, by, reason) = (event.agent.clone(), event.by.clone(), event.reason.clone());
        match keeper.ask(Request::Trust(TrustRequest::Revoke { agent, by, reason })) {
            Ok(_) => {}
            Err(why @ LinkError::Fault(_)) => {
                let why = Failure::from(why);
                let place = if why.is_in_force() { &mut told } else { &mut failed };
                place.get_or_insert(why);
            }
            Err(why) => return Err(why.into()),
        }
    }
    failed.map_or_else(|| Ok(told.map_or(Ok(()), Err)), Err)
}

fn revoke(
    root: &Path,
    reader: &Reader,
    in_force: &InForce,
    names: &Names,
    cli: &Cli,
    ui: &Ui,
) -> Result<Code, Failure> {
    let rows = named(reader, names)?;
    let events: Vec<_> = rows.iter().map(|row| event(row, TrustChange::Revoked, Score::NONE, &names.reason)).collect();
    let recorded = change(root, reader, cli, &events)?;
    let agents: Vec<_> = rows.iter().map(|row| &row.agent).collect();
    ui.json(&json!({ "revoked": agents, "recorded": recorded.is_ok() }));
    for row in &rows {
        let (revoked, agent) = (ui.paint(Tone::Bad, "revoked:"), &row.agent);
        ui.line(&format!("{revoked} {agent}; `lazaret trust restore {agent}` lets it go on"));
        if let Some(first) = in_force.revoked(agent, row.revoked.as_ref()) {
            ui.aside(Tone::Quiet, "note:", &format!("{}, and that stands", shown::text(&first.say(agent))));
        }
    }
    if rows.is_empty() {
        ui.line("there are no agents");
    }
    stopping::told(recorded, ui)
}

fn restore(
    root: &Path,
    reader: &Reader,
    in_force: &InForce,
    names: &Names,
    cli: &Cli,
    ui: &Ui,
) -> Result<Code, Failure> {
    let (mut restored, mut events) = (Vec::new(), Vec::new());
    for row in named(reader, names)? {
        if in_force.revoked(&row.agent, row.revoked.as_ref()).is_none() {
            if !names.all {
                ui.line(&format!("{} is not revoked", row.agent));
            }
            continue;
        }
        let base = in_force.base(&row.agent, row.base).unwrap_or(Score::START);
        let score = trust::score(&conduct_of(reader, &row.agent)?, base);
        events.push(event(&row, TrustChange::Restored, score, &names.reason));
        restored.push((row.agent, score));
    }
    // To restore whoever isn't revoked is no event.
    let recorded = if events.is_empty() { Ok(()) } else { change(root, reader, cli, &events)? };
    let agents: Vec<_> = restored.iter().map(|(agent, score)| json!({ "agent": agent, "score": score })).collect();
    ui.json(&json!({ "restored": agents, "recorded": recorded.is_ok() }));
    for (agent, score) in &restored {
        ui.line(&format!("{} {agent}, with a score of {score}", ui.paint(Tone::Good, "restored:")));
    }
    if names.all && restored.is_empty() {
        ui.line("nobody is revoked");
    }
    stopping::told(recorded, ui)
}

fn list(reader: &Reader, in_force: &InForce, ui: &Ui) -> Result<Code, Failure> {
    let found = Trusted::all(reader, in_force)?;
    ui.json(&found);
    warn(in_force, ui);
    if found.is_empty() {
        ui.line("no agents; `lazaret agent create NAME COMPONENT` makes one");
        return Ok(Code::Done);
    }
    ui.line(&ui.paint(Tone::Strong, &format!("{:<24} {:>5}  {}", "AGENT", "SCORE", "REVOKED")));
    for Trusted { score, revoked, agent, .. } in &found {
        let revoked = match in_force.everybody() {
            Some(_) => "counts as revoked".to_owned(),
            None => revoked.as_ref().map(in_short).unwrap_or_default(),
        };
        let line = format!("{:<24} {score:>5}  {revoked}", cut(agent.as_str(), 24));
        ui.line(line.trim_end());
    }
    Ok(Code::Done)
}

/// Who, when and why, in a few words.
fn in_short(revoked: &Revoked) -> String {
    let Revoked { by, at, reason } = revoked;
    let when = if *at == 0 { String::new() } else { format!(" {}", date(*at)) };
    let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    cut(&shown::text(&format!("by {by}{when}{why}")), 160)
}

/// Says that the file can't be understood, and what to do about it.
fn warn(in_force: &InForce, ui: &Ui) {
    if let Some(everybody) = in_force.everybody() {
        ui.aside(Tone::Bad, "revocations:", &shown::text(&everybody.reason));
    }
}

fn show(reader: &Reader, in_force: &InForce, row: &AgentRow, ui: &Ui) -> Result<Code, Failure> {
    let told = TrustTold::of(reader, in_force, row)?;
    ui.json(&told);
    warn(in_force, ui);
    ui.line(&format!("{} {}", ui.paint(Tone::Strong, row.agent.as_str()), told.score));
    for term in &told.terms {
        let count = term.count.map_or_else(String::new, grouped);
        ui.line(&format!("  {:<18} {count:>9}  {:>6}", term.name, points(term.points, term.count.is_some())));
    }
    let sum: i64 = told.terms.iter().map(|term| term.points).sum();
    ui.line(&format!("  {:<18} {:>9}  {:>6}", "sum", "", points(sum, false)));
    if let Some(revoked) = &told.revoked {
        let line = format!("{}: 0.00 until it is restored", shown::text(&revoked.say(&row.agent)));
        ui.line(&ui.paint(Tone::Bad, &line));
    }
    if is_told(reader, row)? { Ok(Code::Done) } else { Err(untold(&row.agent)) }
}

/// What a row says of an agent's trust, and the journal doesn't.
pub(crate) fn untold(agent: &AgentId) -> Failure {
    Failure::Mismatch(format!("what the data root says of the trust of agent `{agent}` is not what its journal tells"))
}

/// Hundredths as people read them: `+0.05`, `-0.20`, `0.50`.
fn points(hundredths: i64, signed: bool) -> String {
    let sign = match hundredths.signum() {
        -1 => "-",
        1 if signed => "+",
        _ => "",
    };
    let amount = hundredths.unsigned_abs();
    format!("{sign}{}.{:02}", amount / 100, amount % 100)
}

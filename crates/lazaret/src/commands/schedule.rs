//! `lazaret schedule`

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use clap::Subcommand;
use lazaret_gate::AgentId;
use lazaret_gate::schedule::{Missed, ScheduleAdded, When};
use lazaret_gate::shown;
use lazaret_host::{HostError, Scheduled, now, schedules};
use lazaret_link::{Reply, Request, ScheduleRequest};
use serde_json::json;

use super::terms::MessageArgs;
use super::{data_dir, open_reader, operator};
use crate::cli::Cli;
use crate::door::{Door, keeper_of, unexpected};
use crate::failure::{Code, Failure};
use crate::text::{counted, cut, date};
use crate::ui::{Tone, Ui};

/// Wake agents at times: make, list and remove schedules
///
/// A schedule puts a message into its agent's mailbox when it is due. Schedules fire while a keeper runs on the data root.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a schedule
    Add {
        /// Whom it wakes
        name: AgentId,
        /// Its name among the agent's schedules: lower-case letters, digits and `-`
        schedule: String,
        /// When, by a calendar: minute, hour, day of the month, month, day of the week, like `30 8 * * MON-FRI`
        #[arg(long, value_name = "EXPRESSION", required_unless_present = "every", conflicts_with = "every")]
        cron: Option<String>,
        /// The time zone that the calendar is meant in, like `Europe/Berlin`
        #[arg(long, value_name = "ZONE", default_value = "UTC", conflicts_with = "every")]
        zone: String,
        /// How often, counted from now, like `90s`, `15m`, `6h` or `7d`
        #[arg(long, value_name = "INTERVAL", value_parser = interval)]
        every: Option<u64>,
        /// What becomes of due times that nobody could keep
        #[arg(long, value_name = "POLICY", default_value = "once")]
        missed: Policy,
        /// What it says then
        #[arg(conflicts_with_all = ["input", "input_file"])]
        message: Option<String>,
        #[command(flatten)]
        input: MessageArgs,
    },
    /// List schedules
    List,
    /// Remove a schedule; asks first
    Rm {
        /// Whom it wakes
        name: AgentId,
        /// Which
        schedule: String,
        /// Don't ask
        #[arg(long)]
        yes: bool,
        /// Why; recorded
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Policy {
    /// They are passed over
    Skip,
    /// One message makes up for all of them
    Once,
    /// One message for each, the last 24 at most
    All,
}

impl From<Policy> for Missed {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Skip => Self::Skip,
            Policy::Once => Self::Once,
            Policy::All => Self::All,
        }
    }
}

/// Milliseconds.
fn interval(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not an interval; write it like 90s, 15m, 6h or 7d");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|many| many.checked_mul(unit)).ok_or_else(wrong)
}

/// An interval as people write it.
fn spelled(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let unit = units.iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

fn rule(when: &When) -> String {
    match when {
        When::Cron { expression, zone } => format!("{} ({zone})", shown::text(expression)),
        When::Every { interval, .. } => format!("every {}", spelled(*interval)),
    }
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    match &args.command {
        Command::Add { name, schedule, cron, zone, every, missed, message, input } => {
            let when = match (cron, every) {
                (Some(expression), _) => When::Cron { expression: expression.clone(), zone: zone.clone() },
                (None, interval) => When::Every { from: now().moment.wall_ms, interval: interval.unwrap_or_default() },
            };
            let added = ScheduleAdded {
                agent: name.clone(),
                by: operator(),
                message: input.message(message.as_deref())?,
                missed: (*missed).into(),
                schedule: schedule.clone(),
                when,
            };
            let add = Request::Schedule(ScheduleRequest::Add(Box::new(added.clone())));
            let Reply::Scheduled { next } = Door::open(cli, ui)?.ask(add)? else { return Err(unexpected()) };
            ui.json(&described(&Scheduled { schedule: added, next }));
            let due = next.map_or("never".to_owned(), |next| format!("first at {} UTC", date(next)));
            ui.line(&format!("{} {schedule} of {name}, {due}", ui.paint(Tone::Good, "added")));
            Ok(Code::Done)
        }
        Command::List => {
            let kept = keeper_of(&data_dir(cli)?)?.is_some();
            list(&schedules(&open_reader(cli)?)?, kept, ui)
        }
        Command::Rm { name, schedule, yes, reason } => {
            let reader = open_reader(cli)?;
            reader.agent(name)?.ok_or_else(|| HostError::NoAgent(name.to_string()))?;
            let mut found = schedules(&reader)?;
            found.retain(|it| it.schedule.agent == *name && it.schedule.schedule == *schedule);
            drop(reader);
            let Some(found) = found.pop() else {
                let text = format!(
                    "agent `{name}` has no schedule `{schedule}`; `lazaret schedule list` names those there are"
                );
                return Err(Failure::Failed(text));
            };
            if !*yes && !confirmed(&found, ui)? {
                ui.json(&json!({ "removed": false }));
                ui.line("nothing was removed");
                return Ok(Code::Failed);
            }
            let (agent, which, by, reason) = (name.clone(), schedule.clone(), operator(), reason.clone());
            let remove = ScheduleRequest::Remove { agent, schedule: which, by, reason };
            Door::open(cli, ui)?.ask(Request::Schedule(remove))?;
            ui.json(&json!({ "removed": true, "agent": name, "schedule": schedule }));
            ui.line(&format!("{} {schedule} of {name}", ui.paint(Tone::Good, "removed")));
            Ok(Code::Done)
        }
    }
}

/// A schedule that is gone is not missed until it should have fired, so somebody says yes to exactly this one.
fn confirmed(found: &Scheduled, ui: &Ui) -> Result<bool, Failure> {
    let it = &found.schedule;
    removal(&format!("schedule `{}` of `{}`", it.schedule, it.agent), &[line_of(found)], ui)
}

/// An agent that is removed takes its schedules with it, which is asked in the same way. One that has none needs no asking.
pub(crate) fn may_go(agent: &AgentId, cli: &Cli, ui: &Ui) -> Result<bool, Failure> {
    let mut found = schedules(&open_reader(cli)?)?;
    found.retain(|it| it.schedule.agent == *agent);
    let many = counted(found.len() as u64, "schedule", "schedules");
    let lines: Vec<String> = found.iter().map(line_of).collect();
    Ok(lines.is_empty() || removal(&format!("agent `{agent}` with its {many}"), &lines, ui)?)
}

fn line_of(found: &Scheduled) -> String {
    let it = &found.schedule;
    let said = cut(&shown::text(&String::from_utf8_lossy(&it.message.body.0)), 60);
    format!("{} of {}, {}: {said}", it.schedule, it.agent, rule(&it.when))
}

/// Whether somebody at the terminal says that what is shown may be removed.
fn removal(what: &str, shown: &[String], ui: &Ui) -> Result<bool, Failure> {
    if ui.is_json() || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let text = format!("removing {what} has to be confirmed");
        return Err(Failure::Failed(format!("{text}; there is no terminal to ask on: say `--yes`")));
    }
    let mut err = std::io::stderr().lock();
    let pronoun = if shown.len() == 1 { "it" } else { "them" };
    let _ = write!(err, "{}\nRemove {pronoun}? [y]es, [n]o > ", shown.join("\n"));
    let _ = err.flush();
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// A schedule, for programs.
pub(crate) fn described(it: &Scheduled) -> serde_json::Value {
    let ScheduleAdded { agent, by, message, missed, schedule, when } = &it.schedule;
    json!({
        "agent": agent, "schedule": schedule, "when": when, "missed": missed.name(), "message": message, "by": by,
        "next": it.next,
    })
}

fn list(all: &[Scheduled], kept: bool, ui: &Ui) -> Result<Code, Failure> {
    ui.json(&all.iter().map(described).collect::<Vec<_>>());
    if all.is_empty() {
        ui.line("no schedules; `lazaret schedule add` makes one");
        return Ok(Code::Done);
    }
    ui.line(&ui.paint(Tone::Strong, &format!("{:<24} {:<24} {}", "AGENT", "SCHEDULE", "NEXT (UTC)")));
    for it in all {
        let ScheduleAdded { agent, schedule, when, missed, .. } = &it.schedule;
        let next = it.next.map_or("never".to_owned(), date);
        ui.line(&format!("{:<24} {:<24} {next}", cut(agent.as_str(), 24), cut(schedule, 24)));
        let how = format!("{}; missed: {}", cut(&rule(when), 40), missed.name());
        ui.line(&format!("{:<24} {}", "", ui.paint(Tone::Quiet, &how)));
    }
    if !kept {
        let many = counted(all.len() as u64, "schedule fires", "schedules fire");
        let note = format!("{many} only while a keeper runs on this data root: `lazaret serve`");
        ui.aside(Tone::Odd, "note:", &note);
    }
    Ok(Code::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_and_spelled() {
        for (text, ms) in [("1s", 1_000), ("90s", 90_000), ("15m", 900_000), ("6h", 21_600_000), ("7d", 604_800_000)] {
            assert_eq!(interval(text), Ok(ms));
        }
        assert_eq!(spelled(90_000), "90s");
        assert_eq!(spelled(900_000), "15m");
        assert_eq!(spelled(86_400_000), "1d");
        for text in ["", "5", "m", "-5m", "5M", "1.5h", "99999999999999999999s", "999999999999999999d", "5 m", "5é"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}

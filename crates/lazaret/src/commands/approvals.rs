//! `lazaret approvals`

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Subcommand;
use lazaret_gate::approval::{Pattern, Question, Scope, Verdict};
use lazaret_gate::shown::{self, Shown};
use lazaret_host::{Approvals, HostError, Unanswerable, answered, now, past};
use lazaret_store::Reader;
use serde_json::json;

use super::{data_dir, open_reader};
use crate::cli::Cli;
use crate::failure::{Code, Failure};
use crate::text::cut;
use crate::ui::{Tone, Ui};

/// Answer the questions that agents' effects raise
///
/// A question waits for its time, and silence is denial. What you approve is exactly what is shown, signed with the data
/// root's approver key.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the questions that wait
    List,
    /// Show a question, whole
    Show {
        /// Its id, or the beginning of it
        question: String,
    },
    /// Say yes
    ///
    /// To this effect, once; with `--for-run` or `--for-minutes` to all that a pattern covers. Such a pattern is shown first,
    /// with the number of past effects that it would have covered. Effects of high risk that leave the host can be approved
    /// once only.
    Approve {
        /// Its id, or the beginning of it
        question: String,
        /// Not only this effect: all that the pattern covers, for the rest of the run
        #[arg(long, conflicts_with = "for_minutes")]
        for_run: bool,
        /// Not only this effect: all that the pattern covers, for some time, 480 minutes at most
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=480))]
        for_minutes: Option<u64>,
        /// Which effects, like `http.fetch GET https://api.example.com/v1/*`; the narrowest that fits if it isn't given
        #[arg(long, value_name = "PATTERN")]
        pattern: Option<Pattern>,
        /// Don't ask again before a pattern is approved
        #[arg(long)]
        yes: bool,
    },
    /// Say no
    Deny {
        /// Its id, or the beginning of it
        question: String,
    },
    /// Show questions as they come, until interrupted
    Watch,
}

/// How often `watch` looks.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    // A data root that isn't there is not made by looking for questions in it.
    let reader = open_reader(cli)?;
    let desk = Desk { approvals: Approvals::open(&data_dir(cli)?)?, reader };
    match &args.command {
        Command::List => list(&desk.approvals, ui),
        Command::Show { question } => {
            let question = desk.question(question)?;
            ui.json(&question);
            present(ui, &shown::decision(&question, &Scope::Once));
            Ok(Code::Done)
        }
        Command::Approve { question, for_run, for_minutes, pattern, yes } => {
            let question = desk.question(question)?;
            let scope = reach(&desk.reader, &question, *for_run, *for_minutes, pattern.as_ref())?;
            // What can't be had is not offered.
            scope.check(&question, now().moment.wall_ms).map_err(|why| HostError::Unanswerable(why.into()))?;
            present(ui, &shown::decision(&question, &scope));
            if scope != Scope::Once && !yes && !confirmed()? {
                ui.line("not approved");
                return Ok(Code::Failed);
            }
            decide(&desk.approvals, &question, Verdict::Approve, scope, ui)
        }
        Command::Deny { question } => {
            let question = desk.question(question)?;
            decide(&desk.approvals, &question, Verdict::Deny, Scope::Once, ui)
        }
        Command::Watch => watch(&desk.approvals, ui),
    }
}

/// Questions that wait, and the past that tells of those that don't.
struct Desk {
    approvals: Approvals,
    reader: Reader,
}

impl Desk {
    /// A question that waits; of one that doesn't, what became of it.
    fn question(&self, id: &str) -> Result<Question, Failure> {
        find(&self.approvals, &self.reader, id)
    }
}

/// A question that waits; of one that doesn't, what became of it.
pub(crate) fn find(approvals: &Approvals, reader: &Reader, id: &str) -> Result<Question, Failure> {
    match approvals.question(id) {
        Err(HostError::Unanswerable(Unanswerable::Unknown(_))) if !id.is_empty() => {
            let over = answered(reader, id)?.unwrap_or_else(|| Unanswerable::Unknown(cut(id, 80)));
            Err(HostError::Unanswerable(over).into())
        }
        found => Ok(found?),
    }
}

/// How far a yes is to reach.
pub(crate) fn reach(
    reader: &Reader,
    question: &Question,
    run: bool,
    minutes: Option<u64>,
    pattern: Option<&Pattern>,
) -> Result<Scope, Failure> {
    if !run && minutes.is_none() {
        return match pattern {
            None => Ok(Scope::Once),
            Some(_) => Err(Failure::Input("a pattern needs a time; add `--for-run` or `--for-minutes N`".into())),
        };
    }
    let pattern = match pattern {
        Some(pattern) => pattern.clone(),
        None => Pattern::of(&question.effect).map_err(|why| Failure::Input(why.to_string()))?,
    };
    let mut matched = 0;
    past(reader, 0, |ask| matched += u64::from(pattern.matches(&ask.entry.effect)))?;
    Ok(match minutes {
        None => Scope::Run { pattern, matched },
        Some(minutes) => {
            Scope::Until { pattern, matched, wall_ms: now().moment.wall_ms.saturating_add(minutes * 60_000) }
        }
    })
}

/// Whether whoever sits at the terminal wants it so, now that it was shown.
fn confirmed() -> Result<bool, Failure> {
    let (mut answer, stdin) = (String::new(), std::io::stdin());
    if !stdin.is_terminal() {
        let why =
            "a pattern is approved by somebody who has seen it; on a terminal you are asked, elsewhere add `--yes`";
        return Err(Failure::Input(why.into()));
    }
    let _ = write!(std::io::stderr(), "Approve all of that? [y]es, [n]o > ");
    let _ = stdin.lock().read_line(&mut answer);
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn present(ui: &Ui, shown: &Shown) {
    shown.lines.iter().for_each(|line| ui.line(line));
}

fn decide(
    approvals: &Approvals,
    question: &Question,
    verdict: Verdict,
    scope: Scope,
    ui: &Ui,
) -> Result<Code, Failure> {
    let decision = approvals.decide(question, verdict, scope)?;
    ui.json(&decision);
    let (tone, word) = match verdict {
        Verdict::Approve => (Tone::Good, "approved"),
        Verdict::Deny => (Tone::Bad, "denied"),
    };
    ui.line(&format!("{} {} with key {}", ui.paint(tone, word), question.id, decision.by.short()));
    Ok(Code::Done)
}

fn list(approvals: &Approvals, ui: &Ui) -> Result<Code, Failure> {
    let pending = approvals.pending()?;
    ui.json(&pending);
    let at = now().moment.wall_ms;
    if pending.is_empty() {
        ui.note(Tone::Quiet, "no question waits");
        return Ok(Code::Done);
    }
    let head = format!("{:<16}  {:<6}  {:>7}  {:<14}  {}", "QUESTION", "RISK", "EXPIRES", "AGENT", "EFFECT");
    ui.line(&ui.paint(Tone::Strong, &head));
    for question in &pending {
        let left = format!("{} s", question.expires.wall_ms.saturating_sub(at) / 1000);
        let (agent, effect) = (cut(question.agent.as_str(), 14), shown::text(&question.effect.summary()));
        let (id, risk) = (&question.id, question.risk.tier.name());
        ui.line(&format!("{id:<16}  {risk:<6}  {left:>7}  {agent:<14}  {}", cut(&effect, 27)));
    }
    ui.note(Tone::Quiet, "`lazaret approvals show QUESTION` shows it whole");
    Ok(Code::Done)
}

fn watch(approvals: &Approvals, ui: &Ui) -> Result<Code, Failure> {
    let mut seen = BTreeSet::new();
    ui.note(Tone::Quiet, "waiting for questions; Ctrl-C ends this");
    loop {
        for question in approvals.pending()? {
            if seen.insert(question.id.clone()) {
                if ui.is_json() {
                    // One line each, so that a program can take them as they come.
                    ui.write(format!("{}\n", json!({ "question": question })).as_bytes());
                }
                present(ui, &shown::decision(&question, &Scope::Once));
                ui.line(&format!("yes:        lazaret approvals approve {}", question.id));
                ui.line(&format!("no:         lazaret approvals deny {}", question.id));
                ui.line("");
            }
        }
        std::thread::sleep(LOOK);
    }
}

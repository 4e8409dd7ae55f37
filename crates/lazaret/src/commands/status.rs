//! `lazaret status`

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lazaret_gate::ledger::Switch;
use lazaret_gate::policy::{self, PRESETS, Problem};
use lazaret_gate::record::Body;
use lazaret_gate::{Digest, Rulebook, shown};
use lazaret_host::{Approvals, past, read_rules};
use lazaret_link::{Reply, Request, Status, Trouble};
use lazaret_store::{AgentRow, AgentState, Reader};
use serde_json::json;

use super::budget::capped;
use super::{data_dir, open_reader, stopping};
use crate::cli::Cli;
use crate::door::{keeper_of, unexpected};
use crate::failure::{Code, Failure};
use crate::text::{counted, grouped, wrapped};
use crate::ui::{Tone, Ui};

/// Show what is going on: agents, rules, switches, questions, budgets
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Where values begin, and where they must end.
const INDENT: usize = 11;
const WIDTH: usize = 80;

pub(crate) fn run(_: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let (root, reader) = (data_dir(cli)?, open_reader(cli)?);
    let mut agents = reader.agents()?;
    agents.retain(|row| row.state != AgentState::Removed);
    let rules = Rules::find(&reader, read_rules(&root))?;
    let stopped = stopping::thrown(&root);
    let pending = Approvals::open(&root)?.pending()?;
    let asked = Asked::count(&reader)?;
    let (near, near_json) = near_caps(&agents);
    let in_force = stopping::in_force(&root);
    let is_revoked = |row: &&AgentRow| in_force.revoked(&row.agent, row.revoked.as_ref()).is_some();
    let revoked = agents.iter().filter(is_revoked).count() as u64;
    // Whoever can't ask the keeper can still read what is on disk.
    let (keeper, unheard) = match keepers_word(&root) {
        Ok(keeper) => (keeper, None),
        Err(why) => (None, Some(why.to_string())),
    };
    let in_doubt = agents.iter().filter(|row| row.state == AgentState::InDoubt).count() as u64;
    ui.json(&json!({
        "agents": agents.len(), "in_doubt": in_doubt, "revoked": revoked, "journal": reader.journal_len()?,
        "rules": { "digest": rules.digest, "count": rules.count, "files": rules.files, "preset": rules.preset },
        "problems": rules.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "switches": stopped, "pending": pending.len(), "questions": asked.questions, "effects": asked.effects,
        "questions_per_hundred_effects": asked.per_thousand() as f64 / 10.0, "near_cap": near_json,
        "unheard": unheard, "unwritten": keeper.as_ref().and_then(|status| status.unwritten.clone()),
        "troubled": keeper.as_ref().map_or(0, |status| status.troubled),
        "troubles": keeper.as_ref().map_or(&[][..], |status| &status.troubles),
    }));
    let entries = counted(reader.journal_len()?, "journal entry", "journal entries");
    field(ui, None, "agents", &format!("{}; {entries}", grouped(agents.len() as u64)));
    if in_doubt > 0 {
        let doubt = format!("{} in doubt: `lazaret agent list` names them", grouped(in_doubt));
        field(ui, Some(Tone::Bad), "", &doubt);
    }
    if revoked > 0 {
        let line = format!("{} revoked: `lazaret trust list` names them", grouped(revoked));
        field(ui, Some(Tone::Bad), "", &line);
    }
    if let Some(why) = &unheard {
        field(ui, Some(Tone::Bad), "keeper", &format!("it can't be asked: {}", shown::text(why)));
    }
    keeper.iter().for_each(|status| show_troubles(status, ui));
    if let Some(everybody) = in_force.everybody() {
        field(ui, Some(Tone::Bad), "", &shown::text(&everybody.reason));
    }
    rules.show(ui);
    let thrown = [Switch::Spend, Switch::All].into_iter().filter_map(|switch| Some((switch, stopped.thrown(switch)?)));
    let thrown: Vec<_> = thrown.collect();
    for (switch, thrown) in &thrown {
        field(ui, Some(Tone::Bad), "switches", &shown::text(&thrown.say(*switch)));
        field(ui, None, "", &format!("`lazaret kill --lift {}` lets effects pass again", switch.name()));
    }
    if thrown.is_empty() {
        field(ui, None, "switches", "none is thrown");
    }
    let waiting = match pending.len() as u64 {
        0 => "none waits".to_owned(),
        1 => "1 waits: `lazaret approvals list`".to_owned(),
        more => format!("{} wait: `lazaret approvals list`", grouped(more)),
    };
    field(ui, (!pending.is_empty()).then_some(Tone::Odd), "questions", &waiting);
    field(ui, None, "", &asked.say());
    for line in &near {
        field(ui, Some(Tone::Odd), "budgets", line);
    }
    if near.is_empty() {
        field(ui, None, "budgets", "none is near its cap");
    }
    Ok(Code::Done)
}

/// What only a keeper knows, if one runs.
fn keepers_word(root: &Path) -> Result<Option<Status>, Failure> {
    let Some(mut keeper) = keeper_of(root)? else { return Ok(None) };
    match keeper.ask(Request::Status)? {
        Reply::Status(status) => Ok(Some(*status)),
        _ => Err(unexpected()),
    }
}

/// What keeps a keeper from its work.
fn show_troubles(status: &Status, ui: &Ui) {
    if let Some(why) = &status.unwritten {
        field(ui, Some(Tone::Bad), "disk", &format!("the last commit failed: {}", shown::text(why)));
    }
    for Trouble { agent, why, again_ms } in &status.troubles {
        let again = format!("tried again in {} s", again_ms.div_ceil(1000));
        field(ui, Some(Tone::Bad), "trouble", &format!("{agent} can't take its turn: {}; {again}", shown::text(why)));
    }
    let unnamed = status.troubled.saturating_sub(status.troubles.len() as u64);
    if unnamed > 0 {
        let more = counted(unnamed, "agent", "agents");
        field(ui, Some(Tone::Bad), "", &format!("and {more} more; `lazaret agent show NAME` says why"));
    }
}

/// A name, and a value that wraps beside it.
fn field(ui: &Ui, tone: Option<Tone>, name: &str, value: &str) {
    for (at, line) in wrapped(value, WIDTH - INDENT).iter().enumerate() {
        let name = ui.paint(Tone::Quiet, &format!("{:<INDENT$}", if at == 0 { name } else { "" }));
        let line = tone.map_or_else(|| line.clone(), |tone| ui.paint(tone, line));
        ui.line(&format!("{name}{line}"));
    }
}

/// The rules in force.
struct Rules {
    digest: Option<Digest>,
    files: Vec<String>,
    /// How many.
    count: Option<usize>,
    preset: Option<&'static str>,
    /// Why what lies in the folder is not in force.
    problems: Vec<Problem>,
}

impl Rules {
    /// Those that lie in the policy folder; if they can't be read, those that the journal says were in force before.
    fn find(reader: &Reader, folder: Result<Rulebook, Vec<Problem>>) -> Result<Self, Failure> {
        let problems = match folder {
            Ok(book) => {
                let files = book.files().map(str::to_owned).collect();
                let (digest, count) = (Some(book.digest()), Some(book.policies().len()));
                return Ok(Self { digest, files, count, preset: preset_of(&book), problems: Vec::new() });
            }
            Err(problems) => problems,
        };
        let last = reader.entries_of_kind("rulebook-in-force")?.pop().map(|seq| reader.entry(seq)).transpose()?;
        let (digest, files) = match last.map(|entry| entry.body) {
            Some(Body::RulebookInForce(last)) => (Some(last.rulebook), last.files),
            _ => (None, Vec::new()),
        };
        let book = digest.and_then(|digest| Rulebook::read(&reader.blob(&digest).ok()?).ok());
        let (count, preset) = (book.as_ref().map(|book| book.policies().len()), book.as_ref().and_then(preset_of));
        Ok(Self { digest, files, count, preset, problems })
    }

    fn show(&self, ui: &Ui) {
        let count = self.count.map_or_else(String::new, |count| counted(count as u64, "rule", "rules"));
        let preset = self.preset.map_or_else(String::new, |preset| format!("preset {preset}"));
        let digest = self.digest.map_or_else(|| "none".to_owned(), |digest| format!("digest {}", digest.short()));
        let parts: Vec<String> = [count, preset, digest].into_iter().filter(|part| !part.is_empty()).collect();
        field(ui, None, "rules", &parts.join(", "));
        if !self.files.is_empty() {
            field(ui, None, "", &shown::text(&self.files.join(", ")));
        }
        for problem in &self.problems {
            field(ui, Some(Tone::Bad), "policy", &shown::text(&problem.to_string()));
        }
        if !self.problems.is_empty() {
            field(ui, Some(Tone::Bad), "", "until that is mended, the rules above stay in force");
        }
    }
}

/// The preset that these rules are, if nobody has changed anything.
fn preset_of(book: &Rulebook) -> Option<&'static str> {
    PRESETS.into_iter().find(|name| {
        let files = policy::preset(name).map(|(file, text)| BTreeMap::from([(file.to_owned(), text.to_owned())]));
        files.is_some_and(|files| Rulebook::load(files).is_ok_and(|shipped| shipped.digest() == book.digest()))
    })
}

/// What approvers suffer: few questions is a promise.
struct Asked {
    effects: u64,
    questions: u64,
}

impl Asked {
    fn count(reader: &Reader) -> Result<Self, Failure> {
        // An answer that covers more than one effect was still one question.
        let (mut effects, mut questions) = (0, BTreeSet::new());
        past(reader, 0, |ask| {
            effects += 1;
            questions.extend(ask.ruling.into_iter().flat_map(|ruling| ruling.asked).map(|asked| asked.question.id));
        })?;
        Ok(Self { effects, questions: questions.len() as u64 })
    }

    fn per_thousand(&self) -> u64 {
        (self.questions * 1000).checked_div(self.effects).unwrap_or(0)
    }

    fn say(&self) -> String {
        let (asked, effects) = (grouped(self.questions), counted(self.effects, "effect", "effects"));
        let rate = self.per_thousand();
        format!("{asked} asked for {effects}: {}.{} per hundred", rate / 10, rate % 10)
    }
}

/// Budgets of which 80 % are used, or whose sums are wrong.
fn near_caps(agents: &[AgentRow]) -> (Vec<String>, Vec<serde_json::Value>) {
    let (mut lines, mut values) = (Vec::new(), Vec::new());
    for row in agents {
        match capped(row) {
            Ok(capped) => {
                for line in capped.iter().filter(|line| line.is_near()) {
                    let (used, cap) = (line.unit.say(line.used.unwrap_or(0)), line.unit.say(line.cap));
                    let (agent, percent, per) = (&row.agent, line.percent(), line.period.phrase());
                    lines.push(format!("{agent}: {used} of {cap} {per}, {percent} %"));
                    values.push(json!({ "agent": agent, "line": line.json() }));
                }
            }
            Err(why) => lines.push(why.to_string()),
        }
    }
    (lines, values)
}

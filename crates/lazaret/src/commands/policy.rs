//! `lazaret policy`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use lazaret_gate::policy::{self, Comparison, Context, Kind, Policies, Problem, Request, Uid, Who, testing};
use lazaret_gate::{Rulebook, shown};
use lazaret_host::{EffectId, past_ask, read_rules};
use serde_json::json;

use super::{data_dir, open_reader, read_input};
use crate::cli::Cli;
use crate::failure::{Code, Failure};
use crate::text::{counted, grouped};
use crate::ui::{Tone, Ui};

/// Check, test and explain what agents may do
///
/// The rules are Cedar files in the data root's `policy` folder; what isn't permitted there is denied. A change takes
/// effect at the next effect. A file that can't be read leaves the rules in force that were.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check files, or the data root's, against the schema
    Check {
        /// Files to check instead of the data root's
        files: Vec<PathBuf>,
    },
    /// Print the rules in the data root, or a preset
    Show {
        /// A preset instead: locked-down, balanced or open
        #[arg(long, value_name = "NAME")]
        preset: Option<String>,
    },
    /// Run test files: requests, and what must become of them
    Test {
        /// The test files; without any, those that come with the presets
        tests: Vec<PathBuf>,
        /// Test these rules. Without, a preset that a test file names is tested as it lies in the data root, or else as it
        /// is shipped; and if the file names none, the data root's rules
        #[arg(long, value_name = "FILE")]
        policy: Vec<PathBuf>,
    },
    /// Say why an effect was decided as it was, or how one would be
    Why {
        /// A recorded effect, as `ENTRY.NUMBER`
        #[arg(conflicts_with_all = ["action", "resource"], required_unless_present = "action")]
        effect: Option<EffectId>,
        /// Who asks, as an agent's name
        #[arg(long, value_name = "NAME", default_value = "anybody")]
        agent: String,
        /// What is asked, like `http.fetch`
        #[arg(long, requires = "resource")]
        action: Option<String>,
        /// What for, like `Host::api.example.com`
        #[arg(long, requires = "action")]
        resource: Option<String>,
        /// The circumstances, as JSON
        #[arg(long, value_name = "JSON", default_value = "{}")]
        context: String,
    },
    /// Compare two sets of rules: over the recorded past, and in who may do what
    Diff {
        /// The one set
        old: PathBuf,
        /// The other
        new: PathBuf,
    },
    /// Decide the recorded past again by a draft
    Backtest {
        /// The draft
        #[arg(required = true)]
        draft: Vec<PathBuf>,
        /// How far back, like 7d, 12h or 30m
        #[arg(long, value_name = "TIME", default_value = "7d", value_parser = ago)]
        since: u64,
    },
    /// Print who may do what
    Matrix {
        /// Files instead of the data root's
        files: Vec<PathBuf>,
    },
}

/// Milliseconds of a span of time.
fn ago(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a time; write 7d, 12h or 30m");
    let unit = match text.chars().last() {
        Some('d') => 86_400_000,
        Some('h') => 3_600_000,
        Some('m') => 60_000,
        _ => return Err(bad()),
    };
    text[..text.len() - 1].parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(bad)
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    match &args.command {
        Command::Check { files } => check(cli, files, ui),
        Command::Show { preset } => show(cli, preset.as_deref(), ui),
        Command::Test { tests, policy } => test(cli, tests, policy, ui),
        Command::Why { effect: Some(id), .. } => why_recorded(cli, *id, ui),
        Command::Why { agent, action: Some(action), resource: Some(resource), context, effect: None } => {
            let request = request(agent, action, resource, context)?;
            let book = Books::of(cli, &[])?;
            explain(&book.0, &request, ui);
            Ok(Code::Done)
        }
        Command::Why { .. } => Err(Failure::Input("give an effect, or --action and --resource".into())),
        Command::Diff { old, new } => diff(cli, old, new, ui),
        Command::Backtest { draft, since } => backtest(cli, draft, *since, ui),
        Command::Matrix { files } => {
            let matrix = policy::matrix(Books::of(cli, files)?.0.policies());
            ui.json(&json!({ "matrix": matrix }));
            ui.line(matrix.trim_end());
            Ok(Code::Done)
        }
    }
}

/// A rulebook that was named or is in force.
struct Books(Rulebook);

impl Books {
    /// Of these files, or of the data root if there are none.
    fn of(cli: &Cli, files: &[PathBuf]) -> Result<Self, Failure> {
        let read = if files.is_empty() { read_rules(&data_dir(cli)?) } else { Rulebook::load(texts(files)?) };
        read.map(Self).map_err(|problems| Failure::Input(lines(&problems)))
    }
}

fn texts(files: &[PathBuf]) -> Result<BTreeMap<String, String>, Failure> {
    let mut texts = BTreeMap::new();
    for path in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bytes = read_input(path, policy::MAX_FILE)?;
        let text = String::from_utf8(bytes).map_err(|_| Failure::Input(format!("`{}` is not text", path.display())))?;
        if texts.insert(name.clone(), text).is_some() {
            return Err(Failure::Input(format!("two files are called `{name}`")));
        }
    }
    Ok(texts)
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| shown::text(&problem.to_string())).collect::<Vec<_>>().join("\n")
}

fn check(cli: &Cli, files: &[PathBuf], ui: &Ui) -> Result<Code, Failure> {
    let read = if files.is_empty() { read_rules(&data_dir(cli)?) } else { Rulebook::load(texts(files)?) };
    match read {
        Ok(book) => {
            let rules = counted(book.policies().len() as u64, "rule", "rules");
            ui.json(&json!({ "rules": book.policies().len(), "rulebook": book.digest(), "problems": [] }));
            ui.line(&format!("{} {rules}, rulebook {}", ui.paint(Tone::Good, "ok"), book.digest().short()));
            if book.policies().is_empty() {
                ui.aside(Tone::Odd, "note:", "there are no rules, so everything is denied");
            }
            Ok(Code::Done)
        }
        Err(problems) => {
            let listed: Vec<_> = problems
                .iter()
                .map(|problem| {
                    json!({ "file": problem.at.file, "line": problem.at.line, "column": problem.at.column,
                            "what": problem.what, "hint": problem.hint })
                })
                .collect();
            ui.json(&json!({ "problems": listed }));
            for problem in &problems {
                ui.aside(Tone::Bad, "problem:", &shown::text(&problem.to_string()));
            }
            Ok(Code::BadInput)
        }
    }
}

fn show(cli: &Cli, preset: Option<&str>, ui: &Ui) -> Result<Code, Failure> {
    if let Some(name) = preset {
        let (file, text) = policy::preset(name)
            .ok_or_else(|| Failure::Input(format!("there is no preset `{name}`; {}", policy::PRESETS.join(", "))))?;
        ui.json(&json!({ "file": file, "text": text }));
        ui.line(text.trim_end());
        return Ok(Code::Done);
    }
    let Books(book) = Books::of(cli, &[])?;
    let files: Vec<_> =
        book.policies().texts().iter().map(|(name, text)| json!({ "file": name, "text": text })).collect();
    ui.json(&json!({ "rulebook": book.digest(), "files": files }));
    for (name, text) in book.policies().texts() {
        ui.line(&ui.paint(Tone::Strong, &format!("// {}", shown::text(name))));
        text.lines().for_each(|line| ui.line(&shown::text(line)));
        ui.line("");
    }
    Ok(Code::Done)
}

fn test(cli: &Cli, tests: &[PathBuf], files: &[PathBuf], ui: &Ui) -> Result<Code, Failure> {
    let (mut passed, mut wrong) = (0_u64, Vec::new());
    for (name, text) in cases(tests)? {
        let bad = |why: testing::BadCases| Failure::Input(format!("{name}: {why}"));
        let policies = match testing::subject(&text).map_err(bad)? {
            Some(preset) if files.is_empty() => of_preset(cli, &preset)?,
            _ => Policies::load(Books::of(cli, files)?.0.policies().texts()).map_err(|p| Failure::Input(lines(&p)))?,
        };
        for result in testing::run(&policies, &text).map_err(bad)? {
            if result.passed {
                passed += 1;
            } else {
                ui.line(&format!("{} {}", ui.paint(Tone::Bad, "wrong"), shown::text(&format!("{name}: {result}"))));
                wrong.push(
                    json!({ "file": name, "case": result.name, "expected": result.expected, "found": result.found }),
                );
            }
        }
    }
    ui.json(&json!({ "passed": passed, "wrong": wrong }));
    ui.line(&format!("policy test: {} passed, {} wrong", grouped(passed), grouped(wrong.len() as u64)));
    Ok(if wrong.is_empty() { Code::Done } else { Code::Failed })
}

/// The files of cases that were named, or those that are shipped.
fn cases(tests: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    if tests.is_empty() {
        return Ok(testing::SHIPPED.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec());
    }
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        match String::from_utf8(read_input(path, policy::MAX_FILE)?) {
            Ok(text) => Ok((name, text)),
            Err(_) => Err(Failure::Input(format!("`{name}` is not text"))),
        }
    };
    tests.iter().map(read).collect()
}

/// A preset as it lies in the data root, or as it is shipped.
fn of_preset(cli: &Cli, name: &str) -> Result<Policies, Failure> {
    let preset = policy::preset(name).ok_or_else(|| Failure::Input(format!("there is no preset `{name}`")))?;
    let root = data_dir(cli)?;
    if root.join("policy").join(preset.0).exists() {
        let book = read_rules(&root).map_err(|problems| Failure::Input(lines(&problems)))?;
        return Policies::load(book.policies().texts()).map_err(|problems| Failure::Input(lines(&problems)));
    }
    Policies::load(&[preset]).map_err(|problems| Failure::Input(lines(&problems)))
}

pub(crate) fn request(agent: &str, action: &str, resource: &str, context: &str) -> Result<Request, Failure> {
    let kind = |text: &str| Kind::ALL.into_iter().find(|kind| kind.name() == text);
    let (named, id) = resource.split_once("::").ok_or_else(|| bad_resource(resource))?;
    let resource = Uid::new(kind(named).ok_or_else(|| bad_resource(resource))?, id.trim_matches('"'));
    let context: Context =
        serde_json::from_str(context).map_err(|why| Failure::Input(format!("--context: {why}; see docs/policy.md")))?;
    Ok(Request { principal: Who::new(Kind::Agent, agent), action: action.to_owned(), resource, context })
}

fn bad_resource(text: &str) -> Failure {
    let kinds = Kind::ALL.map(Kind::name).join(", ");
    Failure::Input(format!("`{text}` is not a resource; write KIND::ID, where KIND is one of {kinds}"))
}

/// What a set of rules says to a request, and why.
pub(crate) fn explained(book: &Rulebook, request: &Request) -> serde_json::Value {
    why_json(&book.policies().why(request))
}

fn why_json(why: &policy::Why) -> serde_json::Value {
    json!({
        "verdict": why.decision.verdict.name(), "rules": why.decision.rules, "errors": why.decision.errors,
        "reason": why.reason(), "remedy": why.remedy(), "max_response": why.response().and(why.decision.max_response.as_ref()),
        "nearest": why.nearest.as_ref().map(|(rule, failed)| json!({ "rule": rule.id, "failed": failed })),
    })
}

fn explain(book: &Rulebook, request: &Request, ui: &Ui) {
    let why = book.policies().why(request);
    ui.json(&why_json(&why));
    why.to_string().lines().for_each(|line| ui.line(&shown::text(line)));
}

fn why_recorded(cli: &Cli, id: EffectId, ui: &Ui) -> Result<Code, Failure> {
    let reader = open_reader(cli)?;
    let ask = past_ask(&reader, id)?;
    let verdict = ask.entry.outcome.verdict();
    ui.line(&format!(
        "effect {id}: {} of {} turn {}: {verdict}",
        shown::text(&ask.entry.effect.summary()),
        ask.agent,
        ask.turn
    ));
    let Some(ruling) = &ask.ruling else {
        let lazaret_gate::Outcome::Refused(refusal) = &ask.entry.outcome else { return Ok(Code::Done) };
        ui.json(&json!({ "verdict": verdict, "refusal": refusal }));
        ui.line(&shown::text(&refusal.to_string()));
        return Ok(Code::Done);
    };
    let score = format!("{}.{:03}", ruling.risk.score / 1000, ruling.risk.score % 1000);
    let terms: Vec<_> = ruling.risk.terms.iter().map(|term| format!("{} +{}", term.name, term.adds)).collect();
    ui.line(&format!("risk {} {score}: {}", ruling.risk.tier.name(), terms.join(", ")));
    for asked in &ruling.asked {
        let answer = asked.answer.as_ref().map_or_else(
            || "nobody answered".to_owned(),
            |answer| format!("{:?} by {}", answer.decision.verdict, answer.decision.by.short()).to_lowercase(),
        );
        ui.line(&format!("asked ({}): {answer}", shown::text(&asked.question.reason)));
    }
    if let lazaret_gate::Outcome::Refused(refusal) = &ask.entry.outcome {
        ui.line(&shown::text(&refusal.to_string()));
    }
    let book = Rulebook::read(&reader.blob(&ruling.under.rulebook)?).map_err(|p| Failure::Input(lines(&p)))?;
    match ask.request() {
        Some(request) => explain(&book, &request, ui),
        None => ui.line("the rules could not be asked about it"),
    }
    Ok(Code::Done)
}

fn compared(ui: &Ui, found: &Comparison) {
    let parts = [
        ("same", found.same),
        ("newly denied", found.newly_denied),
        ("newly asked", found.newly_asked),
        ("newly allowed", found.newly_allowed),
        ("unknown", found.unknown),
    ];
    for example in &found.examples {
        let rules = if example.rules.is_empty() { "no rule".to_owned() } else { example.rules.join(", ") };
        ui.line(&format!(
            "  {}  {}: {} -> {} ({rules})",
            example.id,
            shown::text(&example.what),
            example.was.name(),
            example.now.name()
        ));
    }
    let said: Vec<_> = parts.iter().map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
    ui.line(&said.join(", "));
    ui.line(&format!(
        "it would change {} of {}",
        grouped(found.changed()),
        counted(found.total(), "recorded effect", "recorded effects")
    ));
}

pub(crate) fn comparison_json(found: &Comparison) -> serde_json::Value {
    let examples: Vec<_> = found
        .examples
        .iter()
        .map(|it| json!({ "effect": it.id, "what": it.what, "was": it.was.name(), "now": it.now.name(), "rules": it.rules }))
        .collect();
    json!({
        "same": found.same, "newly_denied": found.newly_denied, "newly_asked": found.newly_asked,
        "newly_allowed": found.newly_allowed, "unknown": found.unknown, "examples": examples,
    })
}

fn backtest(cli: &Cli, draft: &[PathBuf], since: u64, ui: &Ui) -> Result<Code, Failure> {
    let (Books(old), Books(new)) = (Books::of(cli, &[])?, Books::of(cli, draft)?);
    let from = lazaret_host::now().moment.wall_ms.saturating_sub(since);
    let found = lazaret_host::backtest(&open_reader(cli)?, from, old.policies(), new.policies())?;
    ui.json(&comparison_json(&found));
    compared(ui, &found);
    Ok(Code::Done)
}

fn diff(cli: &Cli, old: &Path, new: &Path, ui: &Ui) -> Result<Code, Failure> {
    let (Books(old), Books(new)) = (Books::of(cli, &[old.to_owned()])?, Books::of(cli, &[new.to_owned()])?);
    let (before, after) = (policy::matrix(old.policies()), policy::matrix(new.policies()));
    let found = lazaret_host::backtest(&open_reader(cli)?, 0, old.policies(), new.policies())?;
    ui.json(&json!({ "past": comparison_json(&found), "matrix": [before, after] }));
    ui.line(&ui.paint(Tone::Strong, "Who may do what"));
    shown::diff(&before, &after).lines.iter().for_each(|line| ui.line(line));
    ui.line(&ui.paint(Tone::Strong, "The recorded past"));
    compared(ui, &found);
    Ok(Code::Done)
}

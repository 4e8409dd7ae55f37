//! What must hold after a fault, whatever it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lazaret_gate::Effect;
use lazaret_gate::record::Ending;

use crate::facts::{Doubt, Facts};
use crate::inject::{Ran, plain};
use crate::scene::{Scene, Step, Words};
use crate::server::Server;

/// The exit codes that `lazaret --help` names.
const CODES: std::ops::RangeInclusive<i32> = 0..=8;
const IN_DOUBT: i32 = 8;

/// The programs that a run needs, and what they are given.
pub(crate) struct Stage {
    pub(crate) lazaret: String,
    /// This very program, which is also the driver.
    pub(crate) driver: String,
    pub(crate) component: String,
    pub(crate) server: Server,
}

/// One run: a data root of its own, and what was asked of it.
pub(crate) struct Run<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) scene: &'a Scene,
    pub(crate) words: Words,
    pub(crate) home: PathBuf,
}

/// What was seen, to be added up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) runs: u64,
    pub(crate) acknowledged: u64,
    pub(crate) errors: u64,
    pub(crate) resumed: u64,
    pub(crate) in_doubt: u64,
    pub(crate) verified: u64,
    pub(crate) replayed: u64,
    pub(crate) effects: u64,
    /// Requests that may be sent twice and were.
    pub(crate) retried: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.acknowledged += other.acknowledged;
        self.errors += other.errors;
        self.resumed += other.resumed;
        self.in_doubt += other.in_doubt;
        self.verified += other.verified;
        self.replayed += other.replayed;
        self.effects += other.effects;
        self.retried += other.retried;
    }
}

/// Lines of a driver's output that begin with this word.
fn lines<'a>(out: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    out.lines().filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' '))
}

impl Run<'_> {
    pub(crate) fn root(&self) -> PathBuf {
        self.home.join("root")
    }

    /// The driver's command line for these lines of script.
    pub(crate) fn driving(&self, name: &str, lines: &[String]) -> Vec<String> {
        let script = self.home.join(name);
        fs::write(&script, lines.join("\n")).expect("a script");
        let path = |path: &Path| path.display().to_string();
        let Stage { driver, component, .. } = self.stage;
        vec![driver.clone(), crate::drive::DRIVE.to_owned(), path(&self.root()), component.clone(), path(&script)]
    }

    fn lazaret(&self, arguments: &[&str]) -> Ran {
        let root = self.root().display().to_string();
        let line: Vec<&str> =
            [self.stage.lazaret.as_str(), "--data-dir", &root].iter().chain(arguments).copied().collect();
        plain(&line)
    }

    /// Runs a command that must succeed.
    fn must(&self, arguments: &[&str]) -> Result<Ran, String> {
        let ran = self.lazaret(arguments);
        if ran.code == Some(0) && !ran.err.contains("panicked at") {
            return Ok(ran);
        }
        Err(format!("`lazaret {}` ended with {:?}: {}{}", arguments.join(" "), ran.code, ran.out, ran.err))
    }

    /// Everything, after a run that was hit or was not. `may_die`: the fault kills.
    pub(crate) fn check(&self, ran: &Ran, may_die: bool) -> Result<Seen, String> {
        let mut seen = Seen { runs: 1, ..Seen::default() };
        let mut acknowledged = self.ended_well(ran, may_die, &mut seen)?;
        // A first start that didn't get so far as to make anything has nothing to verify yet.
        if !self.scene.fresh || ran.out.contains("made ") || !acknowledged.is_empty() {
            self.must(&["journal", "verify"])?;
            seen.verified += 1;
            let facts = Facts::read(&self.root())?;
            all_there(&facts, &acknowledged)?;
            if let Some(lost) = lines(&ran.out, "back").find(|back| !is_back(&facts, back)) {
                return Err(format!("a rollback is lost: {lost}"));
            }
            if let Some(lost) = lines(&ran.out, "made").find(|name| !facts.agents.iter().any(|agent| agent == name)) {
                return Err(format!("an agent that was made is lost: {lost}"));
            }
        }
        let reopened = self.must(&["journal", "checkpoint"])?;
        seen.resumed += reopened.err.matches("was cut off and is now finished").count() as u64;
        if reopened.err.contains("not recovered:") {
            return Err(format!("a turn can't be taken up again: {}", reopened.err));
        }
        let settled = self.settle(&mut seen)?;
        let went_on = self.go_on(&settled)?;
        acknowledged.extend(lines(&went_on.out, "ack").map(str::to_owned));
        self.must(&["journal", "verify"])?;
        seen.verified += 1;
        let agents: Vec<&str> = self.scene.agents().collect();
        let replayed = self.must(&[&["replay", "verify"], agents.as_slice()].concat())?;
        seen.replayed += replayed.out.matches("MATCH\n").count() as u64;
        let facts = Facts::read(&self.root())?;
        all_there(&facts, &acknowledged)?;
        seen.acknowledged += acknowledged.len() as u64;
        self.nothing_twice(&facts, &mut seen)?;
        self.state(&facts)?;
        Ok(seen)
    }

    /// No panic, no silence, a code that is documented. Gives what was acknowledged.
    fn ended_well(&self, ran: &Ran, may_die: bool, seen: &mut Seen) -> Result<Vec<String>, String> {
        let told = format!("code {:?}\n{}\n{}", ran.code, ran.out, ran.err);
        if ran.err.contains("panicked at") || ran.out.contains("panicked at") {
            return Err(format!("a panic: {told}"));
        }
        if ran.code.is_none() && !(ran.hit && may_die) {
            return Err(format!("it hung, or was killed by something else: {told}"));
        }
        if self.scene.command {
            seen.errors += u64::from(ran.code.is_some_and(|code| code != 0));
            return match ran.code {
                Some(code) if !CODES.contains(&code) => Err(format!("an exit code that isn't documented: {told}")),
                Some(code) if code != 0 && !format!("{}{}", ran.out, ran.err).contains("error") => {
                    Err(format!("it failed without a word: {told}"))
                }
                _ => Ok(replied(&ran.out).into_iter().collect()),
            };
        }
        for why in lines(&ran.out, "error") {
            seen.errors += 1;
            if why.trim().len() < 10 {
                return Err(format!("an error that says nothing: {told}"));
            }
        }
        if !ran.hit && seen.errors > 0 {
            return Err(format!("an error though nothing was hit: {told}"));
        }
        Ok(lines(&ran.out, "ack").map(str::to_owned).collect())
    }

    /// Agents in doubt must have a reason, must say so, and can go on when a person has spoken. Gives what stands then.
    fn settle(&self, seen: &mut Seen) -> Result<Facts, String> {
        let facts = Facts::read(&self.root())?;
        if facts.in_doubt.is_empty() {
            return Ok(facts);
        }
        for Doubt { agent, open } in facts.in_doubt {
            match open.as_slice() {
                [effect] if !effect.is_idempotent() => {}
                other => return Err(format!("agent `{agent}` is in doubt about {other:?}")),
            }
            let refused = self.lazaret(&["agent", "send", &agent, "add 99"]);
            if refused.code != Some(IN_DOUBT) || !refused.err.contains("in doubt") {
                return Err(format!("agent `{agent}` is in doubt, but says {:?} {}", refused.code, refused.err));
            }
            self.must(&["agent", "settle", &agent, "--failed"])?;
            seen.in_doubt += 1;
        }
        let facts = Facts::read(&self.root())?;
        match facts.in_doubt.first() {
            None => Ok(facts),
            Some(doubt) => Err(format!("agent `{}` is still in doubt", doubt.agent)),
        }
    }

    /// Sends what isn't on record, and then asks what is remembered. Nothing may fail now.
    fn go_on(&self, facts: &Facts) -> Result<Ran, String> {
        let missing = |line: &String| !facts.agents.iter().any(|agent| line.starts_with(&format!("create {agent} ")));
        let mut script: Vec<String> = self.scene.births(self.words).into_iter().filter(missing).collect();
        for step in self.scene.steps(self.words) {
            let done = match &step {
                Step::Send(agent, text) => facts.answers(agent, text).next().is_some(),
                Step::Fork(_, new, _) => facts.agents.contains(new),
                Step::Rollback(agent, turn) => facts.backs.contains(&(agent.clone(), *turn)),
            };
            if !done {
                script.push(step.line());
            }
        }
        for agent in self.scene.agents() {
            script.extend([format!("send {agent} recall"), format!("send {agent} stored")]);
        }
        let line = self.driving("rest", &script);
        let ran = plain(&line.iter().map(String::as_str).collect::<Vec<_>>());
        if ran.code != Some(0) || lines(&ran.out, "error").next().is_some() {
            return Err(format!("it doesn't go on: {:?}\n{}\n{}", ran.code, ran.out, ran.err));
        }
        Ok(ran)
    }

    /// Every message answered once; what left the host, at most once, and once if the record says that it was done.
    fn nothing_twice(&self, facts: &Facts, seen: &mut Seen) -> Result<(), String> {
        let messages = self.scene.messages(self.words).into_iter().chain(facts.told());
        for (agent, text) in messages {
            let times = facts.answers(&agent, &text).count();
            if times != 1 {
                let text = text.chars().take(60).collect::<String>();
                return Err(format!("`{agent}` answered `{text}` {times} times"));
            }
        }
        if facts.waiting > 0 {
            return Err(format!("{} messages still wait", facts.waiting));
        }
        let drafts = drafts(&self.root().join("tools/drafts.jsonl"));
        for (effect, done) in facts.effects() {
            let (times, may_repeat) = match effect {
                Effect::ToolsCall { arguments, .. } => {
                    let body = serde_json::from_str(arguments).map(|draft| body_of(&draft)).unwrap_or_default();
                    (drafts.get(&body).copied().unwrap_or(0), false)
                }
                Effect::HttpFetch(request) => {
                    let path = request.url.splitn(4, '/').last().unwrap_or_default();
                    (self.stage.server.count(&format!("{} /{path}", request.method)), effect.is_idempotent())
                }
                _ => continue,
            };
            seen.effects += times;
            if may_repeat {
                seen.retried += times.saturating_sub(1);
            } else if times > 1 {
                return Err(format!("`{}` was done {times} times", effect.summary()));
            }
            if done && times == 0 {
                return Err(format!("`{}` is on record as done, and was not", effect.summary()));
            }
        }
        Ok(())
    }

    /// Memory and storage are what the turns on record made them.
    fn state(&self, facts: &Facts) -> Result<(), String> {
        for agent in self.scene.agents() {
            let numbers = facts.numbers(agent);
            let list: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            let stored = match numbers.len() {
                0 => "stored=none".to_owned(),
                count => format!("stored={}@{count}", numbers.iter().sum::<i64>()),
            };
            for (question, expected) in [("recall", list.join(",")), ("stored", stored)] {
                let answer = facts.answers(agent, question).last().map(|record| match &record.ending {
                    Ending::Replied(reply) => String::from_utf8_lossy(&reply.body.0).into_owned(),
                    other => format!("{other:?}"),
                });
                if answer.as_deref() != Some(&expected) {
                    return Err(format!("`{agent}` {question}: expected {expected}, got {answer:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a rollback is on record: `AGENT TURN`.
fn is_back(facts: &Facts, said: &str) -> bool {
    facts.backs.iter().any(|(agent, turn)| format!("{agent} {turn}") == said)
}

fn all_there(facts: &Facts, acknowledged: &[String]) -> Result<(), String> {
    match acknowledged.iter().find(|turn| !facts.has(turn)) {
        Some(lost) => Err(format!("an acknowledged turn is lost: {lost}")),
        None => Ok(()),
    }
}

/// What `lazaret agent send --json` printed, as the driver would have.
fn replied(out: &str) -> Option<String> {
    // An error may follow, from what was done after the reply.
    let value: serde_json::Value = serde_json::Deserializer::from_str(out).into_iter().next()?.ok()?;
    let turn = value.get("turn")?;
    Some(format!("{} {} {}", turn["agent"].as_str()?, turn["turn"], value["hash"].as_str()?))
}

fn body_of(draft: &serde_json::Value) -> String {
    draft["body"].as_str().unwrap_or_default().to_owned()
}

/// How often each draft was kept. A line that is no draft was cut by a crash.
fn drafts(path: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    for draft in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        *counts.entry(body_of(&draft)).or_insert(0) += 1;
    }
    counts
}

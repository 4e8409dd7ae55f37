//! `lazaret demo`

mod rules;
mod secret;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{Cause, Ending, Message, TapeEntry};
use lazaret_gate::refusal::Code as RefusalCode;
use lazaret_gate::{AgentId, Budget, Digest, Grants, Outcome};
use lazaret_guest::Engine;
use lazaret_host::{Host, HostError, NewAgent, Selection, Settings, Turn, Verdict};
use lazaret_store::AgentRow;

use rules::{Actor, PATIENCE_MS};

use super::data_dir;
use crate::cli::Cli;
use crate::failure::{Code, Failure};
use crate::text::{cut, grouped, visible, wrapped};
use crate::ui::{Tone, Ui};

/// Watch an untrusted agent at work, in under a minute
///
/// No key, root, network or configuration is needed. A mailbox assistant sorts a small inbox with a rehearsal model; one
/// of the mails tells it to send the invoices to a stranger. Works in a directory of its own inside the data root, which
/// it removes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Check every beat and fail if one is missing
    #[arg(long)]
    ci: bool,
}

/// The agent, as it comes out of `examples/mailbox`; CI builds it again and compares.
const COMPONENT: &[u8] = include_bytes!("../../../assets/mailbox.wasm");

const GRANTS: [&str; 6] =
    ["storage", "clock", "log", "model:rehearsal/triage", "tool:mail.*", "http:collect.example.net"];

/// The demo's own data root, gone when it is over.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        // The data root goes too if the demo made it: only an empty directory can be removed so.
        let _ = self.0.parent().map(std::fs::remove_dir);
    }
}

struct Demo<'a> {
    ui: &'a Ui,
    root: PathBuf,
    agent: AgentId,
    beats: u32,
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let scratch = Scratch(data_dir(cli)?.join(format!("demo-{}", std::process::id())));
    let agent = "mailbox".parse().map_err(|why: lazaret_gate::id::BadAgentId| Failure::Failed(why.to_string()))?;
    let mut demo = Demo { ui, root: scratch.0.join("data"), agent, beats: 0 };
    DirBuilder::new().recursive(true).mode(0o700).create(&scratch.0).map_err(|why| Failure::File {
        what: "can't make",
        path: scratch.0.display().to_string(),
        why,
    })?;
    ui.line(&ui.paint(Tone::Strong, "Lazaret: a stranger's agent, one gate, one journal"));
    demo.arrive()?;
    demo.work()?;
    demo.backtest()?;
    demo.denied()?;
    demo.capped()?;
    demo.sleep_and_wake()?;
    demo.replay()?;
    demo.tamper()?;
    demo.runaway()?;
    demo.secret()?;
    ui.line("");
    if args.ci {
        ui.line(&format!("demo: {} beats, all seen", demo.beats));
    } else {
        ui.line("That was the whole path. Next: lazaret init --lang rust, or lazaret help");
    }
    ui.json(&serde_json::json!({ "beats": demo.beats, "all_seen": true }));
    Ok(Code::Done)
}

fn missing(beat: &str, what: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the demo's beat \"{beat}\" did not happen: {what}"))
}

impl Demo<'_> {
    fn beat(&mut self, title: &str) {
        self.beats += 1;
        self.ui.line("");
        self.ui.line(&self.ui.paint(Tone::Strong, &format!("{}  {title}", self.beats)));
    }

    fn say(&self, text: &str) {
        wrapped(text, 76).iter().for_each(|line| self.ui.line(&format!("   {line}")));
    }

    fn quote(&self, text: &str) {
        for line in text.trim_end().lines() {
            for part in wrapped(&visible(line), 74) {
                self.ui.line(&format!("   {} {part}", self.ui.paint(Tone::Quiet, "│")));
            }
        }
    }

    fn host(&self) -> Result<Host, Failure> {
        Ok(Host::open(&self.root)?)
    }

    fn send(&self, host: &Host, text: &str) -> Result<Turn, Failure> {
        self.send_to(host, &self.agent, text)
    }

    fn send_to(&self, host: &Host, agent: &AgentId, text: &str) -> Result<Turn, Failure> {
        let content_type = "text/plain; charset=utf-8".to_owned();
        Ok(host.send(agent, Message::outside(content_type, text))?)
    }

    fn create(&self, host: &Host, agent: &AgentId) -> Result<AgentRow, Failure> {
        let grants = GRANTS.iter().map(|grant| grant.parse()).collect::<Result<Vec<_>, _>>();
        let grants = grants.map_err(|why: lazaret_gate::grant::BadGrant| missing("arrives", why))?;
        let budget = Budget { fuel: 200_000_000, ..Budget::default() };
        let (agent, grants, caps) = (agent.clone(), Grants::new(grants), Caps::default());
        Ok(host.create(NewAgent { agent, grants, budget, caps, slots: Default::default() }, COMPONENT)?)
    }

    fn arrive(&mut self) -> Result<(), Failure> {
        self.beat("An agent arrives, and nobody vouches for it");
        let row = self.create(&self.host()?, &self.agent)?;
        let kb = COMPONENT.len() / 1000;
        self.say(&format!("mailbox.wasm, {kb} kB, BLAKE3 {}: inspected, compiled, admitted.", row.component.short()));
        self.say(&format!("It may ask for: {}", GRANTS.join(" · ")));
        Ok(())
    }

    fn work(&mut self) -> Result<(), Failure> {
        self.beat("It sorts an inbox; whatever it asks passes the gate");
        let actor = Arc::new(Actor::new());
        let settings = Settings { patience_ms: PATIENCE_MS, person: Some(actor.clone()), ..Settings::default() };
        let turn = self.send(&Host::open_with(&self.root, settings)?, "sort")?;
        let asked: Vec<_> = turn.record.tape.iter().filter(|entry| entry.outcome.verdict() == "refusal").collect();
        let expired = |entry: &&TapeEntry| matches!(&entry.outcome, Outcome::Refused(r) if r.code == RefusalCode::ApprovalExpired);
        if !asked.iter().any(expired) {
            return Err(missing("sorts an inbox", "no question expired"));
        }
        let (mut permits, mut refusals) = (0, 0);
        for entry in &turn.record.tape {
            match &entry.outcome {
                Outcome::Refused(_) => refusals += 1,
                Outcome::Done(_) | Outcome::Failed(_) => permits += 1,
            }
            self.show_ask(entry);
        }
        self.say("Two of these were questions, on the terminal:");
        self.show_questions(&actor);
        if permits < 5 || refusals != 1 {
            return Err(missing("sorts an inbox", format!("{permits} permits, {refusals} refusals")));
        }
        let Ending::Replied(reply) = &turn.record.ending else {
            return Err(missing("sorts an inbox", format!("{:?}", turn.record.ending)));
        };
        self.say("It answers:");
        self.quote(&String::from_utf8_lossy(&reply.body.0));
        Ok(())
    }

    fn show_ask(&self, entry: &TapeEntry) {
        let tone = if matches!(entry.outcome, Outcome::Refused(_)) { Tone::Bad } else { Tone::Good };
        let verdict = self.ui.paint(tone, &format!("{:<7}", entry.outcome.verdict()));
        self.ui.line(&format!("   {verdict}  {}", visible(&cut(&entry.effect.summary(), 66))));
        if let Outcome::Refused(refusal) = &entry.outcome {
            for (name, text) in [("why", &refusal.reason), ("remedy", &refusal.remedy)] {
                for (at, line) in wrapped(&visible(text), 59).iter().enumerate() {
                    let name = if at == 0 { name } else { "" };
                    self.ui.line(&format!("            {} {line}", self.ui.paint(Tone::Quiet, &format!("{name:<6}"))));
                }
            }
        }
    }

    fn sleep_and_wake(&mut self) -> Result<(), Failure> {
        self.beat("It sleeps as bytes on disk, and wakes in another process");
        let image = self.host()?.known(&self.agent)?.image.ok_or_else(|| missing("sleeps", "it has no image"))?;
        self.say(&format!("Asleep: image {}, no process. A new one is started:", image.short()));
        self.say("$ lazaret agent send mailbox report");
        let program = std::env::current_exe().map_err(|why| missing("wakes", why))?;
        let output = Command::new(program)
            .args(["agent", "send", "mailbox", "report"])
            .env("LAZARET_DATA_DIR", &self.root)
            .output()
            .map_err(|why| missing("wakes", why))?;
        let reply = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || reply.trim().is_empty() {
            return Err(missing("wakes", String::from_utf8_lossy(&output.stderr)));
        }
        self.quote(&reply);
        Ok(())
    }

    fn replay(&mut self) -> Result<(), Failure> {
        self.beat("Anybody can run the record again and gets the same bytes");
        let host = self.host()?;
        let selection = Selection { agent: self.agent.clone(), turns: None };
        let mut turns = Vec::new();
        host.replay(&selection, |_, record, verdict| {
            let fuel = grouped(record.fuel);
            let result =
                if *verdict == Verdict::Match { self.ui.paint(Tone::Good, "MATCH") } else { format!("{verdict:?}") };
            self.ui.line(&format!(
                "   turn {}  {:>2} effects  {fuel:>11} fuel  {result}",
                record.turn,
                record.tape.len()
            ));
            turns.push(verdict.clone());
        })?;
        if turns.len() < 2 || turns.iter().any(|verdict| *verdict != Verdict::Match) {
            return Err(missing("run the record again", format!("{turns:?}")));
        }
        let bundle = host.export(std::slice::from_ref(&selection))?;
        drop(host);
        let engine = Engine::new().map_err(HostError::from)?;
        let report = lazaret_host::verify_bundle(&engine, &bundle, |_, _, _| {})?;
        if report.verdicts.iter().any(|(_, _, _, verdict)| *verdict != Verdict::Match) {
            return Err(missing("run the record again", "the bundle does not match"));
        }
        self.say("The same from one file, offline, by a stranger: signatures, proofs, digests, re-execution: MATCH");
        write(&self.bundle_path(), &bundle)
    }

    fn bundle_path(&self) -> PathBuf {
        self.root.with_file_name("mailbox.bundle")
    }

    fn tamper(&mut self) -> Result<(), Failure> {
        self.beat("One byte of a copy is changed");
        let path = self.bundle_path();
        let mut copy = std::fs::read(&path).map_err(|why| Failure::File {
            what: "can't read",
            path: path.display().to_string(),
            why,
        })?;
        // The last reply's own bytes: what the agent is recorded to have said.
        let mark = b"\"replied\":{\"body\":\"";
        let at = copy
            .windows(mark.len())
            .rposition(|window| window == mark)
            .ok_or_else(|| missing("one byte", "no reply"))?;
        let byte = at + mark.len();
        copy[byte] = if copy[byte] == b'A' { b'B' } else { b'A' };
        let engine = Engine::new().map_err(HostError::from)?;
        match lazaret_host::verify_bundle(&engine, &copy, |_, _, _| {}) {
            Err(HostError::Bundle(why)) if why.to_string().contains("entry") => {
                self.ui.line(&format!("   {}  {}", self.ui.paint(Tone::Bad, "MISMATCH"), visible(&why.to_string())));
                Ok(())
            }
            Err(why) => Err(missing("one byte", why)),
            Ok(_) => Err(missing("one byte", "the change went unseen")),
        }
    }

    fn runaway(&mut self) -> Result<(), Failure> {
        self.beat("It goes into an endless loop");
        let host = self.host()?;
        let before = host.known(&self.agent)?.image;
        let turn = self.send(&host, "runaway")?;
        let Ending::Stopped(stop) = &turn.record.ending else {
            return Err(missing("endless loop", format!("{:?}", turn.record.ending)));
        };
        if stop.cause != Cause::Fuel || turn.record.image_after != before {
            return Err(missing("endless loop", format!("stopped by {}", stop.cause.name())));
        }
        self.ui.line(&format!("   {}  {}", self.ui.paint(Tone::Bad, "stopped"), visible(&stop.detail)));
        let Ending::Replied(_) = self.send(&host, "report")?.record.ending else {
            return Err(missing("endless loop", "it does not answer any more"));
        };
        let kept = before.map_or_else(String::new, |image: Digest| image.short());
        self.say(&format!("Nothing of that turn was kept: it wakes from image {kept} again, and answers."));
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|why| Failure::File {
        what: "can't write",
        path: path.display().to_string(),
        why,
    })
}
